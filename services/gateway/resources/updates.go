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

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// updateEvery is the least time between two updates of one resource. What
// changes in between is told by one update at its end.
const updateEvery = 250 * time.Millisecond

// Config says what the updates of a client need.
type Config struct {
	// Closing is closed when the gateway is about to end.
	Closing <-chan struct{}
	// Settle waits, soon after the start, until it is known which alerts are of the
	// past: what comes after a subscription is news.
	Settle func(ctx context.Context)
	// Look finds the alert that an id names, and what became of it. It fails with
	// ErrNoSuchAlert where there is none.
	Look   func(ctx context.Context, id string) (Story, error)
	Logger *slog.Logger
}

// Updates tells a client that resources have changed which it subscribed to. What
// has changed is a set, so a burst of alerts is few updates, and a client that
// does not read holds up nobody.
type Updates struct {
	cfg Config

	mu sync.Mutex
	// server and out are set before there is a subscription.
	server *mcp.Server
	out    io.Writer
	held   map[subscription]*holding
	// listens is how many subscriptions/listen are open.
	listens int
	// due are the resources that have changed.
	due map[string]struct{}
	// some is sent to when there are any.
	some chan struct{}
}

// subscription is a client's interest in one resource. One without a session of
// the protocol has an SDK's session for each request.
type subscription struct {
	session *mcp.ServerSession
	uri     string
}

// holding is what is known of a subscription.
type holding struct {
	Resource
	// story is the alert's, of a subscription to one alert.
	story Story
	// ended is closed once the listen that holds it has returned; of
	// resources/subscribe it is nil.
	ended chan struct{}
}

// New makes updates of nobody yet; they are told by Run.
func New(cfg Config) *Updates {
	return &Updates{
		cfg: cfg, held: map[subscription]*holding{}, due: map[string]struct{}{}, some: make(chan struct{}, 1),
	}
}

// Serve says who is to be told, and how: out takes whole lines. It comes before the
// first subscription.
func (u *Updates) Serve(s *mcp.Server, out io.Writer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.server, u.out = s, out
}

// Note marks what an alert changes. It never waits.
func (u *Updates) Note(a alert.Alert) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, h := range u.held {
		if h.changes(a) {
			u.due[key.uri] = struct{}{}
		}
	}
	if len(u.due) == 0 {
		return
	}
	select {
	case u.some <- struct{}{}:
	default: // it was said already
	}
}

// changes says whether the alert changes the resource.
func (h *holding) changes(a alert.Alert) bool {
	switch h.Kind {
	case KindAlerts:
		return true
	case KindCI:
		return a.Category == alert.CI
	default:
		return h.story.GoOn(a)
	}
}

// Run tells what has changed, until ctx ends.
func (u *Updates) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-u.some:
		}
		for _, change := range u.take() {
			u.tell(ctx, change)
		}
		select {
		case <-ctx.Done():
		case <-time.After(updateEvery):
		}
	}
}

// change is a resource to tell of, and to whom.
type change struct {
	uri string
	// subscribed says that the client subscribed to it, and listened that it listens.
	subscribed, listened bool
}

// take empties the set of what has changed, the general resources first.
func (u *Updates) take() []change {
	u.mu.Lock()
	defer u.mu.Unlock()
	changes := map[string]change{}
	for key, h := range u.held {
		if _, due := u.due[key.uri]; due {
			c := changes[key.uri]
			c.uri, c.subscribed, c.listened = key.uri, c.subscribed || h.ended == nil, c.listened || h.ended != nil
			changes[key.uri] = c
		}
	}
	clear(u.due)
	all := make([]change, 0, len(changes))
	for _, c := range changes {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b change) int { return compare(a.uri, b.uri) })
	return all
}

// tell writes an update. To who has subscribed it goes the way of all that comes
// unasked, which waits for a client over HTTP that is between two streams; the
// SDK would drop it then. To those who listen the SDK writes, who knows where.
func (u *Updates) tell(ctx context.Context, c change) {
	if c.listened {
		_ = u.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: c.uri}) // it has no errors
	}
	if !c.subscribed {
		return
	}
	line := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`+"\n", c.uri)
	if _, err := u.out.Write([]byte(line)); err != nil {
		u.cfg.Logger.Debug("an update can't be written", "uri", c.uri, "error", err)
	}
}
