package toolbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// The wait before a call is made again has a random length between these.
const (
	minRetryWait = 250 * time.Millisecond
	maxRetryWait = 750 * time.Millisecond
)

// Set is the tools of one execution. Open is called once, before the other methods, which are
// safe for concurrent use.
type Set struct {
	registry *Registry
	builtins []Builtin
	ctx      context.Context // ends with Close
	stop     context.CancelFunc

	mu     sync.Mutex // guards closed and the growth of wg
	closed bool
	wg     sync.WaitGroup

	tools []*Tool // all, built-in tools first
	links map[string]*link
}

// NewSet returns a set with built-in tools. The registry may be nil: then nothing is cached.
func NewSet(registry *Registry, builtins []Builtin) *Set {
	ctx, stop := context.WithCancel(context.Background())
	s := &Set{registry: registry, builtins: slices.Clone(builtins), ctx: ctx, stop: stop, links: map[string]*link{}}
	for _, b := range s.builtins {
		t := b.Definition
		t.Offered = true
		s.tools = append(s.tools, &t)
	}
	nameTools(s.tools)
	return s
}

// Open takes the definitions of the servers from the registry and begins to connect in the
// background. It waits, until ctx ends or [StartTimeout] is over, only for servers that the registry
// has not checked yet. A server that is down has an error and no tools.
func (s *Set) Open(ctx context.Context, servers []Server) []Listed {
	all := make([]Listed, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		server = server.hiding()
		l := &link{set: s, server: server, digest: server.Digest(), alone: make(chan struct{}, 1)}
		s.links[server.Name] = l
		d, errText, known := s.registry.cached(server.Name, l.digest)
		all[i] = Listed{Server: server.Name, Instructions: masked(server.Mask, server.Instructions), Error: errText}
		switch {
		case !known:
			wg.Go(func() {
				a := l.connect()
				select {
				case <-a.done:
					all[i].Tools, all[i].Error = slices.Clone(a.definitions.tools), a.err
				case <-ctx.Done():
					all[i].Error = "cannot use the MCP server " + server.Name + ": it did not answer in time"
				}
			})
		case errText == "":
			all[i].Tools = slices.Clone(d.tools)
			l.connect()
		}
	}
	wg.Wait()
	for i := range all {
		narrow := servers[i].Narrow
		for j := range all[i].Tools {
			t := &all[i].Tools[j]
			if t.Offered && len(narrow) > 0 && !slices.Contains(narrow, t.Name) {
				t.Offered, t.WhyNot = false, "the alert chose other tools"
			}
			s.tools = append(s.tools, t)
		}
	}
	for _, t := range s.tools {
		t.ModelName = ""
	}
	nameTools(s.tools)
	return all
}

// Tools returns the tools that are offered, built-in tools first, with their names for the model.
func (s *Set) Tools() []Tool {
	var offered []Tool
	for _, t := range s.tools {
		if t.Offered {
			offered = append(offered, *t)
		}
	}
	return offered
}

// Resolve returns the tool with a name as a model or a person writes it: the name for the model,
// server.tool or server__tool.
func (s *Set) Resolve(name string) (Tool, bool) {
	t, ok := resolve(s.tools, name)
	if !ok {
		return Tool{}, false
	}
	return *t, true
}

// Call calls a tool by the server's and the tool's own names. The context has the caller's
// deadline. Everything that goes wrong is a result with an error that a model can read.
func (s *Set) Call(ctx context.Context, server, tool string, args json.RawMessage) Result {
	begin := time.Now()
	result := s.call(ctx, server, tool, args)
	result.Duration = time.Since(begin)
	return result
}

func (s *Set) call(ctx context.Context, server, tool string, args json.RawMessage) Result {
	i := slices.IndexFunc(s.tools, func(t *Tool) bool { return t.Server == server && t.Name == tool })
	if i < 0 {
		return failed("there is no such tool")
	}
	t := s.tools[i]
	if !t.Offered {
		return failed("the tool %s is not offered: %s", t.FullName(), t.WhyNot)
	}
	if t.NeedsApproval {
		return failed("the call of %s was denied: it may change something, so a person has to approve it, and approvals are not supported yet; name the change in the conclusion instead", t.FullName())
	}
	switch args = bytes.TrimSpace(args); {
	case len(args) == 0:
		args = json.RawMessage("{}")
	case args[0] != '{' || !json.Valid(args):
		return failed("the arguments of %s are no JSON object", t.FullName())
	}
	if i < len(s.builtins) {
		return s.builtins[i].call(ctx, args)
	}
	l := s.links[server]
	result, failure := l.try(ctx, t, args)
	if failure != broken && failure != bystanding || !result.IsError || !t.ReadOnly && !t.Repeatable {
		return result
	}
	timer := time.NewTimer(minRetryWait + rand.N(maxRetryWait-minRetryWait)) //nolint:gosec // it spreads calls, and hides nothing
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return result
	}
	if failure == bystanding { // one at a time: then it is known which one is too large
		select {
		case l.alone <- struct{}{}:
			defer func() { <-l.alone }()
		case <-ctx.Done():
			return result
		}
	}
	result, _ = l.try(ctx, t, args)
	result.Retried = true
	return result
}

// Close ends the connections and their processes, and waits for their end. Calls under way fail.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.wg.Wait()
	var wg sync.WaitGroup
	for _, l := range s.links {
		wg.Go(l.drop)
	}
	wg.Wait()
}

// background runs do unless the set is closed. Close waits for it.
func (s *Set) background(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Go(do)
	return true
}

func failed(format string, args ...any) Result {
	return Result{Text: fmt.Sprintf(format, args...), IsError: true}
}

// call runs a built-in tool. A panic of it is an error result.
func (b Builtin) call(ctx context.Context, args json.RawMessage) (result Result) {
	defer func() {
		if recover() != nil {
			result = failed("the built-in tool %s failed", b.Definition.FullName())
		}
	}()
	result = b.Func(ctx, args)
	result.Text = masked(b.Mask, result.Text)
	return result
}

// link is the connection of a set to one server, made again when it is lost.
type link struct {
	set    *Set
	server Server
	digest string
	// alone has a token while a call is made that may be the one with too large an answer.
	alone chan struct{}

	mu      sync.Mutex
	conn    *connection
	current *attempt // nil unless a connection is being made
}

// attempt is one try to connect. Its fields are set before done is closed.
type attempt struct {
	done        chan struct{}
	conn        *connection
	definitions definitions
	err         string
}

// connect begins to connect in the background, unless there is a session or that is under way.
func (l *link) connect() *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil {
		return l.current
	}
	a := &attempt{done: make(chan struct{})}
	if l.conn != nil && l.conn.alive() {
		a.conn = l.conn
		close(a.done)
		return a
	}
	old := l.conn
	l.conn = nil
	l.current = a
	if !l.set.background(func() {
		if old != nil {
			old.close()
		}
		a.conn, a.definitions, a.err = open(l.set.ctx, l.server)
		l.mu.Lock()
		l.conn, l.current = a.conn, nil
		l.mu.Unlock()
		close(a.done)
	}) {
		l.current, l.conn = nil, old // Close ends it
		a.err = "the execution ended"
		close(a.done)
	}
	return a
}

// get returns a session that is alive, and waits for one until ctx ends.
func (l *link) get(ctx context.Context) (*connection, string, kind) {
	a := l.connect()
	select {
	case <-a.done:
		return a.conn, a.err, broken
	case <-ctx.Done():
		return nil, fmt.Sprintf("the MCP server %s did not start in time", l.server.Name), timedOut
	}
}

// drop closes the connection that there is.
func (l *link) drop() {
	l.mu.Lock()
	c := l.conn
	l.conn = nil
	l.mu.Unlock()
	if c != nil {
		c.close()
	}
}

// replace closes a connection and makes a new one, both in the background: the end of a session
// waits for other calls.
func (l *link) replace(c *connection) {
	l.mu.Lock()
	if l.conn == c {
		l.conn = nil
	}
	l.mu.Unlock()
	if !l.set.background(c.close) {
		c.close()
	}
	l.connect()
}

// try makes one call. The kind counts where the result is an error.
func (l *link) try(ctx context.Context, t *Tool, args json.RawMessage) (Result, kind) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.set.ctx, cancel)()
	c, errText, failure := l.get(ctx)
	if c == nil {
		return Result{Text: errText, IsError: true, TimedOut: failure == timedOut}, failure
	}
	if c.digests[t.Name] != t.Digest || !l.set.registry.unchanged(l.digest, t) {
		return failed("the definition of %s changed since the investigation began, so it is not used", t.FullName()), refused
	}
	answer, beside, err := c.call(ctx, t.Name, args)
	if err == nil {
		if answer.NeedsInput() {
			return failed("the tool %s asks for input, which an investigation can't give", t.FullName()), refused
		}
		text := resultText(answer)
		if len(text) <= MaxMessage {
			return Result{Text: masked(l.server.Mask, text), IsError: answer.IsError}, refused
		}
		err = errTooLarge
		failure = tooLarge
	} else if failure = c.kind(ctx, err); failure == tooLarge && beside {
		failure = bystanding
	}
	switch failure {
	case timedOut:
		return Result{Text: fmt.Sprintf("the tool %s gave no answer in time", t.FullName()), IsError: true, TimedOut: true}, failure
	case cancelled:
		return failed("the call of %s was cancelled", t.FullName()), failure
	case tooLarge:
		l.replace(c)
		return failed("the result of %s is over %d MiB; ask for less", t.FullName(), MaxMessage>>20), failure
	case bystanding:
		l.replace(c)
		return failed("the connection to the MCP server %s ended without an answer of %s: an answer was over %d MiB, of this call or of another one at the same time; ask for less, or call it alone",
			l.server.Name, t.FullName(), MaxMessage>>20), failure
	case refused:
		if answer := serverError(err); answer != nil {
			return failed("the MCP server %s answered: %s", l.server.Name, cutText(masked(l.server.Mask, answer.Message), maxError)), failure
		}
		return failed("the answer of %s can't be read: %s", t.FullName(), c.describe(err)), failure
	default: // broken
		text := c.describe(c.explain(ctx, err))
		l.replace(c)
		return failed("the connection to the MCP server %s failed: %s", l.server.Name, text), failure
	}
}

// unchanged reports whether the last health check found the definition of a tool as it is in t. What
// is not known is unchanged.
func (r *Registry) unchanged(digest string, t *Tool) bool {
	d, errText, known := r.cached(t.Server, digest)
	if !known || errText != "" {
		return true
	}
	return slices.ContainsFunc(d.tools, func(other Tool) bool { return other.Name == t.Name && other.Digest == t.Digest })
}
