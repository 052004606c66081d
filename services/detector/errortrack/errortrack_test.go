package errortrack_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

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
			t.Errorf("at %v: %q, want %q", s.after, a.Title, s.want)
		}
	}
}

func TestAlert(t *testing.T) {
	a, news := log(errortrack.New(), "Order 17 not found", 0)
	if !news || a.Detail != "Order 17 not found" || a.DedupKey != "errors:web:4e22d7a571a1e799" || a.URL != "http://localhost:3000/cart" ||
		a.Severity != alert.Error || a.Category != alert.Errors || a.Source != alert.SourceErrors ||
		a.Context["source"] != "cart.js:10:5" || a.Context["fingerprint"] != "4e22d7a571a1e799" {
		t.Errorf("got %+v", a)
	}
}

// An extension that says the same words must not take the app's error away.
func TestToolsAreApart(t *testing.T) {
	errors := errortrack.New()
	event := &telemetry.Event{Log: &telemetry.Log{Level: telemetry.LevelError, Message: "boom"}}
	keys := map[string]bool{}
	for i, tool := range []bool{true, false, true, false} {
		a, news := errors.Log("web", event, tool, []byte("boom"), start)
		if news != (i < 2) {
			t.Errorf("line %d: news %v", i, news)
		}
		if news {
			keys[a.DedupKey] = true
		}
	}
	if len(keys) != 2 {
		t.Errorf("keys %v", keys)
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
		if _, news := log(e, "one more", 2*time.Second); !news {
			t.Errorf("%s: one more must be new", name)
		}
		var got []bool
		for i := range 3 {
			_, news := log(e, "error "+letters(i), 3*time.Second)
			got = append(got, news)
		}
		// 0 was used again, 1 was the oldest and had to go; asking for it drove
		// 2 out.
		if want := []bool{false, true, true}; !slices.Equal(got, want) || e.Evicted() != 3 || e.Len() != errortrack.MaxErrors {
			t.Errorf("%s: news %v, %d evicted of %d", name, got, e.Evicted(), e.Len())
		}
	}
}

// letters spells a number in letters, which a template keeps.
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
