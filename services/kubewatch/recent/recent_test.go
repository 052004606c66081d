package recent_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/kubewatch/recent"
)

func TestAgain(t *testing.T) {
	start := time.Unix(1000, 0)
	s := recent.New[string](5*time.Second, 2)
	for i, step := range []struct {
		key  string
		at   float64
		want bool
	}{
		{"a", 0, false},
		{"a", 4.9, true},
		{"a", 5, false}, // the window is from when it was new
		{"b", 5, false},
		{"b", 6, true},
		{"c", 6, false}, // the third: a is forgotten
		{"b", 6, true},
		{"c", 6, true},
		{"a", 6, false},
		{"b", 6, false}, // forgotten for a
	} {
		if got := s.Again(step.key, start.Add(time.Duration(step.at*float64(time.Second)))); got != step.want {
			t.Errorf("%d: %s at %v: %t", i, step.key, step.at, got)
		}
	}
}

// TestAgainIsAsAModel: within the bound it is a table of times.
func TestAgainIsAsAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		s := recent.New[int](time.Second, limit)
		model := map[int]time.Time{}
		now := time.Unix(1000, 0)
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "pause")) * time.Millisecond)
			key := rapid.IntRange(1, limit).Draw(t, "key") // never more keys than there is room for
			at, known := model[key]
			want := known && now.Sub(at) < time.Second
			if got := s.Again(key, now); got != want {
				t.Fatalf("%d: %t, want %t", key, got, want)
			}
			if !want {
				model[key] = now
			}
		}
	})
}
