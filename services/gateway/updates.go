package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// maxSubscriptions is how many resources a client may be subscribed to. Past
	// it a subscription is refused.
	maxSubscriptions = 100
	// updateEvery is the least time between two updates of one resource. What
	// changes in between is told by one update at its end.
	updateEvery = 250 * time.Millisecond
)

const methodUnsubscribe = "resources/unsubscribe"

// updates tells a client that resources have changed which it subscribed to. What
// has changed is a set, so a burst of alerts is few updates, and a client that
// does not read holds up nobody.
type updates struct {
	// closing is closed when the gateway is about to end.
	closing <-chan struct{}
	// look finds the alert that an id names.
	look func(ctx context.Context, id string) (story, error)
	log  *slog.Logger

	mu sync.Mutex
	// server and out are set before there is a subscription.
	server *mcp.Server
	out    outlet
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
	resource
	// story is the alert's, of a subscription to one alert.
	story story
	// ended is closed once the listen that holds it has returned; of
	// resources/subscribe it is nil.
	ended chan struct{}
}

func newUpdates(g *gateway) *updates {
	return &updates{
		closing: g.closing, log: g.log,
		look: func(ctx context.Context, id string) (story, error) {
			g.settle(ctx)
			ctx, cancel := context.WithTimeout(ctx, queryTimeout)
			defer cancel()
			return g.find(ctx, id)
		},
		held: map[subscription]*holding{}, due: map[string]struct{}{}, some: make(chan struct{}, 1),
	}
}

// serve says who is to be told, and how.
func (u *updates) serve(s *mcp.Server, out outlet) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.server, u.out = s, out
}

// note marks what an alert changes. It never waits.
func (u *updates) note(a alert.Alert) {
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
	switch h.kind {
	case resourceAlerts:
		return true
	case resourceCI:
		return a.Category == alert.CI
	default:
		return h.story.goOn(a)
	}
}

// run tells what has changed, until ctx ends.
func (u *updates) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-u.some:
		}
		for _, change := range u.take() {
			u.tell(ctx, change)
		}
		pause(ctx, updateEvery)
	}
}

// change is a resource to tell of, and to whom.
type change struct {
	uri string
	// subscribed says that the client subscribed to it, and listened that it listens.
	subscribed, listened bool
}

// take empties the set of what has changed, the general resources first.
func (u *updates) take() []change {
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
	slices.SortFunc(all, func(a, b change) int { return compareURIs(a.uri, b.uri) })
	return all
}

// tell writes an update. To who has subscribed it goes the way of all that comes
// unasked, which waits for a client over HTTP that is between two streams; the
// SDK would drop it then. To those who listen the SDK writes, who knows where.
func (u *updates) tell(ctx context.Context, c change) {
	if c.listened {
		_ = u.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: c.uri}) // it has no errors
	}
	if !c.subscribed {
		return
	}
	line := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`+"\n", c.uri)
	if _, err := u.out.Write([]byte(line)); err != nil {
		u.log.Debug("an update can't be written", "uri", c.uri, "error", err)
	}
}

// refusal says why there is no subscription.
func refusal(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// hold makes the holding of a resource, if there is such a one.
func (u *updates) hold(ctx context.Context, uri string) (*holding, error) {
	r, ok := parseURI(uri)
	if !ok {
		return nil, notFound(uri)
	}
	h := &holding{resource: r}
	if r.kind == resourceAlert {
		var err error
		if h.story, err = u.look(ctx, r.id); err != nil {
			return nil, failure(uri, err)
		}
	}
	return h, nil
}

// subscribe is resources/subscribe: once more changes nothing. Within a listen,
// which has seen to all of it before, it does nothing.
func (u *updates) subscribe(ctx context.Context, r *mcp.SubscribeRequest) error {
	if ctx.Value(listening{}) != nil {
		return nil
	}
	h, err := u.hold(ctx, r.Params.URI)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := subscription{r.Session, r.Params.URI}
	if u.held[key] != nil {
		return nil
	}
	if len(u.held) >= maxSubscriptions {
		return tooMany()
	}
	u.held[key] = h
	return nil
}

func tooMany() error {
	return refusal("a client may subscribe to at most %d resources: unsubscribe from others first", maxSubscriptions)
}

// unsubscribe is resources/unsubscribe: of what isn't subscribed to it changes
// nothing.
func (u *updates) unsubscribe(ctx context.Context, r *mcp.UnsubscribeRequest) error {
	if ctx.Value(listening{}) != nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := subscription{r.Session, r.Params.URI}
	if h := u.held[key]; h != nil && h.ended == nil {
		delete(u.held, key)
	}
	return nil
}

// watch is the middleware: it ends subscriptions with the session that they were
// made in, gives subscriptions/listen its bounds and its end, and keeps URIs that
// are not ours from the SDK.
func (u *updates) watch(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		session, ok := r.GetSession().(*mcp.ServerSession)
		if !ok {
			return next(ctx, method, r)
		}
		switch params := r.GetParams().(type) {
		case *mcp.ReadResourceParams:
			if _, ok := parseURI(params.URI); !ok {
				// Nobody has it, unless the server was extended.
				result, err := next(ctx, method, r)
				if err != nil {
					return nil, notFound(params.URI)
				}
				return result, nil
			}
		case *mcp.InitializeParams:
			u.forget(ctx, session, next)
		case *mcp.SubscriptionsListenParams:
			if params.Notifications != nil {
				return u.listen(ctx, session, params.Notifications.ResourceSubscriptions, func(ctx context.Context) (mcp.Result, error) {
					return next(ctx, method, r)
				})
			}
		}
		return next(ctx, method, r)
	}
}

// forget ends what was subscribed to before a session began anew on its
// connection.
func (u *updates) forget(ctx context.Context, session *mcp.ServerSession, next mcp.MethodHandler) {
	u.mu.Lock()
	var uris []string
	for key := range u.held {
		if key.session == session {
			uris = append(uris, key.uri)
		}
	}
	u.mu.Unlock()
	for _, uri := range uris {
		_, err := next(ctx, methodUnsubscribe, &mcp.UnsubscribeRequest{Session: session, Params: &mcp.UnsubscribeParams{URI: uri}})
		if err != nil {
			u.log.Debug("a subscription outlives its session", "uri", uri, "error", err)
		}
	}
}
