package mcpserver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// updateInterval is the least time between two updates of one resource. Changes within
// it become one update at its end.
const updateInterval = 250 * time.Millisecond

// resourceUpdates notifies a client that resources which it subscribed to have changed.
// The changed resources are a set: a burst of alerts becomes few updates, and a client
// that does not read blocks no alert.
type resourceUpdates struct {
	server *server

	mu            sync.Mutex
	subscriptions map[resourceSubscriptionKey]*resourceSubscription
	// listens counts the open subscriptions/listen.
	listens int
	// changed holds the URIs of the resources that have changed since the last update.
	changed map[string]struct{}
	// wake receives a signal when changed is not empty.
	wake chan struct{}
}

func newResourceUpdates(s *server) *resourceUpdates {
	return &resourceUpdates{
		server: s, subscriptions: map[resourceSubscriptionKey]*resourceSubscription{}, changed: map[string]struct{}{}, wake: make(chan struct{}, 1),
	}
}

// markChanged marks the resources that an alert changes. It never blocks.
func (u *resourceUpdates) markChanged(a alert.Alert) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, sub := range u.subscriptions {
		if sub.changedBy(a) {
			u.changed[key.uri] = struct{}{}
		}
	}
	if len(u.changed) == 0 {
		return
	}
	select {
	case u.wake <- struct{}{}:
	default: // a signal is pending already
	}
}

// run sends updates until ctx ends.
func (u *resourceUpdates) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-u.wake:
		}
		for _, update := range u.takeChanged() {
			u.send(ctx, update)
		}
		select {
		case <-ctx.Done():
		case <-time.After(updateInterval):
		}
	}
}

// resourceUpdate is a changed resource, and how the client subscribed to it.
type resourceUpdate struct {
	uri string
	// subscribed is by resources/subscribe, listened by subscriptions/listen.
	subscribed, listened bool
}

// takeChanged empties the set of changed resources and returns their updates, lists first.
func (u *resourceUpdates) takeChanged() []resourceUpdate {
	u.mu.Lock()
	defer u.mu.Unlock()
	updates := map[string]resourceUpdate{}
	for key, sub := range u.subscriptions {
		if _, changed := u.changed[key.uri]; changed {
			update := updates[key.uri]
			update.uri = key.uri
			update.subscribed = update.subscribed || sub.ended == nil
			update.listened = update.listened || sub.ended != nil
			updates[key.uri] = update
		}
	}
	clear(u.changed)
	all := make([]resourceUpdate, 0, len(updates))
	for _, update := range updates {
		all = append(all, update)
	}
	slices.SortFunc(all, func(a, b resourceUpdate) int { return compareURIs(a.uri, b.uri) })
	return all
}

// send writes an update. After resources/subscribe it goes to the server's output, which
// waits for a client over HTTP that has no open stream; the SDK would drop it then. After
// subscriptions/listen the SDK writes it, which knows the response.
func (u *resourceUpdates) send(ctx context.Context, update resourceUpdate) {
	if update.listened {
		_ = u.server.mcp.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: update.uri}) // it always returns nil
	}
	if !update.subscribed {
		return
	}
	line := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`+"\n", update.uri)
	if _, err := u.server.out.Write([]byte(line)); err != nil {
		u.server.log.Debug("cannot write a resource update", "uri", update.uri, "error", err)
	}
}
