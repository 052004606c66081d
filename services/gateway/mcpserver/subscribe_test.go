package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/query"
)

func TestSubscribe(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	c := r.open(t, "")
	k.publishEvent(t, "dev", "shop") // of the past

	events := c.follow(t, `{"namespaces":["shop","shop","bank"],"labelSelector":"app = web","mode":"","type":""}`)
	if got, _ := json.Marshal(events.Filters); events.Mode != "events" || events.Cluster != "dev" || events.Degraded || events.Note != "" ||
		string(got) != `{"labelSelector":"app=web","namespaces":["bank","shop"]}` {
		t.Errorf("got %+v, want filters for bank and shop in dev", events)
	}
	faults := c.follow(t, `{"cluster":"dev","namespaces":["shop"],"mode":"faults"}`)

	first := k.publishEvent(t, "dev", "shop")
	c.event(t, events.SubscriptionID, first)
	k.publishEvent(t, "dev", "secret")
	k.publishEvent(t, "prod", "shop")
	twice := k.event("dev", "shop")
	k.publish(t, "", twice)
	k.publish(t, "", twice)
	c.event(t, events.SubscriptionID, twice.Event.Message)

	f := k.fault("dev", "shop")
	f.Event.Message = "token ghp_0123456789abcdefghijABCDEFGHIJ012345 \x1b[31m\nnext"
	k.publish(t, f.Fault.ID+"firing", f)
	p := c.push(t)
	if p.Level != "warning" || p.Logger != "kubernetes/faults" || p.Data.SubscriptionID != faults.SubscriptionID || p.Data.FaultID != f.Fault.ID || !p.Data.LogsFollow || p.Data.Logs != nil {
		t.Errorf("got %+v, want the fault, with logs to follow", p)
	}
	if strings.Contains(p.Data.Event.Message, "ghp_") || strings.ContainsAny(p.Data.Event.Message, "\x1b\n") {
		t.Errorf("got %q, want no secret and no control characters", p.Data.Event.Message)
	}
	f.Logs = []kube.Log{{Container: "web", HasPanic: true, Sample: "panic: x\n\tmain.go:1\n"}}
	k.publish(t, f.Fault.ID+"/logs", f)
	if p := c.push(t); p.Data.FaultID != f.Fault.ID || p.Data.LogsFollow || len(p.Data.Logs) != 1 || !p.Data.Logs[0].HasPanic || p.Data.Logs[0].Sample != "panic: x\n\tmain.go:1\n" {
		t.Errorf("got %+v, want the fault with its logs", p)
	}
	f.Fault.State = kube.StateOver
	k.publish(t, f.Fault.ID+"over", f)
	k.publish(t, "", &kube.Message{Cluster: "dev", Watch: &kube.Watch{}}) // as healthy as before
	last := k.publishEvent(t, "dev", "shop")
	c.event(t, events.SubscriptionID, last)

	var list struct {
		Subscriptions []struct {
			SubscriptionID, Mode string
			Delivered, Dropped   int
			Degraded             bool
		}
	}
	if !testrig.Poll(func() bool {
		if err := json.Unmarshal([]byte(c.call(t, "events_list_subscriptions", `{}`).blocks[0]), &list); err != nil {
			t.Fatal(err)
		}
		return len(list.Subscriptions) == 2 && list.Subscriptions[0].Delivered == 3 && list.Subscriptions[1].Delivered == 2
	}) {
		t.Errorf("got %+v, want 3 and 2 delivered", list)
	}
	if s := list.Subscriptions[0]; s.SubscriptionID != events.SubscriptionID || s.Mode != "events" || s.Dropped != 0 || s.Degraded {
		t.Errorf("got %+v, want the first, with nothing dropped", s)
	}
	if text := c.call(t, "configure", `{"action":"health"}`).blocks[0]; !strings.Contains(text, `"kubernetes":{"clusters":["dev"],"subscriptions":2,"degraded":0}`) {
		t.Errorf("got %v, want %q in it", text, `"kubernetes":{"clusters":["dev"],"subscriptions":2,"degraded":0}`)
	}
	all := r.present(t, func(all []query.Health) bool { return len(all) == 1 })
	if all[0].Gateway.Subscriptions != 2 {
		t.Errorf("got %+v, want %v", all[0].Gateway, 2)
	}
	if r := c.call(t, "events_unsubscribe", `{"subscriptionId":"`+events.SubscriptionID+`"}`); r.isError || r.blocks[0] != `{"cancelled":true}` {
		t.Errorf("got %v, want that it is cancelled", r)
	}
	if why := c.fails(t, "events_unsubscribe", `{"subscriptionId":"`+events.SubscriptionID+`"}`); !strings.Contains(why, "not found") {
		t.Errorf("got %v, want %q in it", why, "not found")
	}
}

func TestSubscribeRefuses(t *testing.T) {
	r := newRig(t)
	r.startKubewatch(t, "dev", "prod/eu")
	c := r.open(t, "")
	for args, want := range map[string]string{
		`{"type":"Warning"}`:                                "cluster must be one that is watched: dev, prod/eu",
		`{"cluster":"stage","type":"Warning"}`:              "cluster must be one that is watched: dev, prod/eu",
		`{"cluster":"prod_eu","type":"Warning"}`:            "cluster must be one that is watched: dev, prod/eu",
		`{"cluster":"dev"}`:                                 "set at least one of namespaces",
		`{"cluster":"dev","mode":"all"}`:                    "mode must be one of events, faults",
		`{"cluster":"dev","type":"Bad"}`:                    "type must be one of Normal, Warning",
		`{"cluster":"dev","namespaces":"shop"}`:             "namespaces must be a list",
		`{"cluster":"dev","namespaces":["A/B"]}`:            "namespaces must be a list",
		`{"cluster":"dev","labelSelector":"app in web"}`:    "labelSelector must be a label selector",
		`{"cluster":"dev","kind":"Pod"}`:                    "unknown argument kind; the arguments are cluster, mode, namespaces",
		`{"cluster":"dev","mode":"faults","type":"Normal"}`: "type must be Warning",
	} {
		if why := c.fails(t, "events_subscribe", args); !strings.Contains(why, want) {
			t.Errorf("%s: got %s, want %q in it", args, why, want)
		}
	}
	if why := c.fails(t, "events_unsubscribe", `{}`); !strings.Contains(why, "subscriptionId must be") {
		t.Errorf("got %v, want %q in it", why, "subscriptionId must be")
	}
	if text := c.call(t, "events_list_subscriptions", `{}`).blocks[0]; text != `{"subscriptions":[],"clusters":["dev","prod/eu"]}` {
		t.Errorf("got %v, want %v", text, `{"subscriptions":[],"clusters":["dev","prod/eu"]}`)
	}
	if why := c.fails(t, "events_list_subscriptions", `{"cluster":"dev"}`); why != "unknown argument cluster; there are no arguments" {
		t.Errorf("got %v, want %v", why, "unknown argument cluster; there are no arguments")
	}
}

// TestSubscriptionLevels: a client's own logging level applies, and the answer has a note.
func TestSubscriptionLevels(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	c := r.open(t, "")
	c.ask(t, "logging/setLevel", `{"level":"warning"}`)
	events := c.follow(t, `{"namespaces":["shop"]}`)
	if !strings.Contains(events.Note, "logging/setLevel to info") {
		t.Errorf("got %+v, want %q in it", events, "logging/setLevel to info")
	}
	faults := c.follow(t, `{"namespaces":["shop"],"mode":"faults"}`)
	if faults.Note != "" {
		t.Errorf("got %+v, want nothing", faults)
	}
	k.publishEvent(t, "dev", "shop")
	k.publish(t, "", k.fault("dev", "shop"))
	if p := c.push(t); p.Data.SubscriptionID != faults.SubscriptionID {
		t.Errorf("got %+v, want %v", p, faults.SubscriptionID)
	}
	if !testrig.Poll(func() bool {
		return strings.Contains(c.call(t, "events_list_subscriptions", `{}`).blocks[0], `"delivered":0,"withheld":1`)
	}) {
		t.Error("timed out: the withheld message is not counted")
	}
	c.ask(t, "logging/setLevel", `{"level":"error"}`)
	if s := c.follow(t, `{"namespaces":["shop"],"mode":"faults"}`); !strings.Contains(s.Note, "logging/setLevel to warning") {
		t.Errorf("got %+v, want %q in it", s, "logging/setLevel to warning")
	}
	// A client that initializes again has neither level nor subscriptions.
	c.initialize(t, "2025-11-25")
	if s := c.follow(t, `{"namespaces":["shop"]}`); s.Note != "" {
		t.Errorf("got %+v, want nothing", s)
	}
	last := k.publishEvent(t, "dev", "shop")
	if p := c.push(t); p.Data.Event.Message != last {
		t.Errorf("got %+v, want %v", p, last)
	}
}

// TestSubscriptionOfAProtocolWithoutPushes: the answer has a note that nothing comes, and
// nothing does.
func TestSubscriptionOfAProtocolWithoutPushes(t *testing.T) {
	r := newRig(t)
	r.protocol = mcpserver.Latest
	k := r.startKubewatch(t, "dev")
	c := r.dial(t, "")
	call := func(tool, args string) string {
		t.Helper()
		return c.ask(t, "tools/call", `{"name":"`+tool+`","arguments":`+args+`,`+meta+`}`).tool(t).blocks[0]
	}
	if text := call("events_subscribe", `{"namespaces":["shop"]}`); !strings.Contains(text, "2026-07-28 forbids unsolicited messages") {
		t.Errorf("got %v, want %q in it", text, "2026-07-28 forbids unsolicited messages")
	}
	k.publishEvent(t, "dev", "shop")
	if !testrig.Poll(func() bool { return strings.Contains(call("events_list_subscriptions", `{}`), `"withheld":1`) }) {
		t.Errorf("timed out: subscriptions = %s, want 1 withheld message", call("events_list_subscriptions", `{}`))
	}
}

// TestSubscribeOverHTTP: notifications go to the client's stream, wait for one where there
// is none, and none comes after the end of the subscription.
func TestSubscribeOverHTTP(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{})
	h := r.begin(t, url, "hearer")
	id := h.follow(t, `{"namespaces":["shop"]}`)
	other := h.follow(t, `{"namespaces":["shop"],"reason":"Back"}`)
	// The client does not listen yet.
	var want []string
	for range 3 {
		want = append(want, k.publishEvent(t, "dev", "shop"))
	}
	if text := h.tool(t, "events_unsubscribe", `{"subscriptionId":"`+other+`"}`); !strings.Contains(text, "cancelled") {
		t.Fatalf("got %v, want %q in it", text, "cancelled")
	}
	lines := h.listen(t)
	for _, message := range want {
		if p := lines.push(t); p.Data.SubscriptionID != id || p.Data.Event.Message != message {
			t.Fatalf("got %+v, want %s", p, message)
		}
	}
	if text := h.tool(t, "events_unsubscribe", `{"subscriptionId":"`+id+`"}`); !strings.Contains(text, "cancelled") {
		t.Fatalf("got %v, want %q in it", text, "cancelled")
	}
	last := h.follow(t, `{"namespaces":["bank"]}`)
	k.publishEvent(t, "dev", "shop")
	message := k.publishEvent(t, "dev", "bank")
	if p := lines.push(t); p.Data.SubscriptionID != last || p.Data.Event.Message != message {
		t.Fatalf("got %+v, want %s", p, message)
	}
}
