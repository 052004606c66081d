package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// now returns an alert that is raised now: silences compare the time.
func (r *rig) now(severity alert.Severity) alert.Alert {
	a := r.Alert(severity)
	a.Timestamp = time.Now().UTC()
	return a
}

// again returns a repetition.
func (r *rig) again(a alert.Alert, severity alert.Severity) alert.Alert {
	next := r.now(severity)
	next.App, next.DedupKey = a.App, a.DedupKey
	return next
}

// do calls configure, which must succeed, and decodes the answer.
func (c *client) do(t *testing.T, args string) map[string]any {
	t.Helper()
	r := c.call(t, "configure", args)
	var reply map[string]any
	if r.isError || len(r.blocks) != 1 || json.Unmarshal([]byte(r.blocks[0]), &reply) != nil {
		t.Fatalf("%s: got %v, want one block of JSON", args, r.blocks)
	}
	return reply
}

// refused returns the error of a call of configure.
func (c *client) refused(t *testing.T, args string) string {
	t.Helper()
	r := c.call(t, "configure", args)
	if !r.isError || len(r.blocks) != 1 {
		t.Fatalf("%s: got %v, want it an error and of length %v", args, r.blocks, 1)
	}
	return r.blocks[0]
}

// silencedCount returns how many alerts configure health counts as suppressed.
func (c *client) silencedCount(t *testing.T) int {
	t.Helper()
	inbox, _ := c.do(t, `{"action":"health"}`)["inbox"].(map[string]any)
	n, _ := inbox["silenced"].(float64)
	return int(n)
}

// lists returns what is in force: key, category and app of each silence with how many
// alerts it suppressed, and the alerts of the acknowledgements.
func (c *client) lists(t *testing.T) string {
	t.Helper()
	reply := c.do(t, `{"action":"silence_list"}`)
	var all []string
	silences, _ := reply["silences"].([]any)
	for _, s := range silences {
		m, _ := s.(map[string]any)
		all = append(all, fmt.Sprint(m["dedup_key"], "/", m["category"], "/", m["app"], ":", m["held_back"]))
	}
	acks, _ := reply["acks"].([]any)
	for _, k := range acks {
		m, _ := k.(map[string]any)
		all = append(all, fmt.Sprint("ack ", m["alert_id"], ":", m["held_back"]))
	}
	return strings.ReplaceAll(strings.Join(all, " "), "<nil>", "")
}

// received waits until n alerts have come to a gateway, delivered or not.
func (c *client) received(t *testing.T, n int) {
	t.Helper()
	var got int
	if !testrig.Poll(func() bool { got, _ = c.health(t); return got == n }) {
		t.Fatalf("%d alerts were received, want %d", got, n)
	}
}

func TestSilence(t *testing.T) {
	r := newRig(t)
	one, two := r.open(t, "one"), r.open(t, "two")
	pending := r.now(alert.Error)
	pending.Timestamp = pending.Timestamp.Add(-3 * 24 * time.Hour)
	r.Publish(t, pending)
	one.pending(t, 1)
	two.pending(t, 1)

	reply := one.do(t, `{"action":"silence","app":"web","category":"ci","minutes":5,"reason":"a deploy with ghp_0123456789abcdefghijABCDEFGHIJ012345"}`)
	s, _ := reply["silence"].(map[string]any)
	if reply["status"] != "silenced" || s["by"] != "client one" || s["app"] != "web" || s["category"] != "ci" || s["dedup_key"] != nil {
		t.Fatalf("got %v, want a silence of web and ci by client one", reply)
	}
	if reason, _ := s["reason"].(string); !strings.Contains(reason, "[REDACTED") {
		t.Errorf("reason = %s, want the secret masked", reason)
	}
	one.lists(t) // it is in force in both by now
	two.lists(t)
	one.pending(t, 1) // what was pending before stays
	two.pending(t, 1)

	other := r.now(alert.Warning)
	other.App = "shop"
	r.Publish(t, r.now(alert.Error))
	r.Publish(t, other)
	for _, c := range []*client{one, two} {
		c.received(t, 3)
		if got := c.delivered(t); got != "alert01 alert02" {
			t.Errorf("delivered %q, want %q", got, "alert01 alert02")
		}
		if n := c.silencedCount(t); n != 1 {
			t.Errorf("%d alerts are counted as silenced, want 1", n)
		}
		if list := c.lists(t); list != "/ci/web:1" {
			t.Errorf("silences = %s, want /ci/web:1", list)
		}
	}
	history := two.call(t, "observe", `{"what":"alerts"}`).blocks[0]
	if !strings.Contains(history, pending.ID) || !strings.Contains(history, `"id":"alert03"`) {
		t.Errorf("history = %s, want %s and alert03 in it", history, pending.ID)
	}

	// A gateway that starts later suppresses the same.
	three := r.open(t, "three")
	three.received(t, 3)
	if got := three.delivered(t); got != "alert01 alert02" {
		t.Errorf("delivered %q, want %q", got, "alert01 alert02")
	}

	if got := two.do(t, fmt.Sprintf(`{"action":"unsilence","silence_id":%q}`, s["id"])); got["status"] != "unsilenced" || got["silence_id"] != s["id"] {
		t.Errorf("got %v, want it unsilenced", got)
	}
	for _, c := range []*client{one, two, three} {
		if list := c.lists(t); list != "" {
			t.Errorf("silences = %s, want none", list)
		}
	}
	r.Publish(t, r.now(alert.Error))
	for _, c := range []*client{two, three} {
		c.pending(t, 1) // and not what was suppressed meanwhile
		if got := c.delivered(t); got != "alert04" {
			t.Errorf("delivered %q, want %q", got, "alert04")
		}
	}
	four := r.open(t, "four")
	four.received(t, 4)
	if got := four.delivered(t); got != "alert04 alert01 alert02" {
		t.Errorf("delivered %q, want %q", got, "alert04 alert01 alert02")
	}
}

func TestAcknowledge(t *testing.T) {
	r := newRig(t)
	one, two := r.open(t, "one"), r.open(t, "two")
	first := r.now(alert.Warning)
	r.Publish(t, first)
	one.pending(t, 1)
	two.pending(t, 1)
	if got := one.delivered(t); got != "alert01" {
		t.Fatalf("delivered %q, want %q", got, "alert01")
	}
	reply := one.do(t, `{"action":"ack","alert_id":"alert01"}`) // by the history
	until, err := time.Parse(time.RFC3339, fmt.Sprint(reply["until"]))
	if reply["status"] != "acknowledged" || reply["alert_id"] != "alert01" || reply["dedup_key"] != first.DedupKey || err != nil || time.Until(until) < 23*time.Hour {
		t.Fatalf("ack = %v (%v), want alert01 acknowledged for 24 h", reply, err)
	}
	two.pending(t, 0)
	r.Publish(t, r.again(first, alert.Info))
	r.Publish(t, r.now(alert.Info))
	for _, c := range []*client{one, two} {
		c.received(t, 3)
		c.pending(t, 1)
		if list := c.lists(t); !strings.HasPrefix(list, "ack alert01:") {
			t.Errorf("silences = %s, want the acknowledgement of alert01", list)
		}
	}

	// It gets worse: all is delivered again, and the acknowledgement ends on the bus.
	r.Publish(t, r.again(first, alert.Error))
	r.Publish(t, r.again(first, alert.Info))
	for _, c := range []*client{one, two} {
		c.received(t, 5)
		c.pending(t, 2)
		if !testrig.Poll(func() bool { return c.lists(t) == "" }) {
			t.Errorf("timed out: silences = %s, want none", c.lists(t))
		}
	}
	if text := one.refused(t, `{"action":"ack","alert_id":"alert01"}`); text != "alert alert01 was raised again with a higher severity, as alert04: acknowledge that one" {
		t.Errorf("got %v, want %v", text, "alert alert01 was raised again with a higher severity, as alert04: acknowledge that one")
	}
	one.do(t, `{"action":"ack","alert_id":"alert05"}`) // while it is pending, merged: as severe as the worst
	r.Publish(t, r.again(first, alert.Error))
	for _, c := range []*client{one, two} {
		c.received(t, 6)
		if got := c.delivered(t); got != "alert03" {
			t.Errorf("delivered %q, want %q", got, "alert03")
		}
	}

	// It is resolved: that is delivered, and what comes then.
	over := r.again(first, alert.Info)
	over.Resolves = "alert06"
	r.Publish(t, over)
	r.Publish(t, r.again(first, alert.Warning))
	for _, c := range []*client{one, two} {
		c.received(t, 8)
		if got := c.delivered(t); got != "alert08 alert07" {
			t.Errorf("delivered %q, want %q", got, "alert08 alert07")
		}
	}
	if text := one.refused(t, `{"action":"ack","alert_id":"alert04"}`); text != "alert alert04 is already resolved, by alert07" {
		t.Errorf("got %v, want %v", text, "alert alert04 is already resolved, by alert07")
	}
	one.do(t, `{"action":"ack","alert_id":"alert08"}`)
	if reply := two.do(t, `{"action":"unack","alert_id":"alert08"}`); reply["status"] != "unacknowledged" || one.lists(t) != "" {
		t.Errorf("got %v, want it unacknowledged, and nothing in force", reply)
	}
	r.Publish(t, r.again(first, alert.Warning))
	two.pending(t, 1)
}

// TestSilencedIsNotStreamed: alerts raised after the silence. Those in the batch stay in
// it, unless they are acknowledged.
func TestSilencedIsNotStreamed(t *testing.T) {
	t.Parallel() // it waits for the throttle
	r := newRig(t)
	c := r.open(t, "")
	// Long enough for everything before the batch is sent, on a busy machine too.
	c.call(t, "configure_streaming", `{"action":"enable","throttle_seconds":5}`)
	r.Publish(t, r.now(alert.Error))
	if m := c.next(t); !strings.Contains(m.raw, "alert01") {
		t.Fatalf("got %v, want %q in it", m.raw, "alert01")
	}
	silenced, acked := r.now(alert.Error), r.now(alert.Error)
	silenced.Timestamp = silenced.Timestamp.Add(-time.Second)
	r.Publish(t, silenced)
	r.Publish(t, acked)
	c.pending(t, 3)
	c.do(t, fmt.Sprintf(`{"action":"silence","dedup_key":%q}`, silenced.DedupKey))
	c.do(t, fmt.Sprintf(`{"action":"ack","alert_id":%q}`, acked.ID))
	again := r.again(silenced, alert.Error)
	r.Publish(t, again)
	last := r.now(alert.Error)
	r.Publish(t, last)
	m := c.next(t)
	if !strings.Contains(m.raw, last.ID) || !strings.Contains(m.raw, silenced.ID) || strings.Contains(m.raw, again.ID) || strings.Contains(m.raw, acked.ID) {
		t.Errorf("got %v, want it with %q and with %q and without %q and without %q", m.raw, last.ID, silenced.ID, again.ID, acked.ID)
	}
}

// TestSilencesOverTheBussEnd: they are kept, and changes on an unreachable bus are
// refused.
func TestSilencesOverTheBussEnd(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "one")
	c.do(t, `{"action":"silence","app":"web"}`)
	r.Down()
	for _, args := range []string{`{"action":"silence","app":"x"}`, `{"action":"silence_list"}`, `{"action":"unsilence","silence_id":"x"}`, `{"action":"ack","alert_id":"x"}`} {
		if text := c.refused(t, args); !strings.HasPrefix(text, "the bus is unreachable") {
			t.Errorf("%s: got %s, want %q at its start", args, text, "the bus is unreachable")
		}
	}
	r.Up(t)
	r.Publish(t, r.now(alert.Error))
	c.received(t, 1)
	if got := c.delivered(t); got != "" {
		t.Errorf("delivered %q, want %q", got, "")
	}
	if list := c.lists(t); list != "//web:1" {
		t.Errorf("silences = %s, want //web:1", list)
	}
	other := r.open(t, "two")
	silenced := other.do(t, `{"action":"silence","app":"shop"}`)
	a := r.now(alert.Error)
	a.App = "shop"
	r.Publish(t, a)
	c.received(t, 2)
	c.pending(t, 0) // the silence may come a little later than the alert
	if got := c.delivered(t); got != "" {
		t.Errorf("after the restart %q is delivered, want nothing: %v", got, silenced)
	}
}

// TestWaitAppliesSilences, also those that it has to read first.
func TestWaitAppliesSilences(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "one")
	c.do(t, `{"action":"silence","app":"web"}`)
	r.Publish(t, r.now(alert.Error))
	c.received(t, 1)
	if block, err := r.wait(t.Context(), "shell", "", 500*time.Millisecond); !errors.Is(err, delivery.ErrNoAlert) {
		t.Errorf("wait = %q, %v, want %v", block, err, delivery.ErrNoAlert)
	}
	a := r.now(alert.Error)
	a.App = "shop"
	r.Publish(t, a)
	if block, err := r.wait(t.Context(), "shell", "", patience); err != nil || testrig.Titles(t, block) != "alert02" {
		t.Errorf("wait = %q, %v, want alert02", block, err)
	}
}

// TestHooksApplySilences: also the end of an acknowledgement that no gateway has seen.
func TestHooksApplySilences(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "other")
	c.do(t, `{"action":"silence","app":"shop"}`)
	if got := r.Hook(t, "agent", testrig.Call("PostToolUse")); got != "" {
		t.Fatalf("got %v, want nothing", got)
	}
	first := r.now(alert.Warning)
	r.Publish(t, first)
	c.do(t, `{"action":"ack","alert_id":"alert01"}`)
	if err := c.hangUp(t); err != nil {
		t.Fatal(err)
	}
	shop := r.now(alert.Error)
	shop.App = "shop"
	r.Publish(t, shop)
	r.Publish(t, r.again(first, alert.Warning))
	for _, event := range []string{"PostToolUse", "UserPromptSubmit", "Stop"} {
		if got := r.Hook(t, "agent", testrig.Call(event)); got != "" {
			t.Errorf("%s delivers %s, want nothing", event, got)
		}
	}
	r.Publish(t, r.again(first, alert.Error))
	r.Publish(t, r.again(first, alert.Warning))
	if got := testrig.DeliveredTitles(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))); got != "alert05" {
		t.Errorf("the hook delivered %s, want the more severe alert05", got)
	}

	// A document of another version is neither applied nor written over.
	late := r.open(t, "late")
	own := r.Join(t, bus.RoleGateway)
	kv, err := own.JS.KeyValue(t.Context(), bus.BucketSilences)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), bus.KeySilences, []byte(`{"silences":"all"}`)); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{`{"action":"silence","app":"web"}`, `{"action":"unsilence","silence_id":"x"}`, `{"action":"silence_list"}`} {
		if got := late.refused(t, args); !strings.HasPrefix(got, "another version has written") || !strings.Contains(got, "nats kv del silences silences") {
			t.Errorf("%s: got %s, want it with %q and with %q", args, got, "another version has written", "nats kv del silences silences")
		}
	}
	r.Publish(t, shop)
	if got := testrig.DeliveredTitles(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))); got != "alert02" {
		t.Errorf("the hook delivered %s, want alert02: a document that can't be read suppresses nothing", got)
	}
}

// TestSilencesThatWereDeleted with another tool end for running gateways, as for readers
// that read them once, and later silences apply.
func TestSilencesThatWereDeleted(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "one")
	if got := r.Hook(t, "agent", testrig.Call("PostToolUse")); got != "" {
		t.Fatalf("got %v, want nothing", got)
	}
	kv, err := r.Join(t, bus.RoleGateway).JS.KeyValue(t.Context(), bus.BucketSilences)
	if err != nil {
		t.Fatal(err)
	}
	for i, remove := range []func(context.Context, string, ...jetstream.KVDeleteOpt) error{kv.Delete, kv.Purge} {
		c.do(t, `{"action":"silence","app":"web"}`)
		r.Publish(t, r.now(alert.Error))
		c.received(t, 3*i+1)
		if got := c.delivered(t) + r.Hook(t, "agent", testrig.Call("PostToolUse")); got != "" {
			t.Errorf("delivered %q, want %q", got, "")
		}
		// A document that can't be read is deleted too.
		if _, err := kv.Put(t.Context(), bus.KeySilences, []byte(`{"silences":"all"}`)); err != nil {
			t.Fatal(err)
		}
		if err := remove(t.Context(), bus.KeySilences); err != nil {
			t.Fatal(err)
		}
		if list := c.lists(t); list != "" {
			t.Errorf("silences = %s, want none", list)
		}
		for n := range 2 {
			a := r.now(alert.Error)
			r.Publish(t, a)
			c.received(t, 3*i+2+n)
			if got, want := c.delivered(t), a.ID; got != want {
				t.Errorf("delivered %q, want %q", got, want)
			}
			if got := testrig.DeliveredTitles(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))); got != a.ID {
				t.Errorf("a hook delivers %q, want %q", got, a.ID)
			}
		}
	}
}

func TestSilenceArguments(t *testing.T) {
	c := newRig(t).open(t, "one")
	for args, want := range map[string]string{
		`{"action":"silence"}`:                                                 "silence must have one of dedup_key, category, app; alerts must match all that it has",
		`{"action":"silence","app":""}`:                                        "silence must have one of dedup_key",
		`{"action":"silence","app":"web","minutes":0}`:                         "minutes must be between 1 and 10080",
		`{"action":"silence","app":"web","minutes":10081}`:                     "minutes must be between 1 and 10080",
		`{"action":"silence","app":"web","minutes":1.5}`:                       "minutes must be between 1 and 10080, in whole numbers",
		`{"action":"silence","category":"weather"}`:                            "category must be one of regression, anomaly, errors, network_errors, ci, noise, threshold, security, user_frustration, kubernetes",
		`{"action":"silence","dedup_key":"` + strings.Repeat("k", 1025) + `"}`: "dedup_key must be a text of at most 1024 bytes",
		`{"action":"silence","app":"` + strings.Repeat("a", 257) + `"}`:        "app must be a text of at most 256 bytes",
		`{"action":"silence","dedup_key":"errors:we…"}`:                        `dedup_key is truncated (it ends with "…") and would match nothing: use the whole key, observe {"what":"alerts"} shows it`,
		`{"action":"silence","app":"web","reason":7}`:                          "reason must be a text",
		`{"action":"silence","app":"web","until":"later"}`:                     "unknown argument until",
		`{"action":"ack"}`:                              "alert_id must be the id of an alert: every delivered alert has one",
		`{"action":"ack","alert_id":"unknown"}`:         `alert_id must be the id of an alert of the last 7 days: observe {"what":"alerts","since_seconds":604800} shows them`,
		`{"action":"unack","alert_id":"unknown"}`:       "alert_id must be that of an acknowledgement in force: silence_list shows them",
		`{"action":"unsilence"}`:                        "silence_id must be the id of a silence: silence_list shows them",
		`{"action":"unsilence","silence_id":"unknown"}`: "silence_id must be that of a silence in force: silence_list shows them",
		`{"action":"quiet"}`:                            "action must be one of streaming, noise, clear, health, ack, unack, silence, silence_list, unsilence",
	} {
		if got := c.refused(t, args); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %q at its start", args, got, want)
		}
	}
	if got := c.call(t, "configure", `{"action":"silence_list"}`).blocks[0]; got != `{"silences":[],"acks":[]}` {
		t.Errorf("silences = %s, want none: a refused call changes nothing", got)
	}
}

// TestAKeyMayEndWithAnEllipsis: a page's button may be called "More…".
func TestAKeyMayEndWithAnEllipsis(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "one")
	a := r.now(alert.Warning)
	a.DedupKey = "user_frustration:web:rage_click:More…"
	r.Publish(t, a)
	c.received(t, 1)
	if got := c.refused(t, `{"action":"silence","dedup_key":"user_frustration:web:rage…"}`); !strings.Contains(got, "the whole key") {
		t.Errorf("got %v, want %q in it", got, "the whole key")
	}
	c.do(t, fmt.Sprintf(`{"action":"silence","dedup_key":%q}`, a.DedupKey))
	if list := c.lists(t); list != a.DedupKey+"//:0" {
		t.Errorf("silences = %s, want %s//:0", list, a.DedupKey)
	}
}

// provisioner is a session in the role that may do everything.
const provisioner = bus.Role("provisioner")

// TestSilencesAreLimited: the hundred and first is refused, with what to do.
func TestSilencesAreLimited(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "one")
	for i := range silence.MaxSilences {
		c.do(t, fmt.Sprintf(`{"action":"silence","app":"app%d"}`, i))
	}
	if got := c.refused(t, `{"action":"silence","app":"more"}`); !strings.Contains(got, "100 silences already") || !strings.Contains(got, "unsilence") {
		t.Errorf("got %v, want it with %q and with %q", got, "100 silences already", "unsilence")
	}
	// An older bus has no bucket: silencing is refused with that reason, and alerts are
	// delivered.
	if err := r.Join(t, provisioner).JS.DeleteKeyValue(t.Context(), bus.BucketSilences); err != nil {
		t.Fatal(err)
	}
	if got := c.refused(t, `{"action":"silence","app":"more"}`); !strings.Contains(got, "restart it with this version") {
		t.Errorf("got %v, want %q in it", got, "restart it with this version")
	}
	late := r.open(t, "late")
	r.Publish(t, r.now(alert.Error))
	late.pending(t, 1)
	if got := late.call(t, "configure", `{"action":"silence_list"}`).blocks[0]; got != `{"silences":[],"acks":[]}` {
		t.Errorf("got %v, want %v", got, `{"silences":[],"acks":[]}`)
	}
}
