package toolbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Status is the state of a server, as /system/mcp-servers shows it.
type Status struct {
	ID        string       `json:"id"`
	Healthy   bool         `json:"healthy"`
	LastCheck *time.Time   `json:"last_check"`
	Error     string       `json:"error"`
	Tools     []ToolStatus `json:"tools"`
}

// ToolStatus is the state of a tool in a [Status].
type ToolStatus struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	ReadOnly    bool   `json:"read_only"`
	Offered     bool   `json:"offered"`
	WhyNot      string `json:"why_not"`
}

// Warning is something about a server that a person should see.
type Warning struct {
	ServerID string
	// Category is mcp_server, tools_withheld, tools_denied or tools_left_out.
	Category string
	Message  string
	Details  string
	// Since is when it was first seen.
	Since time.Time
}

// The categories of warnings.
const (
	CategoryServer   = "mcp_server"
	CategoryWithheld = "tools_withheld"
	CategoryDenied   = "tools_denied"
	CategoryLeftOut  = "tools_left_out"
)

// Registry watches servers. It is safe for concurrent use.
type Registry struct {
	mu      sync.Mutex
	running context.Context // nil unless Run runs
	watches map[string]*watch
	order   []string
	wg      sync.WaitGroup
}

// watch is the state of one server. Its loop alone has the connection; what others read is
// guarded by the registry's mutex.
type watch struct {
	server Server
	digest string
	stop   context.CancelFunc // nil while the loop does not run
	known  chan struct{}      // closed at the end of the first check

	checked     time.Time
	err         string
	errSince    time.Time
	stderr      string
	definitions *definitions
	changed     time.Time // when the definitions became what they are
}

// NewRegistry returns a registry of servers with different names. [Registry.Run] starts it.
func NewRegistry(servers []Server) *Registry {
	r := &Registry{watches: map[string]*watch{}}
	r.Update(servers)
	return r
}

// Update replaces the servers. One whose configuration is unchanged goes on with its connection.
func (r *Registry) Update(servers []Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.watches
	r.watches, r.order = make(map[string]*watch, len(servers)), nil
	for _, s := range servers {
		digest := s.Digest()
		w := old[s.Name]
		if w == nil || w.digest != digest {
			w = &watch{server: s.hiding(), digest: digest, known: make(chan struct{})}
		} else {
			delete(old, s.Name)
		}
		r.watches[s.Name] = w
		r.order = append(r.order, s.Name)
		r.start(w)
	}
	for _, w := range old {
		if w.stop != nil {
			w.stop()
		}
	}
}

// start runs the loop of a watch. The caller holds the mutex.
func (r *Registry) start(w *watch) {
	if r.running == nil || w.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(r.running)
	w.stop = stop
	r.wg.Go(func() {
		defer stop()
		r.watch(ctx, w)
	})
}

// Run checks all servers side by side every [HealthInterval] until ctx ends, and closes the
// connections. It is called once.
func (r *Registry) Run(ctx context.Context) {
	r.mu.Lock()
	r.running = ctx
	for _, w := range r.watches {
		r.start(w)
	}
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.running = nil // Update starts nothing more
	r.mu.Unlock()
	r.wg.Wait()
}

// Check checks all servers once, side by side, without Run: for a command that ends. It
// returns when the slowest answered or its time is over.
func (r *Registry) Check(ctx context.Context) {
	r.mu.Lock()
	var wg sync.WaitGroup
	for _, w := range r.watches {
		wg.Go(func() {
			if c := r.check(ctx, w, nil); c != nil {
				c.close()
			}
		})
	}
	r.mu.Unlock()
	wg.Wait()
}

// Wait waits until each of the servers was checked once, or ctx ends.
func (r *Registry) Wait(ctx context.Context) error {
	r.mu.Lock()
	var first []chan struct{}
	for _, w := range r.watches {
		first = append(first, w.known)
	}
	r.mu.Unlock()
	for _, known := range first {
		select {
		case <-known:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the first check of the MCP servers: %w", ctx.Err())
		}
	}
	return nil
}

func (r *Registry) watch(ctx context.Context, w *watch) {
	var c *connection
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	ticker := time.NewTicker(HealthInterval)
	defer ticker.Stop()
	for {
		c = r.check(ctx, w, c)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// check lists the server's tools, in a new session where there is none or where it failed, and
// records the outcome. It returns the session, or nil.
func (r *Registry) check(ctx context.Context, w *watch, c *connection) *connection {
	if c != nil {
		if d, err := c.listWithin(ctx, HealthTimeout); err == nil {
			r.record(w, c, d, "")
			return c
		}
		c.close()
	}
	c, d, text := open(ctx, w.server)
	if ctx.Err() != nil { // the servers are being closed: that is no fault of theirs
		if c != nil {
			c.close()
		}
		return nil
	}
	r.record(w, c, d, text)
	return c
}

// listWithin is list with a bound on its time.
func (c *connection) listWithin(ctx context.Context, bound time.Duration) (definitions, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return c.list(ctx)
}

// open begins a session and lists the tools, within StartTimeout. An error comes as masked text.
func open(ctx context.Context, s Server) (*connection, definitions, string) {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	c, err := dial(ctx, s)
	if err != nil {
		return nil, definitions{}, startError(ctx, s, masked(s.Mask, err.Error()))
	}
	d, err := c.list(ctx)
	if err != nil {
		text := startError(ctx, s, c.describe(err))
		c.close()
		return nil, definitions{}, text
	}
	return c, d, ""
}

func startError(ctx context.Context, s Server, text string) string {
	if ctx.Err() != nil {
		text = fmt.Sprintf("no answer within %s: %s", StartTimeout, text)
	}
	return cutText("cannot use the MCP server "+s.Name+": "+text, maxError+shownStderr)
}

func (r *Registry) record(w *watch, c *connection, d definitions, text string) {
	stderr := ""
	if c != nil && c.process != nil {
		stderr = masked(w.server.Mask, c.process.Stderr())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if w.checked.IsZero() {
		close(w.known)
	}
	w.checked, w.stderr = now, stderr
	if text != "" {
		if w.err == "" {
			w.errSince = now
		}
		w.err = text
		return
	}
	w.err = ""
	if w.definitions == nil || !slices.EqualFunc(w.definitions.tools, d.tools, func(a, b Tool) bool { return a.Digest == b.Digest }) {
		w.changed = now
	}
	w.definitions = &d
}

// cached returns the last definitions of a server with the configuration of this digest and, where it is down,
// the error. ok is false where nothing is known yet.
func (r *Registry) cached(name, digest string) (d definitions, errText string, ok bool) {
	if r == nil {
		return definitions{}, "", false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.watches[name]
	switch {
	case w == nil, w.checked.IsZero(), w.digest != digest:
		return definitions{}, "", false
	case w.err != "":
		return definitions{}, w.err, true
	}
	return *w.definitions, "", true
}

// Statuses returns the state of all servers in the order of the configuration.
func (r *Registry) Statuses() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	statuses := make([]Status, 0, len(r.order))
	for _, name := range r.order {
		w := r.watches[name]
		s := Status{ID: name, Error: w.err, Tools: []ToolStatus{}}
		if w.checked.IsZero() {
			s.Error = "not checked yet"
		} else {
			at := w.checked.UTC().Truncate(time.Millisecond)
			s.LastCheck, s.Healthy = &at, w.err == ""
		}
		if w.definitions != nil {
			for _, t := range w.definitions.tools {
				s.Tools = append(s.Tools, ToolStatus{t.Name, t.Description, t.ReadOnly, t.Offered, t.WhyNot})
			}
		}
		statuses = append(statuses, s)
	}
	return statuses
}

// Warnings returns what a person should see, in the order of the configuration.
func (r *Registry) Warnings() []Warning {
	r.mu.Lock()
	defer r.mu.Unlock()
	var warnings []Warning
	for _, name := range r.order {
		w := r.watches[name]
		if w.err != "" {
			warnings = append(warnings, Warning{name, CategoryServer, "the MCP server " + name + " can't be used", w.err, w.errSince})
		}
		if w.definitions == nil {
			continue
		}
		var held, denied []string
		for _, t := range w.definitions.tools {
			if !t.Offered {
				held = append(held, t.Name+": "+t.WhyNot)
			} else if t.NeedsApproval {
				denied = append(denied, t.Name)
			}
		}
		if len(held) > 0 {
			warnings = append(warnings, Warning{name, CategoryWithheld, fmt.Sprintf("%d tools of the MCP server %s are withheld", len(held), name),
				cutText(strings.Join(held, "\n"), maxError), w.changed})
		}
		if len(denied) > 0 {
			warnings = append(warnings, Warning{name, CategoryDenied, fmt.Sprintf("the calls of %d tools of the MCP server %s are denied: approvals are not supported yet", len(denied), name),
				cutText(strings.Join(denied, "\n"), maxError), w.changed})
		}
		if notes := w.definitions.notes; len(notes) > 0 {
			warnings = append(warnings, Warning{name, CategoryLeftOut, "not all tools of the MCP server " + name + " are used", strings.Join(notes, "\n"), w.changed})
		}
	}
	return warnings
}

// Stderr returns what a stdio server wrote to standard error until the last check, masked, at most
// the last 64 KiB.
func (r *Registry) Stderr(server string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.watches[server]; w != nil {
		return w.stderr
	}
	return ""
}
