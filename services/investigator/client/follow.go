package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/service"
)

const (
	// pollInterval is the time between two looks at a session.
	pollInterval = 500 * time.Millisecond
	// maxUnreachable is how long the investigator may not answer until following ends.
	maxUnreachable = time.Minute
	// maxLine bounds the text of a line of the timeline, in characters. A longer one is cut.
	maxLine = 240
)

// follower prints what happens in a session.
type follower struct {
	client *Client
	id     string
	out    io.Writer
	// quiet leaves the timeline out.
	quiet bool

	// next is the number after which the timeline was not read.
	next int64
	// agents are the names of agents by their executions. Unknown ones have an empty name.
	agents map[string]string
	// calls are the tool calls whose beginning was printed.
	calls map[string]bool
	// failing is since when the investigator does not answer, or zero.
	failing time.Time
}

func newFollower(client *Client, id string, out io.Writer) *follower {
	return &follower{client: client, id: id, out: out, agents: map[string]string{}, calls: map[string]bool{}}
}

// run follows the session to its end, or until the time-out, where it is not 0, or until ctx ends.
func (f *follower) run(ctx context.Context, timeout time.Duration) error {
	waiting := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		outcome, err := f.look(waiting)
		switch {
		case err == nil && ended(outcome.Status):
			return f.end(outcome)
		case ctx.Err() != nil:
			_, _ = fmt.Fprintf(f.out, "stopped following; the session goes on: %s\nits state: GET %s%s%s\n", f.id, f.client.URL, pathSessions, f.id) // stderr may be closed
			return service.Exit(service.ExitTimeUp)
		case waiting.Err() != nil:
			return fmt.Errorf("%w: the session %s goes on", service.ErrTimeUp, f.id)
		case err != nil:
			if err := f.failed(err, time.Now()); err != nil {
				return err
			}
		default:
			f.failing = time.Time{}
		}
		select {
		case <-waiting.Done():
		case <-ticker.C:
		}
	}
}

// failed notes that the investigator did not answer. It returns an error where waiting is of no
// use.
func (f *follower) failed(err error, now time.Time) error {
	var r *Refusal
	var unreachable *UnreachableError
	switch {
	case errors.As(err, &unreachable), errors.As(err, &r) && r.Temporary():
	case r != nil && r.Status == http.StatusNotFound && r.Text != "":
		return fmt.Errorf("the session %s is not there any more: %s", f.id, r.Text)
	default:
		return fmt.Errorf("follow the session %s: %w", f.id, err)
	}
	if f.failing.IsZero() {
		f.failing = now
		if err := f.line("the investigator does not answer; trying again for " + maxUnreachable.String() + ": " + err.Error()); err != nil {
			return err
		}
	}
	if now.Sub(f.failing) >= maxUnreachable {
		return fmt.Errorf("the session %s can't be followed any more; it goes on when the investigator runs: %w", f.id, err)
	}
	return nil
}

// look prints what is new, and returns what the session has led to.
func (f *follower) look(ctx context.Context) (session.Outcome, error) {
	// First, so that the timeline of an ended session is whole.
	outcome, err := f.client.Summary(ctx, f.id)
	if err != nil || f.quiet {
		return outcome, err
	}
	for {
		page, err := f.client.Timeline(ctx, f.id, f.next)
		if err != nil {
			return outcome, err
		}
		for _, e := range page.Events {
			if text := f.describe(ctx, e); text != "" {
				if err := f.line(text); err != nil {
					return outcome, err
				}
			}
		}
		if page.Next <= f.next {
			return outcome, nil
		}
		f.next = page.Next
	}
}

func (f *follower) line(text string) error {
	_, err := fmt.Fprintln(f.out, text)
	return err
}

// labels are the first words of the lines of a timeline.
var labels = map[session.EventType]string{
	session.EventThinking: "thinking", session.EventResponse: "answer", session.EventToolCall: "tool",
	session.EventToolSummary: "digest", session.EventError: "error", session.EventExecutiveSummary: "summary",
	session.EventFinalAnalysis: "analysis", session.EventFallback: "fallback", session.EventNote: "note",
}

// describe returns the line of an event, or nothing for the beginning of a text that is printed
// when it is whole.
func (f *follower) describe(ctx context.Context, e session.Event) string {
	label, known := labels[e.EventType]
	if !known {
		label = oneLine(string(e.EventType))
	}
	text := oneLine(e.Content)
	switch {
	case e.EventType == session.EventToolCall:
		text = f.toolCall(e)
	case e.EventType == session.EventToolSummary:
		text = toolName(e) + ": " + text
	case e.Status == session.StatusStreaming:
		return ""
	case text == "":
		text = oneLine(string(e.Status))
	}
	if agent := f.agent(ctx, e); agent != "" {
		text = agent + ": " + text
	}
	return fmt.Sprintf("%s  %-8s  %s", time.Time(e.UpdatedAt).Local().Format(time.TimeOnly), label, text)
}

// toolCall returns the text of a tool call: first its arguments, at the end its result.
func (f *follower) toolCall(e session.Event) string {
	text := toolName(e)
	if !f.calls[e.ID] {
		f.calls[e.ID] = true
		if arguments := argumentsOf(e); arguments != "" {
			text += " " + arguments
		}
	}
	if e.Status == session.StatusStreaming {
		return text
	}
	verb := "answered in"
	if e.Status != session.StatusCompleted {
		verb = strings.ReplaceAll(oneLine(string(e.Status)), "_", " ") + " after"
	}
	duration := time.Time(e.UpdatedAt).Sub(time.Time(e.CreatedAt))
	text += fmt.Sprintf(" %s %s", verb, max(0, duration).Round(time.Millisecond))
	if result := oneLine(e.Content); result != "" {
		text += ": " + result
	}
	return text
}

func toolName(e session.Event) string {
	server, _ := e.Metadata["server_name"].(string)
	tool, _ := e.Metadata["tool_name"].(string)
	return oneLine(server + "." + tool)
}

func argumentsOf(e session.Event) string {
	switch arguments := e.Metadata["arguments"].(type) {
	case nil:
		return ""
	case string:
		return oneLine(arguments)
	default:
		text, err := json.Marshal(arguments)
		if err != nil {
			return ""
		}
		return oneLine(string(text))
	}
}

// agent returns the name of the agent of an event, or nothing.
func (f *follower) agent(ctx context.Context, e session.Event) string {
	if e.ExecutionID == nil {
		return ""
	}
	id := *e.ExecutionID
	if name, known := f.agents[id]; known {
		return name
	}
	// Without an answer the line has no name.
	if names, err := f.client.Agents(ctx, f.id); err == nil {
		for id, name := range names {
			f.agents[id] = oneLine(name)
		}
	}
	name := f.agents[id]
	f.agents[id] = name
	return name
}

// end prints what the session led to. Its error is that of a session that did not complete.
func (f *follower) end(o session.Outcome) error {
	var b strings.Builder
	if o.FinalAnalysis != nil {
		fmt.Fprintf(&b, "\n%s\n\n", strings.TrimSpace(sanitize.Strip(*o.FinalAnalysis)))
	}
	if o.ExecutiveSummary != nil {
		fmt.Fprintf(&b, "summary: %s\n", sanitize.Visible(strings.Join(strings.Fields(*o.ExecutiveSummary), " ")))
	}
	if o.Status == session.StatusCompleted {
		var c struct {
			Confidence string `json:"confidence"`
		}
		if json.Unmarshal(o.Conclusion, &c) == nil && c.Confidence != "" {
			fmt.Fprintf(&b, "confidence: %s\n", oneLine(c.Confidence))
		}
		fmt.Fprintf(&b, "the session %s is completed\n", f.id)
	}
	if _, err := io.WriteString(f.out, b.String()); err != nil || o.Status == session.StatusCompleted {
		return err
	}
	reason := "no reason is stored"
	if o.ErrorMessage != nil {
		reason = oneLine(*o.ErrorMessage)
	}
	return fmt.Errorf("the session %s %s: %s", f.id, endings[o.Status], reason)
}

// endings are the ends of sessions that did not complete, in words.
var endings = map[session.Status]string{
	session.StatusFailed: "failed", session.StatusCancelled: "was cancelled", session.StatusTimedOut: "timed out",
}

func ended(status session.Status) bool {
	_, other := endings[status]
	return other || status == session.StatusCompleted
}

// oneLine returns text without line breaks and control characters, cut.
func oneLine(text string) string {
	return sanitize.Cut(sanitize.Visible(strings.Join(strings.Fields(text), " ")), maxLine)
}
