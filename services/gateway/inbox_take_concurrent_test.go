package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
)

// drainer is a gateway whose cursor the test moves.
func drainer(t *testing.T) *gateway {
	t.Helper()
	s, _ := runSession(t)
	log := quietLog()
	return &gateway{
		life: t.Context(), session: s, saver: newSaver(nil, log), draining: make(chan struct{}, 1), log: log,
	}
}

func (g *gateway) drained(ctx context.Context) <-chan string {
	out := make(chan string, 1)
	go func() {
		block, err := g.drain(ctx)
		if err != nil {
			block = err.Error()
		}
		out <- block
	}()
	return out
}

// TestDrainsTakeTurns: while a drain claims, another one waits: it would take what
// is being claimed for told by somebody else.
func TestDrainsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := drainer(t)
		g.session.give(1)
		first, second := g.drained(t.Context()), g.drained(t.Context())
		job := <-g.saver.jobs
		synctest.Wait()
		select {
		case <-g.saver.jobs:
			t.Fatal("two claim at once")
		default:
		}
		job.done <- saved{}
		a, b := <-first, <-second
		if !strings.Contains(a+b, "id1") || a != "" && b != "" {
			t.Errorf("%q, %q", a, b)
		}
	})
}

// TestDrainOfACallThatEnds: what was claimed for it is told by the next, whatever
// another reader claims beyond.
func TestDrainOfACallThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := drainer(t)
		g.session.give(1)
		ctx, cancel := context.WithCancel(t.Context())
		out := g.drained(ctx)
		job := <-g.saver.jobs
		cancel()
		job.done <- saved{}
		if block := <-out; block != "" {
			t.Fatalf("%s", block)
		}
		g.session.give(2)
		g.session.give(3)
		out = g.drained(t.Context())
		job = <-g.saver.jobs
		job.done <- saved{before: inbox.Position{Seq: 2}} // another reader was told the second
		block := <-out
		if !strings.Contains(block, "id1") || strings.Contains(block, "id2") || !strings.Contains(block, "id3") {
			t.Errorf("%s", block)
		}
	})
}

// TestWaitTellsWhatItClaims: an alert that is being claimed as the time is up is
// told: who waits has no later call that could.
func TestWaitTellsWhatItClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := drainer(t)
		caughtUp := make(chan struct{})
		close(caughtUp)
		g.link = &link{caughtUp: caughtUp}
		g.session.give(1)
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan string, 1)
		go func() {
			block, err := g.await(ctx, 0)
			if err != nil {
				block = err.Error()
			}
			out <- block
		}()
		job := <-g.saver.jobs
		cancel()
		job.done <- saved{}
		if block := <-out; !strings.Contains(block, "id1") {
			t.Errorf("claimed, and not told: %s", block)
		}

		// One whose time is up before it claims leaves all of it to the next.
		g.session.give(2)
		for range 20 { // of two things that are ready, either may be seen first
			if block, err := g.await(ctx, 0); block != "" || !errors.Is(err, ErrNoAlert) {
				t.Fatalf("%q, %v", block, err)
			}
		}
	})
}
