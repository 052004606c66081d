package notify

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

// TestLimit plays notices at seconds since the start; a line is what becomes of
// one: delivered with how many held back, or -1.
func TestLimit(t *testing.T) {
	type told struct {
		at      float64
		context string
		held    int
	}
	for name, timeline := range map[string][]told{
		"five at once, then one in 10 s": {
			{0, "llm", 0}, {0, "llm", 0}, {0.1, "llm", 0}, {0.2, "llm", 0}, {0.3, "llm", 0},
			{0.4, "llm", -1}, {5, "llm", -1}, {9.9, "llm", -1}, {10.1, "llm", 3}, {10.2, "llm", -1}, {20.1, "llm", 1},
		},
		"each context has its own": {
			{0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", -1}, {0, "b", 0}, {10, "b", 0}, {10, "a", 1},
		},
		"silence gives five again": {
			{0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", 0}, {0, "a", -1},
			{60, "a", 1}, {60, "a", 0}, {60, "a", 0}, {60, "a", 0}, {60, "a", 0}, {60, "a", -1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimit()
			for i, n := range timeline {
				held, ok := l.take(n.context, start.Add(time.Duration(n.at*float64(time.Second))))
				if !ok {
					held = -1
				}
				if held != n.held {
					t.Errorf("%d: at %v s, %s: %d, want %d", i, n.at, n.context, held, n.held)
				}
			}
		})
	}
}

// TestLimitOfAll: a new context for each notice does not get round it.
func TestLimitOfAll(t *testing.T) {
	l := newLimit()
	delivered := 0
	for i := range 1000 {
		if _, ok := l.take(fmt.Sprint(i), start); ok {
			delivered++
		}
	}
	if delivered != allBurst || len(l.contexts) != maxContexts || l.left() != 1000-allBurst {
		t.Errorf("delivered %d, remembered %d, left %d", delivered, len(l.contexts), l.left())
	}
}

// TestLimitForgets the context that was used longest ago.
func TestLimitForgets(t *testing.T) {
	l := newLimit()
	for i := range maxContexts {
		l.take(fmt.Sprint(i), start.Add(time.Duration(i)*time.Minute))
	}
	l.take("0", start.Add(200*time.Minute))
	l.take("new", start.Add(201*time.Minute))
	if l.contexts["0"] == nil || l.contexts["1"] != nil || l.contexts["new"] == nil {
		t.Error("not the oldest is forgotten")
	}
}

// TestLimitLosesNothing: what was taken was delivered, told as held back, or is
// left to tell.
func TestLimitLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLimit()
		now := start
		taken, accounted := 0, 0
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 3000), 1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(step) * time.Millisecond)
			taken++
			if held, ok := l.take(fmt.Sprint(step%150), now); ok {
				accounted += 1 + held
			}
		}
		if accounted+l.left() != taken {
			t.Fatalf("%d taken, %d accounted for, %d left", taken, accounted, l.left())
		}
	})
}

func BenchmarkTakeForgetting(b *testing.B) {
	l := newLimit()
	contexts := make([]string, 2*maxContexts)
	for i := range contexts {
		contexts[i] = fmt.Sprint(i)
	}
	now := start
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(time.Millisecond)
		l.take(contexts[i%len(contexts)], now)
	}
}
