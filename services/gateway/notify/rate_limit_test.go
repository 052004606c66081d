package notify

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

// TestRateLimit plays notices at seconds since the start. want is how many were suppressed
// before one that is delivered, or -1 if it is suppressed itself.
func TestRateLimit(t *testing.T) {
	type step struct {
		at      float64
		context string
		want    int
	}
	for name, timeline := range map[string][]step{
		"five at once, then one in 10 s": {
			{0, "llm", 0}, {0, "llm", 0}, {0.1, "llm", 0}, {0.2, "llm", 0}, {0.3, "llm", 0},
			{0.4, "llm", -1}, {5, "llm", -1}, {9.9, "llm", -1}, {10.1, "llm", 3}, {10.2, "llm", -1}, {20.1, "llm", 1},
		},
		"each context has its own": {
			{0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", -1}, {0, "b", 0}, {10, "b", 0}, {10, "a", 1},
		},
		"a pause allows five again": {
			{0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", -1},
			{60, "a", 1}, {60, "a", 0}, {60, "a", 0}, {60, "a", 0}, {60, "a", 0}, {60, "a", -1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRateLimit()
			for i, n := range timeline {
				got, ok := l.allow(n.context, start.Add(time.Duration(n.at*float64(time.Second))))
				if !ok {
					got = -1
				}
				if got != n.want {
					t.Errorf("notice %d at %v s in %s: got %d, want %d", i, n.at, n.context, got, n.want)
				}
			}
		})
	}
}

// TestTotalLimit: a new context for each notice does not avoid it.
func TestTotalLimit(t *testing.T) {
	l := newRateLimit()
	delivered := 0
	for i := range 1000 {
		if _, ok := l.allow(fmt.Sprint(i), start); ok {
			delivered++
		}
	}
	if delivered != totalBurst {
		t.Errorf("%d delivered, want %d", delivered, totalBurst)
	}
	if got := len(l.contexts); got != maxContexts {
		t.Errorf("%d contexts are remembered, want %d", got, maxContexts)
	}
	if got, want := l.unreported(), 1000-totalBurst; got != want {
		t.Errorf("unreported = %d, want %d", got, want)
	}
}

// TestRateLimitForgets the context that was used longest ago.
func TestRateLimitForgets(t *testing.T) {
	l := newRateLimit()
	for i := range maxContexts {
		l.allow(fmt.Sprint(i), start.Add(time.Duration(i)*time.Minute))
	}
	l.allow("0", start.Add(200*time.Minute))
	l.allow("new", start.Add(201*time.Minute))
	for context, want := range map[string]bool{"0": true, "1": false, "new": true} {
		if got := l.contexts[context] != nil; got != want {
			t.Errorf("context %s is remembered: %t, want %t", context, got, want)
		}
	}
}

// TestRateLimitCountsAll: every notice was delivered, counted as suppressed with a later
// one, or is unreported.
func TestRateLimitCountsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newRateLimit()
		now := start
		offered, counted := 0, 0
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 3000), 1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(step) * time.Millisecond)
			offered++
			if suppressed, ok := l.allow(fmt.Sprint(step%150), now); ok {
				counted += 1 + suppressed
			}
		}
		if got := counted + l.unreported(); got != offered {
			t.Fatalf("%d notices counted and unreported, want the %d offered", got, offered)
		}
	})
}

func BenchmarkAllowForgetting(b *testing.B) {
	l := newRateLimit()
	contexts := make([]string, 2*maxContexts)
	for i := range contexts {
		contexts[i] = fmt.Sprint(i)
	}
	now := start
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(time.Millisecond)
		l.allow(contexts[i%len(contexts)], now)
	}
}
