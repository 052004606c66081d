package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/ratelimit"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
)

func at(ms int) time.Time { return time.UnixMilli(1_770_000_000_000 + int64(ms)) }

func TestAllow(t *testing.T) {
	steps := []struct {
		key        string
		ms         int
		suppressed int
		allowed    bool
	}{
		{"a", 0, 0, true}, {"a", 100, 0, true}, {"a", 200, 0, true}, {"a", 300, 0, true}, {"a", 400, 0, true},
		{"a", 500, 0, true}, {"a", 600, 0, true}, {"a", 700, 0, true}, {"a", 800, 0, true}, {"a", 900, 0, true},
		{"a", 1000, 0, false},   // the eleventh in 10 s
		{"b", 1000, 0, true},    // another key
		{"a", 9_999, 0, false},  // still
		{"a", 10_000, 2, true},  // the first has left the window: this one counts the two that were suppressed
		{"a", 10_001, 0, false}, // the window is full again
		{"a", 10_100, 1, true},  // the second has left the window
		{"a", 100_000, 0, true}, // calm again
		{"b", 100_000, 0, true},
		{"a", 100_000, 0, true}, // at one instant
		{"a", 100_001, 0, true}, {"a", 100_001, 0, true}, {"a", 100_001, 0, true}, {"a", 100_001, 0, true},
		{"a", 100_001, 0, true}, {"a", 100_001, 0, true}, {"a", 100_001, 0, true}, {"a", 100_001, 0, true},
		{"a", 100_001, 0, false},
		{"a", 50_000, 1, true}, // the clock was set back
	}
	l := ratelimit.New()
	for i, s := range steps {
		suppressed, allowed := l.Allow([]byte(s.key), at(s.ms))
		if suppressed != s.suppressed || allowed != s.allowed {
			t.Errorf("step %d: Allow(%s, %d ms) = %d, %v, want %d, %v", i, s.key, s.ms, suppressed, allowed, s.suppressed, s.allowed)
		}
		l = restored(t, l)
	}
}

// TestAllowUncounted checks that a revision is one of the 10, and does not change the count of
// suppressed alerts.
func TestAllowUncounted(t *testing.T) {
	l := ratelimit.New()
	for i := range 12 {
		if allowed, want := l.AllowUncounted([]byte("a"), at(i)), i < 10; allowed != want {
			t.Errorf("revision %d: allowed = %v, want %v", i, allowed, want)
		}
	}
	if _, allowed := l.Allow([]byte("a"), at(100)); allowed {
		t.Error("allowed = true after 10 revisions, want false")
	}
	l = restored(t, l)
	if !l.AllowUncounted([]byte("a"), at(10_000)) {
		t.Error("allowed = false when the first revision has left the window, want true")
	}
	if suppressed, allowed := l.Allow([]byte("a"), at(10_001)); suppressed != 1 || !allowed {
		t.Errorf("Allow = %d, %v, want 1, true: revisions are not counted", suppressed, allowed)
	}
}

// TestAllowRetry checks that an alert that is retried until it is published counts once.
func TestAllowRetry(t *testing.T) {
	l := ratelimit.New()
	key := []byte("a")
	for i := range 10 {
		l.Allow(key, at(i))
	}
	l.Allow(key, at(20))
	l.Allow(key, at(21))
	for i := range 5 {
		if suppressed, allowed := l.AllowRetry(key, at(30+i)); suppressed != 0 || allowed {
			t.Errorf("AllowRetry = %d, %v without room, want 0, false", suppressed, allowed)
		}
	}
	l = restored(t, l)
	if suppressed, allowed := l.AllowRetry(key, at(10_000)); suppressed != 1 || !allowed {
		t.Errorf("AllowRetry = %d, %v, want 1, true: one other alert was suppressed", suppressed, allowed)
	}
	if suppressed, allowed := l.Allow(key, at(10_001)); suppressed != 0 || !allowed {
		t.Errorf("Allow = %d, %v, want 0, true: all are counted already", suppressed, allowed)
	}
	if suppressed, allowed := l.AllowRetry([]byte("forgotten"), at(10_001)); suppressed != 0 || !allowed {
		t.Errorf("AllowRetry of a forgotten key = %d, %v, want 0, true", suppressed, allowed)
	}
}

// TestLimiterProperties checks that at most 10 alerts of a key are published in 10 s, that none
// is suppressed while there is room, and that the counts add up.
func TestLimiterProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ratelimit.New()
		now := 0
		published, offered, counted, waiting := map[string][]int{}, map[string]int{}, map[string]int{}, map[string]int{}
		for range rapid.IntRange(1, 200).Draw(t, "alerts") {
			now += rapid.SampledFrom([]int{0, 0, 1, 50, 900, 1000, 9_999, 10_000}).Draw(t, "gap")
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			offered[key]++
			recent := 0
			for _, ms := range published[key] {
				if ms > now-10_000 {
					recent++
				}
			}
			suppressed, allowed := l.Allow([]byte(key), at(now))
			if want := recent < 10; allowed != want {
				t.Fatalf("Allow(%s, %d ms) = %v with %d in the window, want %v", key, now, allowed, recent, want)
			}
			if allowed {
				published[key] = append(published[key], now)
				counted[key] += 1 + suppressed
				waiting[key] = 0
			} else {
				waiting[key]++
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				l = restored(t, l)
			}
		}
		for key := range offered {
			if got, want := counted[key]+waiting[key], offered[key]; got != want {
				t.Fatalf("%s: %d counted and %d suppressed since, want %d together", key, counted[key], waiting[key], want)
			}
		}
	})
}

func TestBounded(t *testing.T) {
	l := ratelimit.New()
	for range 13 {
		l.Allow([]byte("first"), at(0))
	}
	for i := range ratelimit.MaxKeys {
		l.Allow(fmt.Append(nil, i), at(0))
	}
	if l.Evicted() != 1 || l.Lost() != 3 {
		t.Errorf("%d keys evicted, %d alerts lost, want 1, 3", l.Evicted(), l.Lost())
	}
}

type fataler interface{ Fatal(...any) }

func restored(t fataler, l *ratelimit.Limiter) *ratelimit.Limiter {
	again := ratelimit.New()
	snapshottest.Copy(t, l, again)
	return again
}

func BenchmarkAllow(b *testing.B) {
	b.ReportAllocs()
	l := ratelimit.New()
	key := []byte("web\x00POST:/api/users:500")
	now := 0
	for b.Loop() {
		l.Allow(key, at(now))
		now++
	}
}
