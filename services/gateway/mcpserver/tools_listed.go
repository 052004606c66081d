package mcpserver

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
)

const (
	// listTimeout is how long after the start tools/list waits until it is known which services
	// run: clients list the tools once, right after the start. A reachable bus needs some
	// milliseconds for that, a busy machine more: a call of the tools waits longer.
	listTimeout = 300 * time.Millisecond
	// investigatorInterval is the time between two looks for an investigator, until there is
	// one: a request without an answer costs the bus next to nothing.
	investigatorInterval = 3 * time.Second

	methodListTools = "tools/list"
)

// toolGroup is tools that are listed from the moment a service was seen until the client ends.
// They can be called before, and fail with the reason.
type toolGroup struct {
	names []string
	// read is closed once it is known whether the service ran at the start, seen once it was
	// seen.
	read, seen       chan struct{}
	setRead, setSeen func()
	// stale reports whether the client's last list lacks these tools.
	stale atomic.Bool
}

// listed reports whether the next list has the tools, and records it.
func (g *toolGroup) listed() bool {
	g.stale.Store(true) // first, so that an announcement in between is not lost
	if !g.wasSeen() {
		return false
	}
	g.stale.Store(false)
	return true
}

func (g *toolGroup) wasSeen() bool {
	select {
	case <-g.seen:
		return true
	default:
		return false
	}
}

// toolset decides which tools are listed.
type toolset struct {
	// kubernetes needs a kubewatch, investigation an investigator.
	kubernetes, investigation *toolGroup
	// announce notifies the client's sessions that the list has changed.
	announce atomic.Pointer[func()]
}

func newToolset() *toolset {
	t := &toolset{}
	t.kubernetes, t.investigation = t.newGroup(kubernetesTools), t.newGroup([]string{toolInvestigate})
	return t
}

func (t *toolset) newGroup(names []string) *toolGroup {
	g := &toolGroup{names: names, read: make(chan struct{}), seen: make(chan struct{})}
	g.setRead = sync.OnceFunc(func() { close(g.read) })
	g.setSeen = sync.OnceFunc(func() {
		close(g.seen)
		t.announceIfStale()
	})
	return g
}

func (t *toolset) groups() []*toolGroup { return []*toolGroup{t.kubernetes, t.investigation} }

// announceIfStale announces the change to a client whose list is stale: when it happens, and
// again when the client starts to listen.
func (t *toolset) announceIfStale() {
	announce := t.announce.Load()
	if announce == nil {
		return
	}
	if slices.ContainsFunc(t.groups(), func(g *toolGroup) bool { return g.wasSeen() && g.stale.Load() }) {
		(*announce)()
	}
}

// unlisted returns the names of the tools that the next list lacks, and records it.
func (t *toolset) unlisted() (names []string) {
	for _, g := range t.groups() {
		if !g.listed() {
			names = append(names, g.names...)
		}
	}
	return names
}

// awaitServices waits, right after the start, until it is known which services run. It reports
// whether it is: not if timeout has passed since the start, or call has ended.
func (s *server) awaitServices(call context.Context, timeout time.Duration, groups ...*toolGroup) bool {
	timer := time.NewTimer(time.Until(s.started.Add(timeout)))
	defer timer.Stop()
	for _, g := range groups {
		select {
		case <-g.read:
			continue
		default:
		}
		select {
		case <-g.read:
		case <-timer.C:
			return false
		case <-call.Done():
			return false
		}
	}
	return true
}

// filterTools leaves tools out of the list whose service was never seen.
func (s *server) filterTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method != methodListTools {
			return next(ctx, method, r)
		}
		s.awaitServices(ctx, listTimeout, s.toolset.groups()...)
		without := s.toolset.unlisted()
		result, err := next(ctx, method, r)
		if list, ok := result.(*mcp.ListToolsResult); ok && err == nil {
			list.Tools = slices.DeleteFunc(list.Tools, func(t *mcp.Tool) bool { return slices.Contains(without, t.Name) })
		}
		return result, err
	}
}

// lookForInvestigator looks for an investigator on one session on the bus, until there is one or
// ctx ends.
func (s *server) lookForInvestigator(ctx context.Context, c *bus.Session) error {
	group := s.toolset.investigation
	if group.wasSeen() {
		return nil
	}
	tick := time.NewTicker(investigatorInterval)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, busclient.RequestTimeout)
		found, err := presence.Running(asking, c, investigatorService)
		cancel()
		switch {
		case err != nil:
			s.log.Debug("cannot look for an investigator", "error", err) // the next look may succeed
		case found:
			group.setSeen()
		}
		if err == nil {
			group.setRead()
		}
		if group.wasSeen() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// investigatorService is the role of investigators.
const investigatorService = "investigator"
