package hook_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/hook"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// startWait waits as Claude Code's background stop hook does; the channel receives the
// text that wakes the agent.
func startWait(t *testing.T, r *testrig.Bus, input string, timeout time.Duration) <-chan string {
	t.Helper()
	cfg, err := r.HookConfig("agent", input)
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan string, 1)
	go func() {
		for { // on a busy machine the bus may not answer in time
			text, err := hook.Wait(context.WithoutCancel(t.Context()), hook.WaitConfig{Config: cfg, Severity: alert.Error, Timeout: timeout})
			if errors.Is(err, bus.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded) {
				continue
			}
			if err != nil {
				text = err.Error()
			}
			woken <- text
			return
		}
	}()
	return woken
}

// waitEnd returns the text with which a wait ends.
func waitEnd(t *testing.T, woken <-chan string) string {
	t.Helper()
	select {
	case text := <-woken:
		return text
	case <-time.After(testrig.Patience):
		t.Fatal("the wait does not end")
		return ""
	}
}

func TestWaitWakesTheAgent(t *testing.T) {
	r := testrig.New(t)
	r.Hook(t, "agent", testrig.Call("UserPromptSubmit"))
	woken := startWait(t, r, testrig.Call("Stop"), 0)
	r.Publish(t, r.Alert(alert.Warning))
	r.Publish(t, r.Alert(alert.Error))
	got := waitEnd(t, woken)
	if want := "Tocsin: "; !strings.HasPrefix(got, want) {
		t.Errorf("text = %q, want prefix %q", got, want)
	}
	if got, want := testrig.Titles(t, got), "alert02 alert01"; got != want {
		t.Fatalf("alerts that wake the agent = %q, want %q", got, want)
	}
	if got := r.Hook(t, "agent", testrig.Call("PostToolUse")); got != "" {
		t.Errorf("the hook delivered %s after the wait, want nothing", got)
	}

	r.Publish(t, r.Alert(alert.Error))
	if got, want := testrig.Titles(t, waitEnd(t, startWait(t, r, testrig.Call("Stop"), 0))), "alert03"; got != want {
		t.Errorf("an error that was pending: got %q, want %q", got, want)
	}
	r.Publish(t, r.Alert(alert.Error))
	if got := waitEnd(t, startWait(t, r, testrig.StopAfterBlock, 300*time.Millisecond)); got != "" {
		t.Errorf("an alert from before the blocked stop woke the agent: %s, want nothing", got)
	}
	if got := waitEnd(t, startWait(t, r, testrig.Call("PostToolUse"), 0)); got != "" {
		t.Errorf("Wait at another moment than a stop = %s, want nothing", got)
	}
	if got, want := testrig.DeliveredTitles(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))), "alert04"; got != want {
		t.Errorf("still pending = %q, want %q", got, want)
	}
}

// TestWaitEnds when the session continues, ends or starts another wait, and when the bus
// stops.
func TestWaitEnds(t *testing.T) {
	r := testrig.New(t)
	first := startWait(t, r, testrig.Call("Stop"), 0)
	waiter := awaitWaiter(t, r, "")
	second := startWait(t, r, testrig.StopAfterBlock, 0)
	if got := waitEnd(t, first); got != "" {
		t.Errorf("after another wait of the session: text = %q, want none", got)
	}
	awaitWaiter(t, r, waiter)
	r.Hook(t, "agent", testrig.Call("UserPromptSubmit"))
	if got := waitEnd(t, second); got != "" {
		t.Errorf("after the session continued: text = %q, want none", got)
	}
	third := startWait(t, r, testrig.Call("Stop"), 0)
	awaitWaiter(t, r, "")
	r.Hook(t, "agent", testrig.Call("SessionEnd"))
	if got := waitEnd(t, third); got != "" {
		t.Errorf("after the session ended: text = %q, want none", got)
	}
	fourth := startWait(t, r, testrig.Call("Stop"), 0)
	awaitWaiter(t, r, "")
	r.Down()
	if got := waitEnd(t, fourth); got != "" {
		t.Errorf("after the bus stopped: text = %q, want none", got)
	}
}

// awaitWaiter waits until the session has a waiter other than known and returns it.
func awaitWaiter(t *testing.T, r *testrig.Bus, known string) (waiter string) {
	t.Helper()
	c, err := bus.Connect(t.Context(), bus.Config{Name: t.Name(), Role: bus.RoleGateway, Server: r.Server, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !testrig.Poll(func() bool {
		waiter = hook.Waiter(t.Context(), c, inbox.NamedKey("agent"), "s")
		return waiter != "" && waiter != known
	}) {
		t.Fatal("no wait is registered")
	}
	return waiter
}

// TestStateUpdatesDoNotOverwriteEachOther: the hook that answers a stop and the one that
// waits to wake the session change its state at the same time.
func TestStateUpdatesDoNotOverwriteEachOther(t *testing.T) {
	r := testrig.New(t)
	for _, name := range []string{"without a stored state", "with a stored state"} {
		blocked, waiter, err := hook.UpdateTwice(t.Context(), r.Join(t, bus.RoleGateway), "client", "session", "me")
		if err != nil {
			t.Fatal(err)
		}
		if !blocked || waiter != "me" {
			t.Errorf("%s: blocked = %t, waiter = %q, want true, %q", name, blocked, waiter, "me")
		}
	}
}
