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

// Call returns the input of Claude Code's hook for an event of the session s.
func Call(event string) string {
	return `{"hook_event_name":"` + event + `","session_id":"s","cwd":"/work"}`
}

// StopAfterBlock is the input of a stop that follows a blocked one.
const StopAfterBlock = `{"hook_event_name":"Stop","session_id":"s","cwd":"/work","stop_hook_active":true}`

// Hook answers Claude Code's hook for a client and returns the text for the model.
func (b *Bus) Hook(t *testing.T, client, input string) string {
	t.Helper()
	cfg, err := b.HookConfig(client, input)
	if err != nil {
		t.Fatal(err)
	}
	return AnswerText(t, Answer(t, cfg))
}

// Answer returns the line that answers a hook. It calls the hook until that reaches the
// bus: a hook gives up within milliseconds, which is too soon on a busy machine.
func Answer(t *testing.T, cfg hook.Config) (line []byte) {
	t.Helper()
	ok := Poll(func() bool {
		var err error
		line, err = hook.Answer(t.Context(), cfg)
		if err != nil && !errors.Is(err, bus.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	})
	if !ok {
		t.Fatal("the hook does not reach the bus")
	}
	return line
}

// TryHook answers Claude Code's hook once and returns the line as it is printed.
func (b *Bus) TryHook(client, input string) ([]byte, error) {
	cfg, err := b.HookConfig(client, input)
	if err != nil {
		return nil, err
	}
	return hook.Answer(context.Background(), cfg)
}

// HookConfig returns the configuration of Claude Code's hook for a client.
func (b *Bus) HookConfig(client, input string) (hook.Config, error) {
	c, err := hook.Parse("claude-code", []byte(input))
	return hook.Config{Bus: bus.Config{Dir: b.Dir}, Inbox: inbox.NamedKey(client), Call: c, BlockStop: true, Logger: Quiet()}, err
}

// AnswerText returns the text within a hook's answer, with "BLOCKED " in front if it
// blocks a stop.
func AnswerText(t *testing.T, line []byte) string {
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
		t.Fatalf("decode the answer %s: %v", line, err)
	}
	if a.Decision == "block" {
		return "BLOCKED " + a.Reason
	}
	return a.Specific.Context
}

// DeliveredTitles returns the titles of the alerts in a hook's text, with "BLOCKED " in
// front if it blocks a stop.
func DeliveredTitles(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	blocked := ""
	if strings.HasPrefix(text, "BLOCKED ") {
		blocked = "BLOCKED "
	}
	return blocked + Titles(t, text)
}

// Titles returns the titles of the alerts in a block.
func Titles(t *testing.T, block string) string {
	t.Helper()
	lines := strings.Split(block, "\n")
	var alerts []alert.Alert
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &alerts); err != nil {
		t.Fatalf("decode the alerts of %q: %v", block, err)
	}
	var all []string
	for _, a := range alerts {
		all = append(all, strings.TrimPrefix(a.Title, "CI result "))
	}
	return strings.Join(all, " ")
}
