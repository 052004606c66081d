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

// night waits as Claude Code's background stop hook does, and returns what wakes.
func night(t *testing.T, r *testrig.Bus, input string, timeout time.Duration) <-chan string {
	t.Helper()
	cfg, err := r.HookConfig("agent", input)
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan string, 1)
	go func() {
		for { // a machine that is too busy is asked again
			text, err := hook.Wait(context.WithoutCancel(t.Context()), hook.WaitConfig{Config: cfg, Severity: alert.Error, Timeout: timeout})
			if errors.Is(err, bus.ErrAway) || errors.Is(err, context.DeadlineExceeded) {
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

func end(t *testing.T, woken <-chan string) string {
	t.Helper()
	select {
	case text := <-woken:
		return text
	case <-time.After(testrig.Patience):
		t.Fatal("it waits on")
		return ""
	}
}

func TestHookWaits(t *testing.T) {
	r := testrig.New(t)
	r.Hook(t, "agent", testrig.Call("UserPromptSubmit"))
	woken := night(t, r, testrig.Call("Stop"), 0)
	r.Publish(t, r.Alert(alert.Warning))
	r.Publish(t, r.Alert(alert.Error))
	if got := end(t, woken); !strings.HasPrefix(got, "Tocsin: ") || testrig.Titles(t, got) != "alert02 alert01" {
		t.Fatal(got)
	}
	if got := r.Hook(t, "agent", testrig.Call("PostToolUse")); got != "" {
		t.Errorf("told again: %s", got)
	}

	r.Publish(t, r.Alert(alert.Error))
	if got := end(t, night(t, r, testrig.Call("Stop"), 0)); testrig.Titles(t, got) != "alert03" {
		t.Errorf("an error that was there: %s", got)
	}
	r.Publish(t, r.Alert(alert.Error))
	if got := end(t, night(t, r, testrig.Again, 300*time.Millisecond)); got != "" {
		t.Errorf("woken by what did not hold it: %s", got)
	}
	if got := end(t, night(t, r, testrig.Call("PostToolUse"), 0)); got != "" {
		t.Errorf("at another moment: %s", got)
	}
	if got := testrig.Told(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))); got != "alert04" {
		t.Error(got)
	}
}

// TestHookWaitEnds when the session goes on, ends or waits anew, or when the bus
// goes away.
func TestHookWaitEnds(t *testing.T) {
	r := testrig.New(t)
	first := night(t, r, testrig.Call("Stop"), 0)
	known := waits(t, r, "")
	second := night(t, r, testrig.Again, 0)
	if got := end(t, first); got != "" {
		t.Errorf("the session waits anew: %s", got)
	}
	waits(t, r, known)
	r.Hook(t, "agent", testrig.Call("UserPromptSubmit"))
	if got := end(t, second); got != "" {
		t.Errorf("the session goes on: %s", got)
	}
	third := night(t, r, testrig.Call("Stop"), 0)
	waits(t, r, "")
	r.Hook(t, "agent", testrig.Call("SessionEnd"))
	if got := end(t, third); got != "" {
		t.Errorf("the session has ended: %s", got)
	}
	fourth := night(t, r, testrig.Call("Stop"), 0)
	waits(t, r, "")
	r.Down()
	if got := end(t, fourth); got != "" {
		t.Errorf("the bus has gone: %s", got)
	}
}

// waits is when a wait is known to be the session's.
func waits(t *testing.T, r *testrig.Bus, known string) (waiter string) {
	t.Helper()
	c, err := bus.Connect(t.Context(), bus.ConnConfig{Name: t.Name(), Role: bus.RoleGateway, Server: r.Server, Logger: testrig.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !testrig.Poll(func() bool {
		waiter = hook.Waiter(t.Context(), c, inbox.NamedKey("agent"), "s")
		return waiter != "" && waiter != known
	}) {
		t.Fatal("nobody waits")
	}
	return waiter
}

// TestTwoHooksAtOnce: the hook that answers a stop and the one that waits to wake
// the session change its memory at the same time, and neither forgets the other.
func TestTwoHooksAtOnce(t *testing.T) {
	r := testrig.New(t)
	for range 2 { // where there is nothing yet, and where there is
		held, waits, err := hook.HoldAndWait(t.Context(), r.Join(t, bus.RoleGateway), "client", "session", "me")
		if err != nil || !held || waits != "me" {
			t.Errorf("held %t, waits %q, %v", held, waits, err)
		}
	}
}
