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

func TestOffer(t *testing.T) {
	steps := []struct {
		key     string
		ms      int
		held    int
		allowed bool
	}{
		{"a", 0, 0, true}, {"a", 100, 0, true}, {"a", 200, 0, true}, {"a", 300, 0, true}, {"a", 400, 0, true},
		{"a", 500, 0, true}, {"a", 600, 0, true}, {"a", 700, 0, true}, {"a", 800, 0, true}, {"a", 900, 0, true},
		{"a", 1000, 0, false},   // the eleventh in 10 s
		{"b", 1000, 0, true},    // another key
		{"a", 9_999, 0, false},  // still
		{"a", 10_000, 2, true},  // the first has left the window: this one says that two more were
		{"a", 10_001, 0, false}, // and takes its place in it
		{"a", 10_100, 1, true},  // the second has left
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
		held, allowed := l.Allow([]byte(s.key), at(s.ms))
		if held != s.held || allowed != s.allowed {
			t.Errorf("step %d, %s at %d ms: %d, %v", i, s.key, s.ms, held, allowed)
		}
		l = restored(t, l)
	}
}

// A revision has its place among the 10, and neither raises nor takes a count.
func TestOfferUncounted(t *testing.T) {
	l := ratelimit.New()
	for i := range 12 {
		if allowed := l.AllowUncounted([]byte("a"), at(i)); allowed != (i < 10) {
			t.Errorf("revision %d: %v", i, allowed)
		}
	}
	if _, allowed := l.Allow([]byte("a"), at(100)); allowed {
		t.Error("revisions take no place")
	}
	l = restored(t, l)
	if !l.AllowUncounted([]byte("a"), at(10_000)) {
		t.Error("the first has left the window")
	}
	if held, allowed := l.Allow([]byte("a"), at(10_001)); held != 1 || !allowed {
		t.Errorf("got %d, %v; what was suppressed counts, two revisions don't", held, allowed)
	}
}

// TestOfferAgain: an alert that comes until it leaves is in the count once.
func TestOfferAgain(t *testing.T) {
	l := ratelimit.New()
	key := []byte("a")
	for i := range 10 {
		l.Allow(key, at(i))
	}
	l.Allow(key, at(20))
	l.Allow(key, at(21))
	for i := range 5 {
		if held, allowed := l.AllowRetry(key, at(30+i)); held != 0 || allowed {
			t.Errorf("there is no room: %d, %v", held, allowed)
		}
	}
	l = restored(t, l)
	if held, allowed := l.AllowRetry(key, at(10_000)); held != 1 || !allowed {
		t.Errorf("got %d, %v; besides it, one was suppressed", held, allowed)
	}
	if held, allowed := l.Allow(key, at(10_001)); held != 0 || !allowed {
		t.Errorf("got %d, %v; nothing is suppressed any more", held, allowed)
	}
	if held, allowed := l.AllowRetry([]byte("forgotten"), at(10_001)); held != 0 || !allowed {
		t.Errorf("got %d, %v, of what was forgotten meanwhile", held, allowed)
	}
}

// However alerts are offered: never 11 of a key in 10 s, never one suppressed
// while there was room, and the counts add up.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := ratelimit.New()
		now := 0
		left, offered, counted, held := map[string][]int{}, map[string]int{}, map[string]int{}, map[string]int{}
		for range rapid.IntRange(1, 200).Draw(t, "alerts") {
			now += rapid.SampledFrom([]int{0, 0, 1, 50, 900, 1000, 9_999, 10_000}).Draw(t, "gap")
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			offered[key]++
			recent := 0
			for _, ms := range left[key] {
				if ms > now-10_000 {
					recent++
				}
			}
			more, allowed := l.Allow([]byte(key), at(now))
			if allowed != (recent < 10) {
				t.Fatalf("%s at %d: leaves %v with %d in the window", key, now, allowed, recent)
			}
			if allowed {
				left[key] = append(left[key], now)
				counted[key] += 1 + more
				held[key] = 0
			} else {
				held[key]++
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				l = restored(t, l)
			}
		}
		for key := range offered {
			if counted[key]+held[key] != offered[key] {
				t.Fatalf("%s: %d reported and %d held of %d", key, counted[key], held[key], offered[key])
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
		t.Errorf("%d keys evicted, %d alerts lost", l.Evicted(), l.Lost())
	}
}

type fataler interface{ Fatal(...any) }

func restored(t fataler, l *ratelimit.Limiter) *ratelimit.Limiter {
	again := ratelimit.New()
	snapshottest.Copy(t, l, again)
	return again
}

func BenchmarkOffer(b *testing.B) {
	b.ReportAllocs()
	l := ratelimit.New()
	key := []byte("web\x00POST:/api/users:500")
	now := 0
	for b.Loop() {
		l.Allow(key, at(now))
		now++
	}
}
