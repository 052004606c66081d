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
	// kubewatchTimeout is how long after the start tools/list waits for the records of
	// kubewatches: clients list the tools once, right after the start. A reachable bus needs
	// some milliseconds for that.
	kubewatchTimeout = 300 * time.Millisecond

	methodListTools = "tools/list"
)

// toolset decides whether the tools for Kubernetes are listed: from the moment a kubewatch
// was seen until the client ends. They can be called before, and fail with the reason.
type toolset struct {
	// read is closed once the records of the clusters watched at the start were read, seen
	// once there was any record.
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

// announceIfStale announces the change to a client whose list is stale: when it happens, and
// again when the client starts to listen.
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

// listed reports whether the next list has the tools for Kubernetes, and records it.
func (t *toolset) listed() bool {
	t.stale.Store(true) // first, so that an announcement in between is not lost
	select {
	case <-t.seen:
		t.stale.Store(false)
		return true
	default:
		return false
	}
}

// awaitKubewatch waits, right after the start, until the records of kubewatches were read.
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
