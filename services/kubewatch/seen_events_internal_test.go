package kubewatch

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSeenEvents(t *testing.T) {
	start := time.Unix(1000, 0)
	s := newSeenEvents[string](5*time.Second, 2)
	for i, step := range []struct {
		key  string
		at   float64
		want bool
	}{
		{"a", 0, false},
		{"a", 4.9, true},
		{"a", 5, false}, // the window starts when the key is new
		{"b", 5, false},
		{"b", 6, true},
		{"c", 6, false}, // the third key: a is forgotten
		{"b", 6, true},
		{"c", 6, true},
		{"a", 6, false},
		{"b", 6, false}, // forgotten for a
	} {
		if got := s.checkAndAdd(step.key, start.Add(time.Duration(step.at*float64(time.Second)))); got != step.want {
			t.Errorf("step %d: checkAndAdd(%s) at %v s = %t, want %t", i, step.key, step.at, got, step.want)
		}
	}
}

// TestSeenEventsModel compares seenEvents, below its limit, with a map of times.
func TestSeenEventsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		s := newSeenEvents[int](time.Second, limit)
		model := map[int]time.Time{}
		now := time.Unix(1000, 0)
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "pause")) * time.Millisecond)
			key := rapid.IntRange(1, limit).Draw(t, "key") // at most limit different keys
			at, known := model[key]
			want := known && now.Sub(at) < time.Second
			if got := s.checkAndAdd(key, now); got != want {
				t.Fatalf("checkAndAdd(%d) = %t, want %t", key, got, want)
			}
			if !want {
				model[key] = now
			}
		}
	})
}
