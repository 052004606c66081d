package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// wait waits as tocsin wait does, for the client of that name.
func (r *rig) wait(ctx context.Context, client string, severity alert.Severity, timeout time.Duration) (string, error) {
	return delivery.WaitForAlert(ctx, delivery.WaitConfig{
		Bus: bus.Config{Dir: r.Dir}, Inbox: inbox.NamedKey(client), Severity: severity, Timeout: timeout, Logger: testrig.Quiet(),
	})
}

func TestWait(t *testing.T) {
	r := newRig(t)
	const short = 300 * time.Millisecond
	if block, err := r.wait(t.Context(), "shell", "", short); !errors.Is(err, delivery.ErrNoAlert) || block != "" {
		t.Fatalf("got %q, %v, want no alert", block, err)
	}
	r.Publish(t, r.Alert(alert.Info))
	if block, err := r.wait(t.Context(), "shell", alert.Error, short); !errors.Is(err, delivery.ErrNoAlert) || block != "" {
		t.Fatalf("wait with an info alert pending = %q, %v, want %v", block, err, delivery.ErrNoAlert)
	}
	r.Publish(t, r.Alert(alert.Error))
	block, err := r.wait(t.Context(), "shell", alert.Error, patience)
	if err != nil || testrig.Titles(t, block) != "alert02 alert01" || !strings.HasPrefix(block, "--- ALERTS (2) ---\n[") {
		t.Fatalf("wait = %q, %v, want alert02 and alert01", block, err)
	}
	if block, err := r.wait(t.Context(), "shell", "", short); !errors.Is(err, delivery.ErrNoAlert) {
		t.Fatalf("the next wait = %q, %v, want %v", block, err, delivery.ErrNoAlert)
	}

	// A wait that is interrupted has delivered nothing.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if block, err := r.wait(ctx, "shell", "", 0); !errors.Is(err, delivery.ErrNoAlert) {
		t.Fatalf("a cancelled wait = %q, %v, want %v", block, err, delivery.ErrNoAlert)
	}

	// An alert that comes while it waits, over a restart of the bus.
	got := make(chan string, 1)
	go func() {
		block, err := r.wait(context.WithoutCancel(t.Context()), "shell", "", patience)
		got <- fmt.Sprint(block, err)
	}()
	r.Down()
	r.Up(t)
	r.Publish(t, r.Alert(alert.Warning))
	if text := <-got; !strings.Contains(text, "alert03") || !strings.HasSuffix(text, "<nil>") {
		t.Fatalf("got %v, want it with %q and with %q", text, "alert03", "<nil>")
	}
}

// TestWaitAndObserveDeliverEachAlertOnce, when they share an inbox and both are called all
// the time.
func TestWaitAndObserveDeliverEachAlertOnce(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "agent")
	const n = 40
	delivered := map[string]int{}
	note := func(block string) {
		for title := range strings.FieldsSeq(testrig.Titles(t, block)) {
			delivered[title]++
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	blocks := make(chan string)
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() {
			for ctx.Err() == nil {
				if block, err := r.wait(ctx, "agent", "", 0); err == nil {
					blocks <- block
				}
			}
		})
	}
	for i := range n {
		r.Publish(t, r.Alert(alert.Error))
		if i%4 == 0 {
			if got := c.call(t, "observe", `{}`).blocks; len(got) > 1 {
				note(got[1])
			}
		}
		select {
		case block := <-blocks:
			note(block)
		default:
		}
	}
	deadline := time.After(patience)
	for len(delivered) < n {
		select {
		case block := <-blocks:
			note(block)
		case <-deadline:
			t.Fatalf("timed out: %d alerts were delivered, want %d", len(delivered), n)
		}
	}
	cancel()
	go func() { waiting.Wait(); close(blocks) }()
	for block := range blocks {
		note(block)
	}
	for title, times := range delivered {
		if times != 1 {
			t.Errorf("%s was delivered %d times, want once", title, times)
		}
	}
}

// TestWaitForWhatIsResolved: an error that was resolved before it was delivered does not
// end a wait for errors; a wait for anything delivers it.
func TestWaitForWhatIsResolved(t *testing.T) {
	r := newRig(t)
	a, end := r.Alert(alert.Error), r.Alert(alert.Info)
	a.Category, end.Category, end.Resolves, end.DedupKey = alert.Regression, alert.Regression, a.ID, a.DedupKey
	r.Publish(t, a)
	r.Publish(t, end)
	if block, err := r.wait(t.Context(), "shell", alert.Error, 300*time.Millisecond); !errors.Is(err, delivery.ErrNoAlert) {
		t.Fatalf("wait with a resolved error pending = %q, %v, want %v", block, err, delivery.ErrNoAlert)
	}
	block, err := r.wait(t.Context(), "shell", "", patience)
	if err != nil || !strings.Contains(block, "Resolved: CI result alert01") {
		t.Errorf("wait for any severity = %q, %v, want the resolved alert01", block, err)
	}
}

// TestObserveHoldsForWhatIsNew: an alert that a wait of the same client delivered is
// neither counted nor a reason to answer.
func TestObserveHoldsForWhatIsNew(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "shared")
	c.delivered(t)
	first := r.Alert(alert.Error)
	r.Publish(t, first)
	c.pending(t, 1)
	if block, err := r.wait(t.Context(), "shared", "", patience); err != nil || testrig.Titles(t, block) != first.ID {
		t.Fatalf("wait = %q, %v, want %s", block, err, first.ID)
	}
	if text := c.call(t, "observe", `{}`).blocks[0]; !strings.Contains(text, `"alerts_pending":0`) {
		t.Errorf("got %s, want nothing pending", text)
	}
	second := r.Alert(alert.Error)
	r.Publish(t, second)
	c.pending(t, 1)
	if _, err := r.wait(t.Context(), "shared", "", patience); err != nil {
		t.Fatal(err)
	}
	id := c.send(t, "tools/call", `{"name":"observe","arguments":{"what":"alerts","wait_seconds":30}}`)
	third := r.Alert(alert.Error)
	r.Publish(t, third)
	m := c.next(t)
	if got := m.tool(t); m.ID != id || len(got.blocks) != 2 || testrig.Titles(t, got.blocks[1]) != third.ID {
		t.Errorf("got %s, want %s as the answer to the held call", m.raw, third.ID)
	}
}
