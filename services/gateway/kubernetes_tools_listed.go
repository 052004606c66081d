package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

const (
	// kubewatchPatience is how long after the start who asks for the tools waits
	// until it is known whether a kubewatch is there: clients ask once, and at once.
	// It takes a bus that is there some milliseconds to say so.
	kubewatchPatience = 300 * time.Millisecond

	// headerOperation says of an entry of a bucket that it is none: the mark of one
	// that was deleted.
	headerOperation = "KV-Operation"
	methodListTools = "tools/list"
)

// toolset knows whether the tools for Kubernetes are listed: once a kubewatch was seen,
// and then for as long as the client is there. They can be called in any case, and
// say what is missing.
type toolset struct {
	// read is closed once it is known who was there at the start, seen once a
	// kubewatch was.
	read, seen     chan struct{}
	isRead, isSeen func()
	// without says that the client was told last of the other tools alone.
	without atomic.Bool
	// news tells the clients that there are more tools now.
	news atomic.Pointer[func()]
}

func newToolset() *toolset {
	t := &toolset{read: make(chan struct{}), seen: make(chan struct{})}
	t.isRead = sync.OnceFunc(func() { close(t.read) })
	t.isSeen = sync.OnceFunc(func() {
		close(t.seen)
		t.remind()
	})
	return t
}

// remind tells the client that there are more tools than it was told of, where there
// are: as soon as it is so, and when it begins to listen, which it may not have done
// then.
func (t *toolset) remind() {
	select {
	case <-t.seen:
	default:
		return
	}
	if tell := t.news.Load(); tell != nil && t.without.Load() {
		(*tell)()
	}
}

// listed says whether the tools are in the list that is about to be answered.
func (t *toolset) listed() bool {
	t.without.Store(true) // before the look: else news that comes in between is lost
	select {
	case <-t.seen:
		t.without.Store(false)
		return true
	default:
		return false
	}
}

// attendKubewatch keeps in mind which clusters are watched, as their kubewatches say,
// until ctx ends.
func (g *gateway) attendKubewatch(ctx context.Context, c *bus.Conn) error {
	clusters := map[string]string{} // by the subject of the record
	cfg := bus.FollowConfig{Stream: bus.StreamKubewatch, Logger: g.log, Began: func(pending uint64) {
		if pending == 0 {
			g.toolset.isRead()
		}
	}}
	return bus.Follow(ctx, c, cfg, func(m bus.Message) error {
		g.learnKubewatch(m, clusters)
		if m.Pending == 0 {
			g.toolset.isRead()
		}
		return nil
	})
}

func (g *gateway) learnKubewatch(m bus.Message, clusters map[string]string) {
	if m.Header.Get(headerOperation) != "" {
		// It was given up in order: another one takes it, or none.
		_ = g.session.do(g.life, func(s *session, _ time.Time) { s.watchers.Remove(clusters[m.Subject]) }) // a session that has ended knows nothing
		return
	}
	var l kube.Leader
	if err := json.Unmarshal(m.Data, &l); err != nil || l.Cluster == "" {
		g.log.Debug("skipped what is no kubewatch", "subject", m.Subject, "error", err)
		return
	}
	clusters[m.Subject] = l.Cluster
	l.Watch.Error = g.shown(l.Watch.Error) // the name stays: messages are told apart by it
	if g.session.do(g.life, func(s *session, now time.Time) { s.watchers.Update(l, now, bus.KubewatchTTL) }) == nil {
		g.toolset.isSeen()
	}
}

// knowKubewatch waits, soon after the start, until it is known who was there.
func (g *gateway) knowKubewatch(call context.Context) {
	timer := time.NewTimer(time.Until(g.begun.Add(kubewatchPatience)))
	defer timer.Stop()
	select {
	case <-g.toolset.read:
	case <-timer.C:
	case <-call.Done():
	}
}

// offer leaves the tools for Kubernetes out of the list until there is a kubewatch.
func (g *gateway) offer(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if method != methodListTools {
			return next(ctx, method, r)
		}
		g.knowKubewatch(ctx)
		all := g.toolset.listed()
		result, err := next(ctx, method, r)
		if list, ok := result.(*mcp.ListToolsResult); ok && err == nil && !all {
			list.Tools = slices.DeleteFunc(list.Tools, func(t *mcp.Tool) bool {
				return slices.ContainsFunc(g.kubernetesTools(), func(d definition) bool { return d.name == t.Name })
			})
		}
		return result, err
	}
}

// cluster finds the cluster that is meant, by name or as the only one, and how its
// watch is: degraded says why nothing comes for now.
func (s *session) cluster(wish string, now time.Time) (name, degraded string, err error) {
	live := s.watchers.Live(now, bus.KubewatchTTL)
	switch {
	case wish == "" && len(live) == 1:
		wish = live[0]
	case slices.Contains(live, wish):
	case wish != "" && slices.Contains(s.watchers.Known(), wish):
		return wish, unwatched, nil
	case len(live) == 0:
		return "", "", errUnwatched
	default:
		return "", "", fmt.Errorf("cluster must be one that is watched: %s", strings.Join(live, ", "))
	}
	if watch, _, _ := s.watchers.Status(wish, now, bus.KubewatchTTL); watch.Degraded {
		return wish, degradedBy(watch), nil
	}
	return wish, "", nil
}

// unwatched says why nothing comes of a cluster that was watched before.
const unwatched = "no kubewatch watches this cluster any more"

// degradedBy says why nothing comes, as the watch does.
func degradedBy(w kube.Watch) string {
	if w.Error == "" {
		return "the cluster can't be watched for now"
	}
	return w.Error
}
