package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// patience bounds the wait for one event.
const patience = 10 * time.Second

// stage posts events of the app, calls tools for the agent, and prints both.
type stage struct {
	started          time.Time
	pace             time.Duration
	bin, dir         string
	bus              *harness.Bus
	agent            *harness.Agent
	out              io.Writer
	posted, notified int
	// failed is the id of the alert about the failed checkout, once the agent has it.
	failed string
}

// say prints a line with the time since the start.
func (s *stage) say(format string, args ...any) {
	s.print("", fmt.Sprintf(format, args...))
}

func (s *stage) print(who, text string) {
	at := fmt.Sprintf("%6.2f s", time.Since(s.started).Seconds())
	for line := range strings.SplitSeq(text, "\n") {
		_, _ = fmt.Fprintf(s.out, "%8s  %-6s %s\n", at, who, line) // a closed terminal ends the demo by its signal
		at, who = "", ""
	}
}

// chapter announces what happens next, after a pause to read what happened.
func (s *stage) chapter(ctx context.Context, title string) {
	select {
	case <-time.After(s.pace):
	case <-ctx.Done():
	}
	_, _ = fmt.Fprintln(s.out)
	s.say("== %s", title)
}

type event = map[string]any

// send posts a batch of events as a page or an app does.
func (s *stage) send(ctx context.Context, events ...event) error {
	for _, e := range events {
		e["app"] = "shop"
	}
	s.posted += len(events)
	return s.post(ctx, "/v1/events", events)
}

func (s *stage) post(ctx context.Context, path string, body any) error {
	a, err := s.bus.Post(ctx, path, body)
	if err != nil {
		return err
	}
	if a.Status != 200 {
		return fmt.Errorf("post %s: got status %d, want 200: %s", path, a.Status, a.Body)
	}
	return nil
}

// hook runs the agent's hook, as its client does after a tool call, until it prints an
// alert, and prints that.
func (s *stage) hook(ctx context.Context, within time.Duration) error {
	input, err := json.Marshal(event{"hook_event_name": "PostToolUse", "session_id": "demo", "cwd": s.dir, "tool_name": "Edit"})
	if err != nil {
		return err
	}
	var out []byte
	printed := harness.Poll(ctx, within, func() bool {
		cmd := exec.CommandContext(ctx, s.bin, "hook", "--client", agentName)
		cmd.Env, cmd.Stdin = harness.Env(s.dir, "CLAUDE_PROJECT_DIR="+s.dir), bytes.NewReader(input)
		out, err = cmd.Output()
		return err != nil || len(out) > 0
	})
	if err != nil {
		return fmt.Errorf("run the hook: %w", err)
	}
	var answer struct {
		Output struct {
			AdditionalContext string `json:"additionalContext"`
		} `json:"hookSpecificOutput"`
	}
	if !printed || json.Unmarshal(out, &answer) != nil {
		return fmt.Errorf("%w: the hook printed %q, want an alert", errStory, out)
	}
	s.print("hook", "adds to the model's context:")
	s.print("", "  | "+strings.ReplaceAll(short(answer.Output.AdditionalContext, 600), "\n", "\n  | "))
	return nil
}

// observe calls the tool and prints both blocks.
func (s *stage) observe(ctx context.Context, args map[string]any) ([]alert.Alert, error) {
	encoded, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	o, err := s.agent.Observe(ctx, args)
	took := time.Since(started)
	if err != nil {
		return nil, err
	}
	s.print("agent", fmt.Sprintf("observe %s, answered in %.1f ms", encoded, ms(took)))
	s.print("", "  | "+short(o.First, 300))
	if o.Block == "" {
		return nil, nil
	}
	head, _, _ := strings.Cut(o.Block, "\n")
	s.print("", "  | "+head)
	if o.Summary != "" {
		s.print("", "  | "+o.Summary)
	}
	for _, a := range o.Alerts {
		s.print("", "  |   "+describe(a))
	}
	return o.Alerts, nil
}

// pending waits until the detector has raised n alerts and the agent's inbox has them.
func (s *stage) pending(ctx context.Context, n int) error {
	ok := harness.Poll(ctx, patience, func() bool {
		blocks, err := s.agent.Call(ctx, "configure", map[string]any{"action": "health"})
		return err == nil && strings.Contains(blocks[0], fmt.Sprintf(`"inbox":{"pending":%d,`, n))
	})
	if !ok {
		return fmt.Errorf("timed out waiting for %d alerts in the inbox", n)
	}
	return nil
}

// notification waits for the next notification and prints it, with the time since a moment.
func (s *stage) notification(ctx context.Context, since time.Time, what string) error {
	n, err := s.agent.Next(ctx, patience)
	if err != nil {
		return err
	}
	s.notified++
	s.print("agent", fmt.Sprintf("notifications/message, level %s, %.1f ms after %s", n.Level, ms(n.At.Sub(since)), what))
	s.print("", "  | "+n.Data.Category+": "+n.Data.Title)
	for _, a := range n.Data.Alerts {
		s.print("", fmt.Sprintf("  |   %v %v", a["severity"], a["title"]))
	}
	return nil
}

func describe(a alert.Alert) string {
	times := ""
	if a.Count > 1 {
		times = fmt.Sprintf(" (x%d)", a.Count)
	}
	rest := short(a.Detail, 160)
	if a.Investigation != nil {
		rest = describeInvestigation(a.Investigation)
	}
	return fmt.Sprintf("%-7s %-16s %s%s\n  |           %s", a.Severity, a.Category, a.Title, times, rest)
}

func short(text string, limit int) string {
	text = strings.ReplaceAll(text, "\n", " / ")
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// errStory is returned if an answer differs from the story.
var errStory = errors.New("unexpected answer")
