package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway"
	"github.com/tocsin-bus/tocsin/services/gateway/clients"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// night waits as Claude Code's background stop hook does, and returns what wakes.
func (r *rig) night(t *testing.T, input string, timeout time.Duration) <-chan string {
	t.Helper()
	cfg, err := r.hookConfig("agent", input)
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan string, 1)
	go func() {
		for { // a machine that is too busy is asked again
			text, err := gateway.HookWait(context.WithoutCancel(t.Context()), gateway.HookWaitConfig{HookConfig: cfg, Severity: alert.Error, Timeout: timeout})
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
	case <-time.After(patience):
		t.Fatal("it waits on")
		return ""
	}
}

func TestHookWaits(t *testing.T) {
	r := newRig(t)
	r.hook(t, "agent", call("UserPromptSubmit"))
	woken := r.night(t, call("Stop"), 0)
	r.publish(t, r.alert(alert.Warning))
	r.publish(t, r.alert(alert.Error))
	if got := end(t, woken); !strings.HasPrefix(got, "Tocsin: ") || titles(t, got) != "alert02 alert01" {
		t.Fatal(got)
	}
	if got := r.hook(t, "agent", call("PostToolUse")); got != "" {
		t.Errorf("told again: %s", got)
	}

	r.publish(t, r.alert(alert.Error))
	if got := end(t, r.night(t, call("Stop"), 0)); titles(t, got) != "alert03" {
		t.Errorf("an error that was there: %s", got)
	}
	r.publish(t, r.alert(alert.Error))
	if got := end(t, r.night(t, again, 300*time.Millisecond)); got != "" {
		t.Errorf("woken by what did not hold it: %s", got)
	}
	if got := end(t, r.night(t, call("PostToolUse"), 0)); got != "" {
		t.Errorf("at another moment: %s", got)
	}
	if got := toldBy(t, r.hook(t, "agent", call("PostToolUse"))); got != "alert04" {
		t.Error(got)
	}
}

// TestHookWaitEnds when the session goes on, ends or waits anew, or when the bus
// goes away.
func TestHookWaitEnds(t *testing.T) {
	r := newRig(t)
	first := r.night(t, call("Stop"), 0)
	known := r.waits(t, "")
	second := r.night(t, again, 0)
	if got := end(t, first); got != "" {
		t.Errorf("the session waits anew: %s", got)
	}
	r.waits(t, known)
	r.hook(t, "agent", call("UserPromptSubmit"))
	if got := end(t, second); got != "" {
		t.Errorf("the session goes on: %s", got)
	}
	third := r.night(t, call("Stop"), 0)
	r.waits(t, "")
	r.hook(t, "agent", call("SessionEnd"))
	if got := end(t, third); got != "" {
		t.Errorf("the session has ended: %s", got)
	}
	fourth := r.night(t, call("Stop"), 0)
	r.waits(t, "")
	r.down()
	if got := end(t, fourth); got != "" {
		t.Errorf("the bus has gone: %s", got)
	}
}

// waits is when a wait is known to be the session's.
func (r *rig) waits(t *testing.T, known string) (waiter string) {
	t.Helper()
	c, err := bus.Connect(t.Context(), bus.ConnConfig{Name: t.Name(), Role: bus.RoleGateway, Server: r.server, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !poll(func() bool {
		waiter = gateway.Waiter(t.Context(), c, clients.NamedInbox("agent"), "s")
		return waiter != "" && waiter != known
	}) {
		t.Fatal("nobody waits")
	}
	return waiter
}
