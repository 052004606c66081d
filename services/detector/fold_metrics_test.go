package detector

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
)

// TestEvictionsNamesAll checks that every eviction count of a fold has a label value.
func TestEvictionsNamesAll(t *testing.T) {
	if got, want := len(evictions(fold.Evicted{})), reflect.TypeFor[fold.Evicted]().NumField(); got != want {
		t.Errorf("evictions has %d labels, want %d", got, want)
	}
}

// TestFoldMetrics checks that each count is exported once, and that a restored fold that
// counts from a lower number lowers nothing.
func TestFoldMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	refreshes := 0
	m := newFoldMetrics(func() { refreshes++ })
	registry.MustRegister(m)
	var exported fold.Stats
	for _, now := range []fold.Stats{
		{Hidden: 3, Suppressed: 2, Evicted: fold.Evicted{Pages: 1}},
		{Hidden: 3, Suppressed: 5, SuppressedLost: 1, Recurring: 4, Untracked: 6, Evicted: fold.Evicted{Pages: 4}},
		{Hidden: 4, Suppressed: 5, SuppressedLost: 1, Recurring: 1, Untracked: 7, Evicted: fold.Evicted{Pages: 4}}, // an app with 3 bursts was evicted
	} {
		m.add(exported, now)
		exported = now
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if refreshes != 1 {
		t.Errorf("a scrape read the folds' counters %d times, want once", refreshes)
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}
