package mcpserver_test

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestInvestigationEndIsDelivered: after the alert was delivered, the end of its investigation
// is one line with the summary, once: by observe, by a hook, as a notification, and also if it
// is published again with another sequence. A secret in it is masked.
func TestInvestigationEndIsDelivered(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "investigated")
	c.call(t, "configure_streaming", `{"action":"enable","throttle_seconds":1}`)
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	investigation := func(status alert.InvestigationStatus) alert.Investigation {
		return alert.Investigation{
			SessionID: "01JSESSION", Status: status, Summary: "The pool is too small. " + secret, Confidence: alert.Likely,
			SuggestedChange: &alert.SuggestedChange{File: "pool.go", Description: "Raise the size.\u202e"}, URL: "http://127.0.0.1:7480/sessions/01JSESSION",
		}
	}
	check := func(how, text string, a alert.Alert) {
		t.Helper()
		for _, want := range []string{
			`"title":"Investigation completed: ` + a.Title + `"`, `"summary":"The pool is too small. `, `"confidence":"likely"`,
			`"suggested_change":{"file":"pool.go","description":"Raise the size.","from":"model"}`, `"context":{}`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: got %s, want %s", how, text, want)
			}
		}
		for _, not := range []string{secret, "\u202e", `"revises"`} {
			if strings.Contains(text, not) {
				t.Errorf("%s: got %s, want no %q", how, text, not)
			}
		}
	}
	received := func(n int) {
		t.Helper()
		if !testrig.Poll(func() bool { got, _ := c.health(t); return got == n }) {
			t.Fatalf("timed out: the gateway has not received %d alerts", n)
		}
	}

	first := r.Alert(alert.Error)
	first.Context = map[string]any{"route": "/cart"}
	r.Publish(t, first)
	if m := c.next(t); m.Method != "notifications/message" {
		t.Fatalf("got %s, want a notification", m.raw)
	}
	c.pending(t, 1)
	if got := c.delivered(t); !strings.Contains(got, first.ID) {
		t.Fatalf("got %s, want the alert", got)
	}
	r.Publish(t, alert.RevisionFor(first, investigation(alert.InvestigationInProgress)))
	received(2)
	if got := c.delivered(t); got != "" {
		t.Errorf("got %s after the start of the investigation, want nothing", got)
	}
	end := alert.RevisionFor(first, investigation(alert.InvestigationCompleted))
	r.Publish(t, end)
	m := c.next(t)
	if m.Method != "notifications/message" {
		t.Fatalf("got %s, want a notification", m.raw)
	}
	check("notification", m.raw, first)
	c.pending(t, 1)
	blocks := c.call(t, "observe", `{"what":"noise"}`).blocks
	if len(blocks) != 2 || !strings.Contains(blocks[1], `"id":"`+first.ID+`"`) || strings.Count(blocks[1], `"id":`) != 1 {
		t.Fatalf("got %q, want one alert with the id %s", blocks, first.ID)
	}
	check("observe", blocks[1], first)

	data, err := end.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	r.PublishRaw(t, "alerts.web.errors.error", data) // the bus has forgotten the id
	received(4)
	if got := c.delivered(t); got != "" {
		t.Errorf("got %s after the end was published again, want nothing", got)
	}
	count := first
	count.ID, count.Revises, count.Count = "count", first.ID, 7
	r.Publish(t, count)
	received(5)
	if history := c.call(t, "observe", `{"what":"alerts","limit":1}`).blocks[0]; !strings.Contains(history, `"count":7`) || !strings.Contains(history, `"status":"completed"`) {
		t.Errorf("the newest alert of the history is %s, want the count 7 with the completed investigation", history)
	}
	for _, id := range []string{first.ID, count.ID} {
		if got := c.read(t, "tocsin://alerts/"+id); !strings.Contains(got, `"count":7`) || !strings.Contains(got, `"status":"completed"`) {
			t.Errorf("the resource of %s is %s, want the count 7 with the completed investigation", id, got)
		}
	}

	second := r.Alert(alert.Error)
	r.Publish(t, second)
	c.pending(t, 1)
	c.delivered(t)
	if err := c.hangUp(t); err != nil {
		t.Fatal(err)
	}
	late := investigation(alert.InvestigationCompleted)
	late.SessionID = "01JOTHER"
	r.Publish(t, alert.RevisionFor(second, late))
	check("hook", r.Hook(t, "investigated", testrig.Call("PostToolUse")), second)
	again := r.open(t, "investigated")
	again.pending(t, 0)
}
