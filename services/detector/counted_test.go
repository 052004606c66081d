package detector

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
)

// TestForgottenNamesAll: what a fold evicts has a name each, and none is left out.
func TestForgottenNamesAll(t *testing.T) {
	if got, want := len(forgotten(fold.Evicted{})), reflect.TypeFor[fold.Evicted]().NumField(); got != want {
		t.Errorf("%d names for %d counts", got, want)
	}
}

// TestTally: each event is counted once, however often somebody looks, and a fold
// that was restored and counts anew takes nothing back.
func TestTally(t *testing.T) {
	registry := prometheus.NewRegistry()
	asked := 0
	tally := newTally(func() { asked++ })
	registry.MustRegister(tally)
	var told fold.Stats
	for _, now := range []fold.Stats{
		{Hidden: 3, Held: 2, Evicted: fold.Evicted{Pages: 1}},
		{Hidden: 3, Held: 5, HeldLost: 1, Recurring: 4, Untracked: 6, Evicted: fold.Evicted{Pages: 4}},
		{Hidden: 4, Held: 5, HeldLost: 1, Recurring: 1, Untracked: 7, Evicted: fold.Evicted{Pages: 4}}, // an app with 3 bursts was forgotten
	} {
		tally.add(told, now)
		told = now
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if asked != 1 {
		t.Errorf("a scrape has the folds counted %d times, want 1", asked)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "tocsin_detector_")
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			if n := m.GetCounter().GetValue(); n > 0 {
				got[name] = n
			}
		}
	}
	want := map[string]float64{
		"hidden_events_total": 4, "held_alerts_total": 5, "held_lost_alerts_total": 1, "expected_bursts_total": 4, "untracked_events_total": 7, "forgotten_total pages": 4,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
