package pagescript

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// shop is the body of a page with elements to click and to submit.
const shop = `<h1>A shop</h1>
<button id="buy"><b>Buy</b></button>
<form id="order" action="/ordered" target="sink"><input name="parentElement" value="secret words"><input name="getAttribute"><button class="send">Order</button></form>
<iframe name="sink" hidden></iframe>`

// tag returns the script tag.
func tag(ingestURL, app string) string {
	return fmt.Sprintf(`<script src="%s/tocsin.js" data-app="%s"></script>`, ingestURL, app)
}

// witness is a system that keeps the alerts that arrive while it observes.
type witness struct {
	*e2etest.System
	raised []alert.Alert
}

// stored waits until the stored events of an app fulfil a condition.
func (w *witness) stored(t *testing.T, what, app string, ok func([]telemetry.Event) bool) []telemetry.Event {
	t.Helper()
	var events []telemetry.Event
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		events = w.storedNow(t, what, app)
		return ok(events)
	}) {
		t.Fatalf("timed out waiting for %s of %s: got %s\n%s", what, app, inJSON(events), w.Bus.Log)
	}
	return events
}

// storedNow returns the events of an app that are stored now.
func (w *witness) storedNow(t *testing.T, what, app string) []telemetry.Event {
	t.Helper()
	entries, raised, err := w.Agent.ObserveAll(t.Context(), what, map[string]any{"app": app, "limit": 200})
	w.raised = append(w.raised, raised...)
	if err != nil {
		return nil // a busy machine: the detector did not answer in time
	}
	var events []telemetry.Event
	for _, entry := range entries {
		var e telemetry.Event
		if err := json.Unmarshal(entry, &e); err != nil {
			t.Fatalf("decode an event: %v: %s", err, entry)
		}
		events = append(events, e)
	}
	return events
}

// waitForCategories waits until there are alerts of all these categories.
func (w *witness) waitForCategories(t *testing.T, categories ...alert.Category) {
	t.Helper()
	missing := func() (left []alert.Category) {
		for _, c := range categories {
			if !slices.ContainsFunc(w.raised, func(a alert.Alert) bool { return a.Category == c }) {
				left = append(left, c)
			}
		}
		return left
	}
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		w.raised = append(w.raised, w.Observe(t, nil).Alerts...)
		return len(missing()) == 0
	}) {
		t.Errorf("alerts = %s, want also %v", inJSON(w.raised), missing())
	}
}

func inJSON(v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	const most = 8000
	return string(text[:min(len(text), most)])
}

// logged returns the first log line whose message contains a text.
func logged(events []telemetry.Event, text string) *telemetry.Event {
	for i := range events {
		if events[i].Log != nil && strings.Contains(events[i].Log.Message, text) {
			return &events[i]
		}
	}
	return nil
}

// requested returns the first request whose URL ends with a text.
func requested(events []telemetry.Event, end string) *telemetry.Event {
	for i := range events {
		if events[i].Network != nil && strings.HasSuffix(events[i].Network.URL, end) {
			return &events[i]
		}
	}
	return nil
}
