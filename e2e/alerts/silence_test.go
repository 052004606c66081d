package alerts

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// refusal returns the text of the tool error of configure.
func refusal(t *testing.T, sys *e2etest.System, args map[string]any) string {
	t.Helper()
	_, err := sys.Agent.Call(t.Context(), "configure", args)
	var toolError *harness.ToolError
	if !errors.As(err, &toolError) {
		t.Fatalf("configure %v = %v, want a tool error", args, err)
	}
	return toolError.Text
}

// TestSilence checks that a silence of one agent suppresses alerts for all: the other
// agent, a shell, and after a restart of the bus, until it is removed. Alerts that were
// pending before are delivered, and the history has all of them.
func TestSilence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := harness.Up(t.Context(), e2etest.Binary(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop the bus: %v\n%s", err, b.Log)
		}
		e2etest.CheckLog(t, b.Log)
	}()
	one := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "one")}
	two := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "two")}
	both := []*e2etest.System{one, two}
	both[1].Call(t, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 1})
	one.PostServerError(t, "checkout", "/before")
	for _, sys := range both {
		sys.WaitReceived(t, 1)
	}
	if n := two.NextNotification(t, 10*time.Second); n.Data.Title != "Server error: GET /before → 500" {
		t.Errorf("notified of %+v, want Title \"Server error: GET /before → 500\"", n)
	}
	silenced := one.Configure(t, map[string]any{"action": "silence", "app": "checkout", "category": "network_errors", "minutes": 10, "reason": "its database moves"})
	if s := silenced.Silence; silenced.Status != "silenced" || s.App != "checkout" || s.By == "" || s.Reason != "its database moves" || s.Until.Sub(s.Created) != 10*time.Minute {
		t.Fatalf("got %+v, want Status \"silenced\", App \"checkout\", a By, Reason \"its database moves\" and Sub %v", silenced, 10*time.Minute)
	}
	two.Configure(t, map[string]any{"action": "silence_list"}) // afterwards the silence is known there

	one.PostServerError(t, "checkout", "/pay")
	one.PostServerError(t, "web", "/cart")
	for _, sys := range both {
		sys.WaitReceived(t, 3)
		if got := e2etest.Titles(sys.Observe(t, nil).Alerts); got != "Server error: GET /before → 500, Server error: GET /cart → 500" {
			t.Errorf("delivered %s, want \"Server error: GET /before → 500, Server error: GET /cart → 500\"", got)
		}
		if n := sys.Configure(t, map[string]any{"action": "health"}).Inbox.Silenced; n != 1 {
			t.Errorf("%d silenced, want 1", n)
		}
		list := sys.Configure(t, map[string]any{"action": "silence_list"})
		if len(list.Silences) != 1 || list.Silences[0].ID != silenced.Silence.ID || list.Silences[0].Suppressed != 1 {
			t.Errorf("got %+v, want 1 entry in Silences, ID %v and Suppressed 1", list, silenced.Silence.ID)
		}
	}
	if n := two.NextNotification(t, 10*time.Second); n.Data.Title != "Server error: GET /cart → 500" {
		t.Errorf("notified of %+v, want Title \"Server error: GET /cart → 500\"", n)
	}
	if history := one.Call(t, "observe", map[string]any{"what": "alerts"}); !strings.Contains(history, "GET /pay → 500") {
		t.Errorf("history: %s, want \"GET /pay → 500\" in it", history)
	}
	if code, stdout, stderr := e2etest.Tocsin(t, dir, "wait", "--client=late", "--severity=error", "--timeout=5s"); code != 0 || strings.Contains(stdout, "/pay") {
		t.Errorf("wait: exit %d: %s%s, want code 0 and no \"/pay\" in stdout", code, stdout, stderr)
	}

	// The silence survives a restart of the bus.
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := refusal(t, one, map[string]any{"action": "unsilence", "silence_id": silenced.Silence.ID}); !strings.Contains(got, "the bus is unreachable") {
		t.Errorf("got %s, want \"the bus is unreachable\" in it", got)
	}
	e2etest.CheckLog(t, b.Log)
	if b, err = harness.Up(t.Context(), e2etest.Binary(t), dir); err != nil {
		t.Fatal(err)
	}
	one.Bus, two.Bus = b, b
	one.PostServerError(t, "checkout", "/refund")
	for _, sys := range both {
		sys.WaitReceived(t, 4)
		if got := e2etest.Titles(sys.Observe(t, nil).Alerts); got != "" {
			t.Errorf("delivered %s, want nothing", got)
		}
	}
	if got := two.Configure(t, map[string]any{"action": "unsilence", "silence_id": silenced.Silence.ID}); got.Status != "unsilenced" || got.SilenceID != silenced.Silence.ID {
		t.Errorf("got %+v, want Status \"unsilenced\" and SilenceID %v", got, silenced.Silence.ID)
	}
	for _, sys := range both {
		if list := sys.Configure(t, map[string]any{"action": "silence_list"}); len(list.Silences) != 0 {
			t.Errorf("got %+v, want no entry in Silences", list)
		}
	}
	one.PostServerError(t, "checkout", "/invoice")
	for _, sys := range append(both, &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "three")}) {
		if got := e2etest.Titles(sys.TakeAlerts(t, 1)); !strings.Contains(got, "GET /invoice → 500") || strings.Contains(got, "/pay") || strings.Contains(got, "/refund") {
			t.Errorf("delivered %s, want \"GET /invoice → 500\" in it, no \"/pay\" in it and no \"/refund\" in it", got)
		}
	}
}

// TestAcknowledge checks that an acknowledged regression is not delivered again until
// it gets worse, and an acknowledged failing request not at all.
func TestAcknowledge(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	other := &e2etest.System{Bus: sys.Bus, Agent: e2etest.Join(t, sys.Bus, "other")}
	for range 4 {
		sys.PostVitals(t, "/cart", 2500)
	}
	sys.PostVitals(t, "/cart", 3300)
	delivered := sys.TakeAlerts(t, 1)
	if len(delivered) != 1 || delivered[0].Severity != alert.Warning {
		t.Fatalf("got %+v, want 1 of them and Severity %v", delivered, alert.Warning)
	}
	acked := sys.Configure(t, map[string]any{"action": "ack", "alert_id": delivered[0].ID})
	if acked.Status != "acknowledged" || acked.DedupKey != delivered[0].DedupKey || time.Until(acked.Until) < 23*time.Hour {
		t.Fatalf("got %+v, want Status \"acknowledged\", DedupKey %v and Until of at least %v", acked, delivered[0].DedupKey, 23*time.Hour)
	}
	if list := other.Configure(t, map[string]any{"action": "silence_list"}); len(list.Acks) != 1 || list.Acks[0].AlertID != delivered[0].ID {
		t.Errorf("got %+v, want 1 entry in Acks and AlertID %v", list, delivered[0].ID)
	}
	if o := other.Observe(t, nil); len(o.Alerts) != 0 {
		t.Errorf("observe of another client = %+v, want the acknowledged alert suppressed", o.Alerts)
	}
	sys.PostVitals(t, "/cart", 3300) // the same again
	sys.WaitReceived(t, 2)
	sys.PostVitals(t, "/cart", 9000) // worse
	for _, sys := range []*e2etest.System{sys, other} {
		if got := sys.TakeAlerts(t, 1); len(got) != 1 || got[0].Severity != alert.Error || got[0].Occurrences() != 1 {
			t.Errorf("got %+v, want 1 of them, Severity %v and Occurrences 1", got, alert.Error)
		}
	}
	if got := refusal(t, sys, map[string]any{"action": "ack", "alert_id": "unknown"}); !strings.Contains(got, "alert_id must be the id of an alert") {
		t.Errorf("got %s, want \"alert_id must be the id of an alert\" in it", got)
	}

	sys.PostServerError(t, "web", "/pay")
	request := sys.TakeAlerts(t, 1)[0]
	sys.Configure(t, map[string]any{"action": "ack", "alert_id": request.ID})
	for i := range 3 {
		sys.PostServerError(t, "web", "/pay")
		sys.PostServerError(t, "web", fmt.Sprint("/other", string(rune('a'+i))))
	}
	if got := e2etest.Titles(sys.TakeAlerts(t, 3)); strings.Contains(got, "/pay") {
		t.Errorf("delivered %s, want no \"/pay\" in it", got)
	}
}

// TestSilenceExpires checks that a silence ends by its own end time, which another tool
// may have set.
func TestSilenceExpires(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	const lasts = 4 * time.Second
	now := time.Now()
	list, _, err := silence.Silences(nil).Add(silence.Silence{ID: "short", App: "web", By: "an operator", Created: now, Until: now.Add(lasts)}, now)
	if err != nil {
		t.Fatal(err)
	}
	data, err := list.Encode()
	if err != nil {
		t.Fatal(err)
	}
	c, err := bus.Connect(t.Context(), bus.Config{Name: "operator", Role: bus.RoleGateway, Dir: statedir.At(sys.Bus.StateDir), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !harness.Poll(t.Context(), 10*time.Second, c.Connected) {
		t.Fatal("timed out: no connection to the bus")
	}
	kv, err := c.JS.KeyValue(t.Context(), bus.BucketSilences)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), bus.KeySilences, data); err != nil {
		t.Fatal(err)
	}
	if got := sys.Configure(t, map[string]any{"action": "silence_list"}); len(got.Silences) != 1 {
		t.Fatalf("got %+v, want 1 entry in Silences", got)
	}
	sys.PostServerError(t, "web", "/during")
	if time.Since(now) > lasts {
		t.Fatalf("raising an alert took longer than the silence of %s, want it within", lasts)
	}
	over := func() bool { return len(sys.Configure(t, map[string]any{"action": "silence_list"}).Silences) == 0 }
	if !harness.Poll(t.Context(), 10*time.Second, over) {
		t.Fatal("it does not end")
	}
	sys.PostServerError(t, "web", "/after")
	if got := e2etest.Titles(sys.TakeAlerts(t, 1)); got != "Server error: GET /after → 500" {
		t.Errorf("delivered %s, want \"Server error: GET /after → 500\"", got)
	}
}

// TestSilenceInAShell checks that silences and acknowledgements of the command line
// hold for agents.
func TestSilenceInAShell(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	sys := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "e2e")}
	shell := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := e2etest.Tocsin(t, b.StateDir, args...)
		if code != 0 || stderr != "" {
			t.Fatalf("%v: exit %d: %s%s, want code 0 and no stderr", args, code, stdout, stderr)
		}
		return stdout
	}
	if out := shell("silence", "--list"); out != "nothing is silenced or acknowledged\n" {
		t.Errorf("got %s, want \"nothing is silenced or acknowledged\\n\"", out)
	}
	out := shell("silence", "--app=shop", "--for=30m", "--reason=deploy\x1b[31m")
	_, id, found := strings.Cut(strings.TrimSpace(out), "--end ")
	if !found || !strings.HasPrefix(out, "silenced until ") {
		t.Fatalf("got %s, want it to begin with \"silenced until \"", out)
	}
	if list := shell("silence", "--list"); !strings.HasPrefix(list, id) || !strings.Contains(list, "silenced: app shop") || !strings.HasSuffix(list, ": deploy␛[31m\n") {
		t.Errorf("got %q, want it to begin with %q, \"silenced: app shop\" in it and it to end with \": deploy␛[31m\\n\"", list, id)
	}
	if seen := sys.Configure(t, map[string]any{"action": "silence_list"}); len(seen.Silences) != 1 || seen.Silences[0].ID != id || !strings.HasSuffix(seen.Silences[0].By, " in a shell") {
		t.Errorf("got %+v, want 1 of them, ID %v and By that ends with \" in a shell\"", seen.Silences, id)
	}
	sys.PostServerError(t, "shop", "/held")
	sys.PostServerError(t, "web", "/other")
	sys.WaitReceived(t, 2)
	delivered := sys.Observe(t, nil).Alerts
	if e2etest.Titles(delivered) != "Server error: GET /other → 500" {
		t.Fatalf("got %s, want \"Server error: GET /other → 500\"", e2etest.Titles(delivered))
	}
	shell("silence", "--end", id)
	out = shell("ack", delivered[0].ID)
	if !strings.HasPrefix(out, "acknowledged until ") || !strings.Contains(shell("silence", "--list"), "acknowledged: app web") {
		t.Errorf("got %s, want it to begin with \"acknowledged until \" and \"acknowledged: app web\" in shell(\"silence\", \"--list\")", out)
	}
	shell("silence", "--end", delivered[0].ID)
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"silence"}, 2, "to silence alerts"},
		{[]string{"silence", "--app=a", "--list"}, 2, "to silence alerts"},
		{[]string{"silence", "--category=x"}, 2, "--category must be one of"},
		{[]string{"silence", "--app=a", "--for=30s"}, 2, "--for must be between 1m0s and 168h0m0s"},
		{[]string{"silence", "--end=nothing"}, 1, "tocsin silence --list"},
		{[]string{"silence", "--dedup-key=cut…"}, 1, "dedup_key is truncated"},
		{[]string{"ack", "nothing"}, 1, "tocsin tail --json shows the ids"},
		{[]string{"ack"}, 2, "alert-id"},
	} {
		code, stdout, stderr := e2etest.Tocsin(t, b.StateDir, tt.args...)
		if code != tt.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: exit %d: %s%s, want code %v, no stdout, one line and %q in stderr", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
}
