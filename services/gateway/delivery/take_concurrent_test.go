package delivery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// taken takes in the background, and sends the block or the error.
func (c *Client) taken(ctx context.Context) <-chan string {
	out := make(chan string, 1)
	go func() {
		block, err := c.Take(ctx)
		if err != nil {
			block = err.Error()
		}
		out <- block
	}()
	return out
}

// TestTakesWaitForEachOther: while one call claims, another waits: it would treat what is
// being claimed as delivered by another reader.
func TestTakesWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := runClient(t)
		c.give(1)
		first, second := c.taken(t.Context()), c.taken(t.Context())
		job := <-c.saver.jobs
		synctest.Wait()
		select {
		case <-c.saver.jobs:
			t.Fatal("two calls claim at once, want one after the other")
		default:
		}
		job.done <- saveResult{}
		a, b := <-first, <-second
		if !strings.Contains(a+b, "id1") || a != "" && b != "" {
			t.Errorf("the blocks are %q and %q, want id1 in one of them", a, b)
		}
	})
}

// TestTakeOfACallThatEnds: what was claimed for it is delivered by the next, also
// when another reader claims alerts beyond.
func TestTakeOfACallThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := runClient(t)
		c.give(1)
		ctx, cancel := context.WithCancel(t.Context())
		out := c.taken(ctx)
		job := <-c.saver.jobs
		cancel()
		job.done <- saveResult{}
		if block := <-out; block != "" {
			t.Fatalf("the cancelled call gets %q, want nothing", block)
		}
		c.give(2)
		c.give(3)
		out = c.taken(t.Context())
		job = <-c.saver.jobs
		job.done <- saveResult{before: bus.Position{Seq: 2}} // another reader delivered the second
		block := <-out
		if !strings.Contains(block, "id1") || strings.Contains(block, "id2") || !strings.Contains(block, "id3") {
			t.Errorf("the block is %q, want id1 and id3", block)
		}
	})
}

// TestWaitDeliversWhatItClaims: an alert that is being claimed as the time is up is
// delivered: tocsin wait has no later call that could.
func TestWaitDeliversWhatItClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := runClient(t)
		close(c.caughtUp)
		c.give(1)
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan string, 1)
		go func() {
			block, err := c.WaitAndTake(ctx, 0)
			if err != nil {
				block = err.Error()
			}
			out <- block
		}()
		job := <-c.saver.jobs
		cancel()
		job.done <- saveResult{}
		if block := <-out; !strings.Contains(block, "id1") {
			t.Errorf("WaitAndTake = %q, want id1, which it has claimed", block)
		}

		// A wait whose time is up before it claims leaves everything to the next.
		c.give(2)
		for range 20 { // of two things that are ready, either may be seen first
			if block, err := c.WaitAndTake(ctx, 0); block != "" || !errors.Is(err, ErrNoAlert) {
				t.Fatalf("WaitAndTake = %q, %v, want %v", block, err, ErrNoAlert)
			}
		}
	})
}
