package mcpserver

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// kubewatchTimeout is how long after the start tools/list waits until it is known
	// whether there is a kubewatch: clients list the tools once, and at once. A bus that
	// is reachable needs some milliseconds for that.
	kubewatchTimeout = 300 * time.Millisecond

	methodListTools = "tools/list"
)

// toolset decides whether the tools for Kubernetes are listed: once a kubewatch was seen,
// and then for as long as the client is there. They can be called in any case, and say
// what is missing.
type toolset struct {
	// read is closed once it is known which clusters were watched at the start, seen
	// once any was.
	read, seen       chan struct{}
	setRead, setSeen func()
	// stale reports whether the client's last list lacks these tools.
	stale atomic.Bool
	// announce notifies the client's sessions that the list has changed.
	announce atomic.Pointer[func()]
}

func newToolset() *toolset {
	t := &toolset{read: make(chan struct{}), seen: make(chan struct{})}
	t.setRead = sync.OnceFunc(func() { close(t.read) })
	t.setSeen = sync.OnceFunc(func() {
		close(t.seen)
		t.announceIfStale()
	})
	return t
}

// announceIfStale announces the change to a client whose list is stale: when it happens, and again
// when the client starts to listen.
func (t *toolset) announceIfStale() {
	select {
	case <-t.seen:
	default:
		return
	}
	if announce := t.announce.Load(); announce != nil && t.stale.Load() {
		(*announce)()
	}
}

// listed reports whether the list that is about to be answered has the tools.
func (t *toolset) listed() bool {
	t.stale.Store(true) // first: else an announcement that comes in between is lost
	select {
	case <-t.seen:
		t.stale.Store(false)
		return true
	default:
		return false
	}
}

// awaitKubewatch waits, soon after the start, until it is known which clusters are
// watched.
func (s *server) awaitKubewatch(call context.Context) {
	timer := time.NewTimer(time.Until(s.started.Add(kubewatchTimeout)))
	defer timer.Stop()
	select {
	case <-s.toolset.read:
	case <-timer.C:
	case <-call.Done():
	}
}

// filterTools leaves the tools for Kubernetes out of the list until there is a kubewatch.
func (s *server) filterTools(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method != methodListTools {
			return next(ctx, method, r)
		}
		s.awaitKubewatch(ctx)
		all := s.toolset.listed()
		result, err := next(ctx, method, r)
		if list, ok := result.(*mcp.ListToolsResult); ok && err == nil && !all {
			list.Tools = slices.DeleteFunc(list.Tools, func(t *mcp.Tool) bool { return slices.Contains(kubernetesTools, t.Name) })
		}
		return result, err
	}
}
