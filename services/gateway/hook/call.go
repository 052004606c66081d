package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// MaxInput is the longest input that Parse accepts, in bytes.
const MaxInput = 1 << 20

// maxPath and maxSession bound a directory and a session id, in bytes. Longer ones are
// ignored.
const (
	maxPath    = 4096
	maxSession = 512
)

// Moment is the point of an agent session at which the agent calls a hook.
type Moment int

// The moments. A call at Other gets no answer.
const (
	Other Moment = iota
	// AfterTool is after a tool was used.
	AfterTool
	// Prompt is when the user has sent a prompt.
	Prompt
	// Stop is when the agent is about to stop.
	Stop
	// SessionStart is when a session begins or is resumed.
	SessionStart
	// SessionEnd is when a session ends.
	SessionEnd
)

// Call is one call of an agent's hook.
type Call struct {
	Moment Moment
	// Session is the agent's id of the session, or empty.
	Session string
	// Dir is the project's directory as the agent names it: absolute, or empty.
	Dir string
	// StopBlocked reports whether the agent continues only because a hook blocked its
	// last stop.
	StopBlocked bool

	// event is the agent's own name of the moment.
	event  string
	format answerFormat
}

// CanAnswer reports whether the agent reads an answer at this moment.
func (c Call) CanAnswer() bool { return c.format != nil }

// input holds the fields of the agents' inputs that are used here.
type input struct {
	Event   string `json:"hook_event_name"`
	Session string `json:"session_id"`
	Dir     string `json:"cwd"`
	// StopBlocked is sent by Claude Code, Codex and Gemini CLI.
	StopBlocked bool `json:"stop_hook_active"`
	// Agent is set if the hook runs inside a subagent.
	Agent string `json:"agent_id"`

	// The other fields are Cursor's.
	CursorVersion string   `json:"cursor_version"`
	Conversation  string   `json:"conversation_id"`
	Roots         []string `json:"workspace_roots"`
	Status        string   `json:"status"`
	// Loops counts the stops that were followed by a message of a hook.
	Loops int `json:"loop_count"`
}

// ErrInput is returned by Parse for an input that the agent does not send.
var ErrInput = errors.New("not the input of a hook")

// Parse reads the input of an agent's hook. The moment is Other for an unknown event,
// an event of a subagent, and an event of another agent that runs this one's hooks.
func Parse(agent string, data []byte) (Call, error) {
	f, found := formats[agent]
	if !found {
		return Call{}, fmt.Errorf("client %q has no hooks that are known: it must be one of %s", agent, strings.Join(Agents(), ", "))
	}
	if len(data) > MaxInput {
		return Call{}, fmt.Errorf("%w: it is over %d bytes", ErrInput, MaxInput)
	}
	var in input
	if err := json.Unmarshal(data, &in); err != nil {
		return Call{}, fmt.Errorf("%w: %w", ErrInput, err)
	}
	c := Call{event: in.Event, Session: in.Session, StopBlocked: in.StopBlocked || in.Loops > 0}
	if c.Session == "" {
		c.Session = in.Conversation
	}
	if len(c.Session) > maxSession {
		c.Session = ""
	}
	for _, dir := range slices.Concat(in.Roots, []string{in.Dir}) {
		if filepath.IsAbs(dir) && len(dir) <= maxPath {
			c.Dir = filepath.Clean(dir)
			break
		}
	}
	event, known := f.events[in.Event]
	switch {
	case !known, in.Agent != "":
		return c, nil // a subagent has a context of its own
	case in.CursorVersion != "" && agent != cursor:
		return c, nil // Cursor runs Claude Code's hooks too, besides its own
	case event.moment == Stop && in.Status != "" && in.Status != "completed":
		return c, nil // the user stopped the agent, or it failed
	}
	c.Moment, c.format = event.moment, event.format
	return c, nil
}
