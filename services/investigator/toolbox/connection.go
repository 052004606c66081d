package toolbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/process"
)

const (
	// abortGrace is how long a call may go on after its context ended, before its server is killed.
	abortGrace = 250 * time.Millisecond
	// exitGrace is how long an error waits for the exit status of the server's process.
	exitGrace = 250 * time.Millisecond
	// shownStderr bounds what an error shows of standard error, in bytes.
	shownStderr = 1 << 10
)

// connection is one MCP session with a server.
type connection struct {
	server  Server
	session *mcp.ClientSession
	ended   chan struct{} // closed when the session is over
	// One of the two is set.
	process *process.Process
	lines   *lineReader
	http    *boundTripper
	// digests are those of the tools as listed in this session, by name.
	digests map[string]string

	mu    sync.Mutex
	calls map[*flight]bool
}

// flight is a call under way.
type flight struct {
	// beside is set where another call was under way at the same time.
	beside bool
}

func (c *connection) begin() *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &flight{beside: len(c.calls) > 0}
	for other := range c.calls {
		other.beside = true
	}
	if c.calls == nil {
		c.calls = map[*flight]bool{}
	}
	c.calls[f] = true
	return f
}

// end ends a call, and reports whether another one was under way at the same time.
func (c *connection) end(f *flight) (beside bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, f)
	return f.beside
}

// dial starts or reaches the server and begins a session. No server-to-client request is offered.
// The text of an error of the session is masked; that of others is not.
func dial(ctx context.Context, s Server) (*connection, error) {
	c := &connection{server: s, ended: make(chan struct{})}
	var transport mcp.Transport
	switch s.Type {
	case Stdio:
		p, err := process.Start(s.Command, s.Args, Environment(os.Environ(), s.Env))
		if err != nil {
			return nil, err
		}
		c.process, c.lines = p, newLineReader(p.Stdout)
		transport = &mcp.IOTransport{Reader: c.lines, Writer: p.Stdin, MaxLineLength: -1} // lines has the bound
	case HTTP:
		t, tripper, err := newHTTP(s)
		if err != nil {
			return nil, err
		}
		c.http, transport = tripper, t
	default:
		return nil, fmt.Errorf("the transport %q is not known", s.Type)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "tocsin-investigator", Version: "1"}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	err := c.within(ctx, func() error {
		session, err := client.Connect(ctx, transport, nil)
		c.session = session
		return err
	})
	if err != nil {
		err = errors.New(c.describe(c.explain(ctx, err)))
		c.release()
		return nil, err
	}
	go func() {
		defer close(c.ended)
		_ = c.session.Wait()
	}()
	return c, nil
}

// within runs do, and kills the server's process where do does not end soon after ctx: a
// server that reads nothing blocks a write for ever.
func (c *connection) within(ctx context.Context, do func() error) error {
	if c.process == nil { // a request over HTTP ends with its context
		return c.http.open.do(ctx, do)
	}
	finished := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-finished:
			return
		case <-ctx.Done():
		}
		timer := time.NewTimer(abortGrace)
		defer timer.Stop()
		select {
		case <-finished:
		case <-timer.C:
			c.process.Kill()
		}
	}()
	err := do()
	close(finished)
	<-watched
	return err
}

// list reads the server's tools and keeps their digests.
func (c *connection) list(ctx context.Context) (definitions, error) {
	var d definitions
	err := c.within(ctx, func() error {
		var err error
		d, err = list(ctx, c.server, c.session.ListTools)
		return err
	})
	if err != nil {
		return definitions{}, c.explain(ctx, err)
	}
	c.digests = d.digests()
	return d, nil
}

// call calls a tool. beside reports whether another call was under way at the same time.
func (c *connection) call(ctx context.Context, tool string, args json.RawMessage) (result *mcp.CallToolResult, beside bool, err error) {
	f := c.begin()
	defer func() { beside = c.end(f) }()
	err = c.within(ctx, func() error {
		var err error
		result, err = c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
		return err
	})
	return result, false, err
}

// alive reports whether the session can take a call.
func (c *connection) alive() bool {
	select {
	case <-c.ended:
		return false
	default:
		return c.failure() == nil
	}
}

// failure returns what broke the transport, as far as it was seen here.
func (c *connection) failure() error {
	var p *error
	if c.lines != nil {
		p = c.lines.failure.Load()
	} else if c.http != nil {
		p = c.http.failure.Load()
	}
	if p == nil {
		return nil
	}
	return *p
}

// close ends the session and the process, and waits for their end.
func (c *connection) close() {
	if c.process == nil {
		c.http.open.wait(cancelGrace)
		_ = c.session.Close()
	} else {
		c.release() // first: the session's end waits for calls under way
		_ = c.session.Close()
	}
	<-c.ended
	c.release()
}

func (c *connection) release() {
	if c.process != nil {
		_ = c.process.Close()
	}
	if c.http != nil {
		c.http.base.CloseIdleConnections()
	}
}

// kind classifies failures by what may be done.
type kind int

const (
	broken     kind = iota // the transport failed: a new session may help
	refused                // the server answered, with an error
	timedOut               // no answer in time
	cancelled              // the caller gave up
	tooLarge               // the answer is over the bound
	bystanding             // that of this call or of another one beside it is over the bound
)

// The codes with which the SDK marks errors of its own: no server sent them.
const (
	codeClientClosing = -32003
	codeServerClosing = -32004
	codeRejected      = -32005
)

func (c *connection) kind(ctx context.Context, err error) kind {
	var timeout net.Error
	failure := c.failure()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return cancelled
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return timedOut
	case errors.Is(failure, errTooLarge):
		return tooLarge
	case failure != nil && errors.As(failure, &timeout), errors.As(err, &timeout) && timeout.Timeout():
		return timedOut
	}
	if answer := serverError(err); answer != nil {
		return refused
	}
	if c.process != nil && c.alive() && !errors.Is(err, mcp.ErrConnectionClosed) && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		return refused // an answer that can't be read: the same would come again
	}
	return broken
}

// serverError returns the JSON-RPC error that a server sent, or nil.
func serverError(err error) *jsonrpc.Error {
	var answer *jsonrpc.Error
	if !errors.As(err, &answer) {
		return nil
	}
	switch answer.Code {
	case codeClientClosing, codeServerClosing, codeRejected:
		return nil
	}
	return answer
}

// explain puts what is known of the transport into an error: what broke it, how the process
// ended, and the end of its standard error. The text is not masked.
func (c *connection) explain(ctx context.Context, err error) error {
	if failure := c.failure(); failure != nil && !errors.Is(err, failure) {
		err = fmt.Errorf("%w (%w)", failure, err)
	}
	if c.process == nil || serverError(err) != nil {
		return err
	}
	timer := time.NewTimer(exitGrace)
	defer timer.Stop()
	if ctx.Err() == nil {
		select {
		case <-c.process.Done():
		case <-timer.C:
		}
	}
	if exit := c.process.Exit(); exit != "" {
		err = fmt.Errorf("the server's process ended with %s (%w)", exit, err)
	}
	return err
}

// describe returns the masked text of an error, with the end of the server's standard error.
func (c *connection) describe(err error) string {
	text := cutText(masked(c.server.Mask, err.Error()), maxError)
	if c.process != nil && serverError(err) == nil {
		if said := lastOutput(masked(c.server.Mask, c.process.Stderr()), shownStderr); said != "" {
			text += "; its last output: " + said
		}
	}
	return text
}

// errorLine matches a line that reports an error, as programs begin one.
var errorLine = regexp.MustCompile(`(?im)^(?:error|fatal|panic)\b.*$`)

// lastOutput returns the end of a program's output, at most limit bytes. A program that is used
// wrongly writes its usage after the error, so the last line with an error comes first where the
// end has none.
func lastOutput(text string, limit int) string {
	const gap = "\n…\n"
	end := lastLines(text, limit)
	reported := errorLine.FindAllString(text, -1)
	if len(reported) == 0 || errorLine.MatchString(end) {
		return end
	}
	line := cutText(strings.TrimSpace(reported[len(reported)-1]), limit/2)
	return line + gap + lastLines(text, limit-len(line)-len(gap))
}

// lastLines returns whole lines from the end of text, at most limit bytes, or the end of
// the last line where that alone is longer.
func lastLines(text string, limit int) string {
	text = strings.TrimSpace(text)
	if len(text) <= limit {
		return text
	}
	text = valid(text[len(text)-limit:])
	if _, after, ok := strings.Cut(text, "\n"); ok {
		return after
	}
	return text
}
