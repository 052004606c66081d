package mcpserver_test

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestRaisingRevisionIsDelivered: an alert that was delivered as information is delivered
// again when a revision makes it an error: by observe and as a notification, by a gateway
// that was started in between, and by a hook. Other revisions are not.
func TestRaisingRevisionIsDelivered(t *testing.T) {
	r := newRig(t)
	raise := func(first alert.Alert, severity alert.Severity) alert.Alert {
		a := r.Alert(severity)
		a.Revises, a.DedupKey = first.ID, first.DedupKey
		r.Publish(t, a)
		return a
	}
	has := func(how, text string, first, revision alert.Alert) {
		t.Helper()
		for _, want := range []string{`"id":"` + first.ID + `"`, `"severity":"error"`, revision.Title} {
			if how == "notification" && strings.HasPrefix(want, `"id"`) {
				continue // it has no id
			}
			if !strings.Contains(text, want) || strings.Contains(text, `"revises"`) {
				t.Errorf("%s: got %s, want %s and no revises", how, text, want)
			}
		}
	}
	c := r.open(t, "raised")
	c.call(t, "configure_streaming", `{"action":"enable","throttle_seconds":1}`) // from warning on
	first := r.Alert(alert.Info)
	r.Publish(t, first)
	c.pending(t, 1)
	if got := c.delivered(t); !strings.Contains(got, first.ID) {
		t.Fatalf("got %s, want the first alert", got)
	}
	revision := raise(first, alert.Error)
	m := c.next(t)
	if m.Method != "notifications/message" {
		t.Fatalf("got %s, want a notification", m.raw)
	}
	has("notification", m.raw, first, revision)
	c.pending(t, 1)
	has("observe", c.call(t, "observe", `{"what":"noise"}`).blocks[1], first, revision)
	raise(first, alert.Error) // no more severe than that
	raise(r.Alert(alert.Info), alert.Error)
	if !testrig.Poll(func() bool { received, _ := c.health(t); return received == 4 }) {
		t.Fatal("timed out: the gateway has not received 4 alerts")
	}
	if got := c.delivered(t); got != "" {
		t.Errorf("got %s after a revision of the same severity and one of what is not known, want nothing", got)
	}

	second := r.Alert(alert.Info)
	r.Publish(t, second)
	c.pending(t, 1)
	c.delivered(t)
	if err := c.hangUp(t); err != nil {
		t.Fatal(err)
	}
	again := r.open(t, "raised")
	again.pending(t, 0)
	revision = raise(second, alert.Error)
	again.pending(t, 1)
	has("after a restart", again.call(t, "observe", `{"what":"noise"}`).blocks[1], second, revision)

	third := r.Alert(alert.Info)
	r.Publish(t, third)
	again.pending(t, 1)
	again.delivered(t)
	revision = raise(third, alert.Error)
	has("hook", r.Hook(t, "raised", testrig.Call("PostToolUse")), third, revision)
}
