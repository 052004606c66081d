package errortrack_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/errortrack"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

func log(e *errortrack.Errors, message string, after time.Duration) (alert.Alert, bool) {
	event := &telemetry.Event{URL: "http://localhost:3000/cart", Log: &telemetry.Log{Level: telemetry.LevelError, Message: message, Source: "cart.js:10:5"}}
	return e.Log("web", event, false, template.Append(nil, message), start.Add(after))
}

func TestLog(t *testing.T) {
	steps := []struct {
		after   time.Duration
		message string
		want    string
	}{
		{0, "Order 17 not found", "New error: Order <n> not found"},
		{time.Second, "Order 18 not found", ""},
		{2 * time.Second, `No "apples"`, "New error: No <str>"},
		{2 * time.Second, "", "New error: (no message)"},
		{time.Second + 30*time.Minute - time.Millisecond, "Order 19 not found", ""},
		{61 * time.Minute, "Order 20 not found", "Error is back: Order <n> not found"},
		{91*time.Minute - time.Millisecond, "Order 20 not found", ""},
		{121*time.Minute - time.Millisecond, "Order 20 not found", "Error is back: Order <n> not found"},
		{10 * time.Minute, "Order 21 not found", ""}, // a clock set back is no silence
	}
	errors := errortrack.New()
	for _, s := range steps {
		a, _ := log(errors, s.message, s.after)
		if a.Title != s.want {
			t.Errorf("at %v: title = %q, want %q", s.after, a.Title, s.want)
		}
	}
}

func TestAlert(t *testing.T) {
	a, raised := log(errortrack.New(), "Order 17 not found", 0)
	if !raised {
		t.Fatal("got no alert about a new error, want one")
	}
	if diff := cmp.Diff(alert.Alert{
		Title: "New error: Order <n> not found", Detail: "Order 17 not found", DedupKey: "errors:web:4e22d7a571a1e799", URL: "http://localhost:3000/cart",
		Severity: alert.Error, Category: alert.Errors, Source: alert.SourceErrors,
		Context: map[string]any{
			"source": "cart.js:10:5", "fingerprint": "4e22d7a571a1e799", "fingerprint_version": 1, "grouped_by": "message",
			"state": "new", "seen": int64(1), "first_seen": "2026-01-28T14:30:00.000Z",
		},
	}, a); diff != "" {
		t.Errorf("alert (-want +got):\n%s", diff)
	}
}

// TestErrorsOfTools checks that an error of a browser extension and one of the app with the
// same message are two errors.
func TestErrorsOfTools(t *testing.T) {
	errors := errortrack.New()
	event := &telemetry.Event{Log: &telemetry.Log{Level: telemetry.LevelError, Message: "boom"}}
	keys := map[string]bool{}
	for i, tool := range []bool{true, false, true, false} {
		a, raised := errors.Log("web", event, tool, []byte("boom"), start)
		if want := i < 2; raised != want {
			t.Errorf("line %d: raised = %v, want %v", i, raised, want)
		}
		if raised {
			keys[a.DedupKey] = true
		}
	}
	if len(keys) != 2 {
		t.Errorf("dedup keys = %v, want 2", keys)
	}
}

func TestBoundedAndRestored(t *testing.T) {
	errors := errortrack.New()
	for i := range errortrack.MaxErrors {
		log(errors, "error "+letters(i), 0)
	}
	log(errors, "error "+letters(0), time.Second)
	again := errortrack.New()
	snapshottest.Copy(t, errors, again)
	for name, e := range map[string]*errortrack.Errors{"undisturbed": errors, "restored": again} {
		if _, raised := log(e, "one more", 2*time.Second); !raised {
			t.Errorf("%s: got no alert about one error more, want one", name)
		}
		var got []bool
		for i := range 3 {
			_, raised := log(e, "error "+letters(i), 3*time.Second)
			got = append(got, raised)
		}
		// 0 was used again, and 1 was the oldest and was evicted. Its return evicted 2.
		if want := []bool{false, true, true}; !slices.Equal(got, want) {
			t.Errorf("%s: raised = %v, want %v", name, got, want)
		}
		if got := e.Evicted(); got != 3 {
			t.Errorf("%s: Evicted() = %d, want 3", name, got)
		}
		if got := e.Len(); got != errortrack.MaxErrors {
			t.Errorf("%s: Len() = %d, want %d", name, got, errortrack.MaxErrors)
		}
	}
}

// letters writes a number in letters, which a template keeps.
func letters(n int) string {
	out := []byte(fmt.Sprint(n))
	for i := range out {
		out[i] += 'g' - '0'
	}
	return string(out)
}

func BenchmarkKnown(b *testing.B) {
	b.ReportAllocs()
	errors := errortrack.New()
	event := &telemetry.Event{Log: &telemetry.Log{Level: telemetry.LevelError, Message: "Order 17 not found"}}
	known := template.Append(nil, event.Log.Message)
	for b.Loop() {
		errors.Log("web", event, false, known, start)
	}
}
