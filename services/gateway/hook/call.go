package hook

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// MaxInput is the longest input that Parse takes, in bytes.
const MaxInput = 1 << 20

// maxPath and maxSession are the longest directory and session id, in bytes.
// Longer ones are as good as none.
const (
	maxPath    = 4096
	maxSession = 512
)

// Moment is a moment of an agent's session.
type Moment int

// The moments. Nothing is said at any Other.
const (
	Other Moment = iota
	// AfterTool is after a tool was used.
	AfterTool
	// Prompt is when the user has sent a prompt.
	Prompt
	// Stop is when the agent is about to stop.
	Stop
	// SessionStart is when a session begins or is taken up again.
	SessionStart
	// SessionEnd is when it ends.
	SessionEnd
)

// Call is one call of a client's hook.
type Call struct {
	Moment Moment
	// Session is the client's id of the session, or empty.
	Session string
	// Dir is the project's directory as the client names it: absolute, or empty.
	Dir string
	// Held says that the agent goes on only because it was held back before.
	Held bool

	// event is the client's own name of the moment.
	event  string
	answer answer
}

// Tells says whether the client passes on what is said at this moment.
func (c Call) Tells() bool { return c.answer != nil }

// input is what the clients send, of the fields that matter here.
type input struct {
	Event   string `json:"hook_event_name"`
	Session string `json:"session_id"`
	Dir     string `json:"cwd"`
	// Held is said by Claude Code, Codex and Gemini CLI.
	Held bool `json:"stop_hook_active"`
	// Agent is set where the hook runs inside a subagent.
	Agent string `json:"agent_id"`

	// The rest is Cursor's.
	CursorVersion string   `json:"cursor_version"`
	Conversation  string   `json:"conversation_id"`
	Roots         []string `json:"workspace_roots"`
	Status        string   `json:"status"`
	// Loops is how often a stop was followed by a message of a hook.
	Loops int `json:"loop_count"`
}

// ErrInput says that the input is not what the client sends.
var ErrInput = errors.New("not the input of a hook")

// Parse reads what a client has sent. What it doesn't know is Other: an event of
// its own, of a subagent, or of another client that runs this one's hooks.
func Parse(client string, data []byte) (Call, error) {
	d, found := dialects[client]
	if !found {
		return Call{}, fmt.Errorf("client %q has no hooks that are known: it must be one of %s", client, strings.Join(Clients(), ", "))
	}
	if len(data) > MaxInput {
		return Call{}, fmt.Errorf("%w: it is over %d bytes", ErrInput, MaxInput)
	}
	var in input
	if err := json.Unmarshal(data, &in); err != nil {
		return Call{}, fmt.Errorf("%w: %w", ErrInput, err)
	}
	c := Call{event: in.Event, Session: in.Session, Held: in.Held || in.Loops > 0}
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
	event, known := d.events[in.Event]
	switch {
	case !known, in.Agent != "":
		return c, nil // a subagent's context is not the agent's
	case in.CursorVersion != "" && client != cursor:
		return c, nil // Cursor runs Claude Code's hooks too, and has its own
	case event.moment == Stop && in.Status != "" && in.Status != "completed":
		return c, nil // the user has stopped it, or it has failed
	}
	c.Moment, c.answer = event.moment, event.answer
	return c, nil
}
