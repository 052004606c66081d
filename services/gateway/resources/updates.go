package resources

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// updateInterval is the least time between two updates of one resource. Changes in
// between are one update at its end.
const updateInterval = 250 * time.Millisecond

// Config is what the updates of a client need; all of it is required.
type Config struct {
	// Stopping is closed when the gateway stops accepting.
	Stopping <-chan struct{}
	// WaitForPast waits, soon after the start, until it is known which alerts are of the
	// past: what comes after a subscription is news.
	WaitForPast func(ctx context.Context)
	// Lifecycle reads an alert by its id, and what became of it. Its error may be
	// [history.ErrNoSuchAlert].
	Lifecycle func(ctx context.Context, id string) (history.Lifecycle, error)
	Logger    *slog.Logger
}

// Updates notifies a client that resources have changed which it subscribed to. The
// changed resources are a set, so that a burst of alerts is few updates, and a client that
// does not read blocks nothing.
type Updates struct {
	cfg Config

	mu sync.Mutex
	// server and out are set before there is a subscription.
	server        *mcp.Server
	out           io.Writer
	subscriptions map[subscriptionKey]*subscription
	// listens counts the open subscriptions/listen.
	listens int
	// dirty are the URIs of the resources that have changed; wake receives a signal when
	// there are any.
	dirty map[string]struct{}
	wake  chan struct{}
}

// subscriptionKey identifies a subscription: a resource, and the session that subscribed.
// one of the SDK's sessions for each request.
type subscriptionKey struct {
	session *mcp.ServerSession
	uri     string
}

// subscription is the state of one.
type subscription struct {
	Resource
	// lifecycle is the alert's, of a subscription to one alert.
	lifecycle history.Lifecycle
	// ended is closed once the listen of the subscription has returned; it is nil for
	// resources/subscribe.
	ended chan struct{}
}

// New returns updates without subscriptions.
func New(cfg Config) *Updates {
	return &Updates{
		cfg: cfg, subscriptions: map[subscriptionKey]*subscription{}, dirty: map[string]struct{}{}, wake: make(chan struct{}, 1),
	}
}

// Attach sets the server whose sessions are notified, and the writer of unsolicited
// messages, which takes whole lines. It comes before the first subscription.
func (u *Updates) Attach(s *mcp.Server, out io.Writer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.server, u.out = s, out
}

// MarkChanged marks the resources that an alert changes. It never blocks.
func (u *Updates) MarkChanged(a alert.Alert) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, sub := range u.subscriptions {
		if sub.changedBy(a) {
			u.dirty[key.uri] = struct{}{}
		}
	}
	if len(u.dirty) == 0 {
		return
	}
	select {
	case u.wake <- struct{}{}:
	default: // it was signalled already
	}
}

// changedBy reports whether the alert changes the resource.
func (sub *subscription) changedBy(a alert.Alert) bool {
	switch sub.Kind {
	case KindAlerts:
		return true
	case KindCI:
		return a.Category == alert.CI
	default:
		return sub.lifecycle.Add(a)
	}
}

// Run sends updates until ctx ends.
func (u *Updates) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-u.wake:
		}
		for _, up := range u.takeDirty() {
			u.send(ctx, up)
		}
		select {
		case <-ctx.Done():
		case <-time.After(updateInterval):
		}
	}
}

// update is a changed resource, and how the client subscribed to it.
type update struct {
	uri string
	// subscribed: by resources/subscribe; listened: by subscriptions/listen.
	subscribed, listened bool
}

// takeDirty empties the set of changed resources, the lists first.
func (u *Updates) takeDirty() []update {
	u.mu.Lock()
	defer u.mu.Unlock()
	updates := map[string]update{}
	for key, sub := range u.subscriptions {
		if _, due := u.dirty[key.uri]; due {
			up := updates[key.uri]
			up.uri, up.subscribed, up.listened = key.uri, up.subscribed || sub.ended == nil, up.listened || sub.ended != nil
			updates[key.uri] = up
		}
	}
	clear(u.dirty)
	all := make([]update, 0, len(updates))
	for _, up := range updates {
		all = append(all, up)
	}
	slices.SortFunc(all, func(a, b update) int { return compareURIs(a.uri, b.uri) })
	return all
}

// send writes an update. For resources/subscribe it is an unsolicited message like all
// others, which waits for a client over HTTP that is between two streams; the SDK would
// drop it then. For subscriptions/listen the SDK writes it, which knows the response.
func (u *Updates) send(ctx context.Context, up update) {
	if up.listened {
		_ = u.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: up.uri}) // it has no errors
	}
	if !up.subscribed {
		return
	}
	line := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`+"\n", up.uri)
	if _, err := u.out.Write([]byte(line)); err != nil {
		u.cfg.Logger.Debug("cannot write a resource update", "uri", up.uri, "error", err)
	}
}
