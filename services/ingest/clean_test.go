package ingest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestBatchIsCleanedLikeItsEvents checks that a batch, which reuses the texts of the
// previous event, is cleaned as its events are one by one.
func TestBatchIsCleanedLikeItsEvents(t *testing.T) {
	m := redact.New()
	word := rapid.SampledFrom([]string{"", "a", "\u200b", "a\u202e", "http://u:p@x/?token=abc", "Bearer abcdefghijklmnop", strings.Repeat("x", 2*maxURL)})
	rapid.Check(t, func(t *rapid.T) {
		batch := make([]telemetry.Event, rapid.IntRange(0, 8).Draw(t, "n"))
		for i := range batch {
			batch[i] = telemetry.Event{
				Kind: telemetry.KindAction, App: word.Draw(t, "app"), Session: word.Draw(t, "session"), Release: word.Draw(t, "release"), URL: word.Draw(t, "url"),
				Action: &telemetry.Action{Type: telemetry.ActionClick, Target: "#a"},
			}
		}
		single := slices.Clone(batch)
		for i := range single {
			cleanEvent(&single[i], m, arrival)
		}
		cleanEvents(batch, m, arrival)
		if !reflect.DeepEqual(batch, single) {
			t.Errorf("got  %v\nwant %v", batch, single)
		}
	})
}

// countingMasker counts how often it masks an app.
type countingMasker struct {
	fakeMasker
	apps int
}

func (m *countingMasker) Event(e *telemetry.Event) {
	if e.App != "" {
		m.apps++
	}
}

// TestSharedAppIsMaskedOnce checks that an app that all events share is masked once, also
// if their other shared texts differ.
func TestSharedAppIsMaskedOnce(t *testing.T) {
	batch := make([]telemetry.Event, 10)
	for i := range batch {
		batch[i] = telemetry.Event{
			Kind: telemetry.KindLog, App: "web", Session: fmt.Sprint(i), URL: fmt.Sprint("/", i),
			Log: &telemetry.Log{Level: telemetry.LevelInfo, Message: "x"},
		}
	}
	m := &countingMasker{}
	cleanEvents(batch, m, arrival)
	if m.apps != 1 || batch[9].App != "web" || batch[9].Session != "9" || batch[9].URL != "/9" {
		t.Errorf("the app was masked %d times, the last event is %+v; want once, and app web, session 9, URL /9", m.apps, batch[9])
	}
}

func TestArgumentsAreCleanAndBounded(t *testing.T) {
	got := stripArgs([]any{"a\u200bb", 1.5, true, nil, map[string]any{"k\u202e": []any{"x\x1b"}}})
	want := []any{"ab", 1.5, true, nil, map[string]any{"k": []any{"x\u241b"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("stripArgs (-want +got):\n%s", cmp.Diff(want, got))
	}
	many := make([]any, 10*maxValues)
	if got := cutArgs(many); len(got) != maxValues+1 || got[maxValues] != ellipsis {
		t.Errorf("%d values, the last is %v, want %d and %s", len(got), got[len(got)-1], maxValues+1, ellipsis)
	}
	long := cutArgs([]any{strings.Repeat("x", 2*maxArgs), "next"})
	if n := len(long[0].(string)); n > maxArgs+len(ellipsis) || long[1] != ellipsis {
		t.Errorf("%d bytes, then %v, want at most %d and %s", n, long[1], maxArgs+len(ellipsis), ellipsis)
	}
	var deep any = "bottom"
	for range 10_000 {
		deep = map[string]any{"\u200bdown": []any{deep}}
	}
	if text := fmt.Sprint(cutArgs(stripArgs([]any{deep}))); strings.Contains(text, "bottom") || !strings.Contains(text, ellipsis) {
		t.Errorf("got %.300s, want %s and not the bottom", text, ellipsis)
	}
}

func TestHeadersAreCleanAndBounded(t *testing.T) {
	got := cutHeaders(stripHeaders(map[string]string{"X-\u200bA": "v\x00"}))
	if !reflect.DeepEqual(got, map[string]string{"X-A": "v\u2400"}) {
		t.Errorf("got %v, want X-A: v\u2400", got)
	}
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("h%04d", i)] = "v"
	}
	if got := cutHeaders(many); len(got) != maxHeaders || got["h0000"] != "v" {
		t.Errorf("%d headers, h0000 is %q, want %d, and \"v\"", len(got), got["h0000"], maxHeaders)
	}
	large := map[string]string{"a": strings.Repeat("x", 2*maxHeader), "b": "short"}
	if got := cutHeaders(large); len([]rune(got["a"])) != maxHeader || got["b"] != "short" {
		t.Errorf("a has %d characters, b is %q, want %d and \"short\"", len([]rune(got["a"])), got["b"], maxHeader)
	}
}
