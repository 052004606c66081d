package testrig

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/hook"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Call is the input of Claude Code's hook at a moment of the session s.
func Call(event string) string {
	return `{"hook_event_name":"` + event + `","session_id":"s","cwd":"/work"}`
}

// Again is a stop that follows a hold.
const Again = `{"hook_event_name":"Stop","session_id":"s","cwd":"/work","stop_hook_active":true}`

// Hook answers Claude Code's hook for the client of that name, and returns what
// it says to the model. A machine that is too busy is asked again.
func (b *Bus) Hook(t *testing.T, client, input string) string {
	t.Helper()
	cfg, err := b.HookConfig(client, input)
	if err != nil {
		t.Fatal(err)
	}
	line := Answer(t, cfg)
	return Said(t, line)
}

// Answer has a hook called until it has found the bus: it gives up within
// milliseconds, which is too soon on a busy machine. It returns the line as printed.
func Answer(t *testing.T, cfg hook.Config) (line []byte) {
	t.Helper()
	ok := Poll(func() bool {
		var err error
		line, err = hook.Answer(t.Context(), cfg)
		if err != nil && !errors.Is(err, bus.ErrAway) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	})
	if !ok {
		t.Fatal("the hook finds no bus")
	}
	return line
}

// TryHook is Hook once, with the line as it is printed.
func (b *Bus) TryHook(client, input string) ([]byte, error) {
	cfg, err := b.HookConfig(client, input)
	if err != nil {
		return nil, err
	}
	return hook.Answer(context.Background(), cfg)
}

// HookConfig is what TryHook answers.
func (b *Bus) HookConfig(client, input string) (hook.Config, error) {
	c, err := hook.Parse("claude-code", []byte(input))
	return hook.Config{Bus: bus.ConnConfig{Dir: b.Dir}, Inbox: inbox.NamedKey(client), Call: c, Hold: true, Logger: Quiet()}, err
}

// Said is the text within an answer, with "HELD " before what holds the agent.
func Said(t *testing.T, line []byte) string {
	t.Helper()
	if line == nil {
		return ""
	}
	var a struct {
		Specific struct {
			Context string `json:"additionalContext"`
		} `json:"hookSpecificOutput"`
		Decision, Reason string
	}
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if a.Decision == "block" {
		return "HELD " + a.Reason
	}
	return a.Specific.Context
}

// Told are the titles of the alerts in what a hook says.
func Told(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	held := ""
	if strings.HasPrefix(text, "HELD ") {
		held = "HELD "
	}
	return held + Titles(t, text)
}

// Titles are those of the alerts in a block.
func Titles(t *testing.T, block string) string {
	t.Helper()
	lines := strings.Split(block, "\n")
	var alerts []alert.Alert
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &alerts); err != nil {
		t.Fatalf("%v: %s", err, block)
	}
	var all []string
	for _, a := range alerts {
		all = append(all, strings.TrimPrefix(a.Title, "CI result "))
	}
	return strings.Join(all, " ")
}
