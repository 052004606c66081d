package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Notification is one notifications/message as the agent received it.
type Notification struct {
	At     time.Time
	Level  string
	Logger string
	Data   NotificationData
	// Raw is the data as JSON.
	Raw string
}

// NotificationData is the data of a notification, of one alert or of a batch.
type NotificationData struct {
	Category      string           `json:"category"`
	Severity      string           `json:"severity"`
	Title         string           `json:"title"`
	Detail        string           `json:"detail"`
	Source        string           `json:"source"`
	DedupKey      string           `json:"dedup_key"`
	CorrelationID string           `json:"correlation_id"`
	Count         int              `json:"count"`
	Context       map[string]any   `json:"context"`
	Alerts        []map[string]any `json:"alerts"`
}

// Agent is go-sdk's client, connected to a real gateway process.
type Agent struct {
	Session *mcp.ClientSession
	// Notes has the notifications in order. While it holds 1,000, further ones are dropped.
	Notes chan Notification
	// NewTools receives a value when the gateway reports a change of its list of tools.
	NewTools chan struct{}
	Log      *Log
	cmd      *exec.Cmd
}

// StartAgent runs tocsin gateway on a state directory and initializes a session. The
// gateway does not start a bus.
func StartAgent(ctx context.Context, bin, stateDir, name string, args ...string) (*Agent, error) {
	return StartAgentWith(ctx, bin, stateDir, name, nil, append([]string{"--autostart=false"}, args...)...)
}

// StartAgentWith is StartAgent with more environment. The gateway starts a bus if none
// runs.
func StartAgentWith(ctx context.Context, bin, stateDir, name string, env []string, args ...string) (*Agent, error) {
	a := newAgent()
	a.cmd = exec.Command(bin, append([]string{"gateway"}, args...)...) //nolint:noctx // ended by Close
	a.cmd.Env = Env(stateDir, env...)
	a.cmd.Dir = stateDir
	a.cmd.Stderr = a.Log
	if err := a.connect(ctx, name, &mcp.CommandTransport{Command: a.cmd, TerminateDuration: stopWithin}); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, a.Log)
	}
	return a, nil
}

// DialAgent initializes a session with a gateway that serves HTTP. The agent has no
// process, so its Log is empty and Kill, PID and ExitCode must not be called.
func DialAgent(ctx context.Context, url, name string) (*Agent, error) {
	return DialAgentAs(ctx, url, name, "")
}

// DialAgentAs is DialAgent with a token.
func DialAgentAs(ctx context.Context, url, name, token string) (*Agent, error) {
	a := newAgent()
	transport := &mcp.StreamableClientTransport{Endpoint: url}
	if token != "" {
		transport.HTTPClient = &http.Client{Transport: bearer(token)}
	}
	return a, a.connect(ctx, name, transport)
}

// bearer adds a bearer token to requests.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func newAgent() *Agent {
	return &Agent{Notes: make(chan Notification, 1000), NewTools: make(chan struct{}, 1), Log: &Log{}}
}

func (a *Agent) connect(ctx context.Context, name string, t mcp.Transport) error {
	c := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) { a.note(r.Params) },
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			select {
			case a.NewTools <- struct{}{}:
			default:
			}
		},
	})
	var err error
	if a.Session, err = c.Connect(ctx, t, nil); err != nil {
		return fmt.Errorf("initialize the gateway: %w", err)
	}
	return nil
}

func (a *Agent) note(p *mcp.LoggingMessageParams) {
	n := Notification{At: time.Now(), Level: string(p.Level), Logger: p.Logger}
	raw, err := json.Marshal(p.Data)
	if err == nil {
		n.Raw = string(raw)
		err = json.Unmarshal(raw, &n.Data)
	}
	if err != nil {
		n.Raw = "not decodable: " + err.Error()
	}
	select {
	case a.Notes <- n:
	default:
	}
}

// Close closes the gateway's stdin and waits for its end.
func (a *Agent) Close() error { return a.Session.Close() }

// Kill kills the gateway, as kill -9 does, and waits for its end.
func (a *Agent) Kill() error {
	if err := a.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the gateway: %w", err)
	}
	_ = a.Session.Close() // an error, because it was killed
	return nil
}

// ExitCode returns the gateway's exit code, after Close.
func (a *Agent) ExitCode() int { return a.cmd.ProcessState.ExitCode() }

// PID returns the gateway's process id.
func (a *Agent) PID() int { return a.cmd.Process.Pid }

// Call calls a tool and returns its text blocks. A tool error is a *ToolError.
func (a *Agent) Call(ctx context.Context, tool string, args map[string]any) ([]string, error) {
	if args == nil {
		args = map[string]any{}
	}
	r, err := a.Session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", tool, err)
	}
	var blocks []string
	for _, c := range r.Content {
		t, ok := c.(*mcp.TextContent)
		if !ok {
			return nil, fmt.Errorf("call %s: got a block of type %T, want text", tool, c)
		}
		blocks = append(blocks, t.Text)
	}
	if r.IsError {
		return blocks, &ToolError{Tool: tool, Text: strings.Join(blocks, "\n")}
	}
	return blocks, nil
}

// ToolError is an error result of a tool.
type ToolError struct{ Tool, Text string }

func (e *ToolError) Error() string { return e.Tool + ": " + e.Text }

// Observed is the answer of observe.
type Observed struct {
	// First is the tool's own output, Block the alerts block or "".
	First, Block string
	// Summary is the block's summary line, or "".
	Summary string
	Alerts  []alert.Alert
}

// Observe calls observe and parses the alerts block.
func (a *Agent) Observe(ctx context.Context, args map[string]any) (Observed, error) {
	blocks, err := a.Call(ctx, "observe", args)
	if err != nil {
		return Observed{}, err
	}
	switch len(blocks) {
	case 1:
		return Observed{First: blocks[0]}, nil
	case 2:
		return parseBlock(blocks[0], blocks[1])
	default:
		return Observed{}, fmt.Errorf("observe: got %d blocks, want 1 or 2", len(blocks))
	}
}

// ObserveAll reads all pages of a list. It returns the entries, newest first, and the
// alerts that were delivered meanwhile.
func (a *Agent) ObserveAll(ctx context.Context, what string, args map[string]any) (entries []json.RawMessage, delivered []alert.Alert, err error) {
	args = maps.Clone(args)
	if args == nil {
		args = map[string]any{}
	}
	args["what"] = what
	key := what
	if what == "status" {
		key = "apps"
	}
	for {
		o, err := a.Observe(ctx, args)
		if err != nil {
			return nil, nil, err
		}
		delivered = append(delivered, o.Alerts...)
		var answer map[string]json.RawMessage
		var page []json.RawMessage
		var truncated struct{ Before string }
		if err := json.Unmarshal([]byte(o.First), &answer); err != nil {
			return nil, nil, fmt.Errorf("observe %s: %w: %.200s", what, err, o.First)
		}
		if answer[key] == nil { // the answer is an error text
			return entries, delivered, fmt.Errorf("observe %s: %.200s", what, o.First)
		}
		if err := json.Unmarshal(answer[key], &page); err != nil {
			return nil, nil, fmt.Errorf("observe %s: %w: %.200s", what, err, o.First)
		}
		entries = append(entries, page...)
		if answer["truncated"] == nil {
			return entries, delivered, nil
		}
		if err := json.Unmarshal(answer["truncated"], &truncated); err != nil || truncated.Before == "" {
			return nil, nil, fmt.Errorf("observe %s: truncated is %s, want before in it", what, answer["truncated"])
		}
		args["before"] = truncated.Before
	}
}

func parseBlock(first, block string) (Observed, error) {
	o := Observed{First: first, Block: block}
	lines := strings.Split(block, "\n")
	if len(lines) == 3 {
		o.Summary, lines = lines[1], []string{lines[0], lines[2]}
	}
	if len(lines) != 2 {
		return o, fmt.Errorf("got an alerts block of %d lines, want 2 or 3: %q", len(lines), block)
	}
	if err := json.Unmarshal([]byte(lines[1]), &o.Alerts); err != nil {
		return o, fmt.Errorf("decode the alerts block: %w", err)
	}
	if want := fmt.Sprintf("--- ALERTS (%d) ---", len(o.Alerts)); lines[0] != want {
		return o, fmt.Errorf("the alerts block begins with %q, want %q", lines[0], want)
	}
	return o, nil
}

// Wait observes until n alerts have been delivered, in one block or several.
func (a *Agent) Wait(ctx context.Context, n int, within time.Duration) ([]alert.Alert, error) {
	var all []alert.Alert
	var failed error
	Poll(ctx, within, func() bool {
		o, err := a.Observe(ctx, map[string]any{"what": "status"})
		failed = err
		all = append(all, o.Alerts...)
		return err != nil || len(all) >= n
	})
	if failed == nil && len(all) < n {
		failed = fmt.Errorf("got %d alerts within %s, want %d", len(all), within, n)
	}
	return all, failed
}

// Next waits for the next notification.
func (a *Agent) Next(ctx context.Context, within time.Duration) (Notification, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case n := <-a.Notes:
		return n, nil
	case <-ctx.Done():
		return Notification{}, fmt.Errorf("got no notification within %s", within)
	}
}
