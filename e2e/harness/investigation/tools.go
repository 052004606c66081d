package investigation

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// play is the first argument of a test binary that runs as an MCP server on stdio.
const play = "serve-tools"

// Tools are MCP servers with the same tools: one over HTTP in the test, at URL, and processes of
// the test binary itself, which a configuration starts as
//
//	{ type: stdio, command: "$PROGRAM", args: [serve-tools, KIND, "$DIR"] }
//
// KIND is the name under which calls are recorded, or a misbehaviour: garbage writes what is no
// message, hang nothing, exit ends at once, clash has tools whose names are alike for a model.
//
// The tools are lookup {name}, echo, wait {until} (until the test calls Release with that name),
// probe {until} (the same, without annotations, so it is offered only where the configuration
// vouches for it, and never repeated), change (not read-only), leak (the file "leak-" with KIND in Dir, KIND being http
// over HTTP), big,
// flood (50 MB, a process only), image, fail and environment (written to a file of
// that name in Dir).
type Tools struct {
	URL, Program, Dir string

	mu      sync.Mutex
	headers []http.Header
}

// ToolCall is one call that a server took.
type ToolCall struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	// Ended means that this is the end of a call of wait or probe: released or cancelled.
	Ended string `json:"ended,omitempty"`
}

// Main runs the tests of a package, or an MCP server where the test binary was started as one. A
// package that uses stdio servers calls it in TestMain.
func Main(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == play {
		if err := servePlay(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	e2etest.Main(m)
}

// NewTools starts the server over HTTP. The test closes it at its end.
func NewTools(t *testing.T) *Tools {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tools := &Tools{Program: program, Dir: t.TempDir()}
	ending := make(chan struct{})
	server := newServer("http", tools.Dir, ending)
	streamable := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tools.mu.Lock()
		tools.headers = append(tools.headers, r.Header.Clone())
		tools.mu.Unlock()
		streamable.ServeHTTP(w, r)
	}))
	tools.URL = web.URL
	t.Cleanup(func() {
		close(ending)
		web.CloseClientConnections()
		web.Close()
		for session := range server.Sessions() {
			_ = session.Close() // its client may be gone
		}
	})
	return tools
}

// Headers returns the headers of all requests over HTTP so far.
func (tools *Tools) Headers() []http.Header {
	tools.mu.Lock()
	defer tools.mu.Unlock()
	return append([]http.Header(nil), tools.headers...)
}

// Release ends the calls of wait and probe that wait for a name, those to come as well.
func (tools *Tools) Release(t *testing.T, name string) { tools.Write(t, "released-"+name, "") }

// Write writes a file into Dir.
func (tools *Tools) Write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(tools.Dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Calls returns the calls that all servers took so far.
func (tools *Tools) Calls(t *testing.T) []ToolCall {
	t.Helper()
	file, err := os.Open(filepath.Join(tools.Dir, callsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	var calls []ToolCall
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxCall)
	for lines.Scan() {
		var c ToolCall
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		calls = append(calls, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return calls
}

// String returns the call as a line.
func (c ToolCall) String() string {
	return strings.TrimSpace(c.Server + "." + c.Tool + " " + string(c.Arguments) + " " + c.Ended)
}

// Count returns how often a tool was called with arguments that contain a text.
func (tools *Tools) Count(t *testing.T, tool, text string) int {
	t.Helper()
	n := 0
	for _, c := range tools.Calls(t) {
		if c.Tool == tool && c.Ended == "" && strings.Contains(string(c.Arguments), text) {
			n++
		}
	}
	return n
}

// callsFile has a line for each call, in JSON, of at most maxCall bytes.
const (
	callsFile = "calls.jsonl"
	maxCall   = 1 << 20
)

// record appends a call to the file. The lines of several processes do not mix.
func record(dir string, c ToolCall) error {
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, callsFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// LookupResult is the result of lookup for a name.
func LookupResult(name string) string {
	return name + " restarts: its memory limit of 64 MiB is too small, 17 restarts since 12:00"
}

// BigLine stands in the middle of the result of big, and nowhere else in it.
const BigLine = "line 4711: the disk of node seven is full since 09:31"

// bigResult is over what a model with a common window is shown, and over what stands in a message
// of the session.
func bigResult() string {
	var b strings.Builder
	for i := range 8000 {
		if i == 4711 {
			b.WriteString(BigLine + "\n")
			continue
		}
		fmt.Fprintf(&b, "line %d: everything is as usual, nothing to see\n", i)
	}
	return b.String()
}

var readOnly = &mcp.ToolAnnotations{ReadOnlyHint: true}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// handler answers a call.
type handler = func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error)

// newServer makes a server. Calls that wait end with ending, which may be nil.
func newServer(kind, dir string, ending <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: kind, Version: "1"}, nil)
	add := func(name string, annotations *mcp.ToolAnnotations, do handler) {
		s.AddTool(&mcp.Tool{Name: name, Description: "Does " + name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: annotations},
			func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if err := record(dir, ToolCall{Server: kind, Tool: name, Arguments: r.Params.Arguments}); err != nil {
					return nil, err
				}
				return do(ctx, r.Params.Arguments)
			})
	}
	writes := func(write func() string) handler {
		return func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) { return text(write()), nil }
	}
	says := func(answer string) handler { return writes(func() string { return answer }) }
	if kind == "clash" {
		add("pod.list", readOnly, says("this is the tool with a point"))
		add("pod_list", readOnly, says("this is the tool with a line"))
		return s
	}
	add("lookup", readOnly, func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		var args struct{ Name string }
		if err := json.Unmarshal(arguments, &args); err != nil || args.Name == "" {
			return nil, fmt.Errorf("name is missing in %s", arguments)
		}
		return text(LookupResult(args.Name)), nil
	})
	add("echo", readOnly, func(_ context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		return text(string(arguments)), nil
	})
	add("wait", readOnly, awaiting(kind, "wait", dir, ending))
	add("probe", nil, awaiting(kind, "probe", dir, ending))
	add("change", nil, says("changed"))
	add("leak", readOnly, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
		data, err := os.ReadFile(filepath.Join(dir, "leak-"+kind))
		return text(string(data)), err
	})
	add("big", readOnly, writes(bigResult))
	add("flood", readOnly, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
		// Beside the SDK, which would take long to encode it.
		line := []byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 1<<20))
		for range 50 {
			if _, err := os.Stdout.Write(line); err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	add("image", readOnly, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, 12345)}}}, nil
	})
	add("fail", readOnly, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
		return nil, errors.New("the cluster refuses the request: forbidden")
	})
	add("environment", readOnly, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
		return text("written"), os.WriteFile(filepath.Join(dir, "environment"), []byte(strings.Join(os.Environ(), "\n")), 0o600)
	})
	return s
}

// releasePoll is the time between two looks of a call whether it is released.
const releasePoll = 5 * time.Millisecond

// awaiting waits until the test releases the name in "until", or the call is cancelled.
func awaiting(kind, tool, dir string, ending <-chan struct{}) handler {
	return func(ctx context.Context, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		var args struct{ Until string }
		if err := json.Unmarshal(arguments, &args); err != nil || args.Until == "" {
			return nil, fmt.Errorf("until is missing in %s", arguments)
		}
		tick := time.NewTicker(releasePoll)
		defer tick.Stop()
		end := func(how string) error {
			return record(dir, ToolCall{Server: kind, Tool: tool, Arguments: arguments, Ended: how})
		}
		for {
			if _, err := os.Stat(filepath.Join(dir, "released-"+args.Until)); err == nil {
				return text("waited for " + args.Until + " until it was released"), end("released")
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return text("cancelled"), end("cancelled")
			case <-ending:
				return text("the test ended"), nil
			}
		}
	}
}

// servePlay is an MCP server on stdio, or what pretends to be one.
func servePlay(kind, dir string) error {
	switch kind {
	case "hang":
		_, err := bufio.NewReader(os.Stdin).ReadBytes(0) // it reads to the end, and answers nothing
		return err
	case "garbage":
		for {
			if _, err := fmt.Println("this is no message"); err != nil {
				return err
			}
		}
	case "exit":
		return errors.New("the configuration of the server is missing")
	}
	return newServer(kind, dir, nil).Run(context.Background(), &mcp.StdioTransport{})
}
