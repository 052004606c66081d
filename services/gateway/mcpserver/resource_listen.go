package mcpserver

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxListens is how many subscriptions/listen a client may have open. On stdio each
	// counts among the calls under way.
	maxListens = 32
	// overlapTimeout is how long a new listen waits for the end of another one on the same
	// resource: the client's request and its cancellation may arrive in either order.
	overlapTimeout = time.Second
)

// listenKey marks the context of a subscriptions/listen.
type listenKey struct{}

// listen keeps subscriptions while serve runs: until the client ends the call, or the
// gateway stops accepting and answers it.
func (u *resourceUpdates) listen(ctx context.Context, session *mcp.ServerSession, uris []string, serve func(context.Context) (mcp.Result, error)) (mcp.Result, error) {
	if len(uris) > maxResourceSubscriptions {
		return nil, errTooManySubscriptions()
	}
	ended := make(chan struct{})
	requested := make(map[resourceSubscriptionKey]*resourceSubscription, len(uris))
	for _, uri := range uris {
		sub, err := u.newSubscription(ctx, uri)
		if err != nil {
			return nil, err
		}
		sub.ended = ended
		requested[resourceSubscriptionKey{session, uri}] = sub
	}
	if err := u.acquire(ctx, requested); err != nil {
		return nil, err
	}
	defer u.release(requested, ended)

	ctx, cancel := context.WithCancel(context.WithValue(ctx, listenKey{}, true))
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-u.server.life.Stopping():
			cancel()
		case <-ctx.Done():
		}
	})
	defer watching.Wait()
	defer cancel()
	return serve(ctx)
}

// acquire adds all of the subscriptions, or none. The SDK keeps one listen on a resource
// for each connection, so acquire waits for an open one to end, up to overlapTimeout.
func (u *resourceUpdates) acquire(ctx context.Context, requested map[resourceSubscriptionKey]*resourceSubscription) error {
	limit := time.NewTimer(overlapTimeout)
	defer limit.Stop()
	for {
		uri, ended, err := u.tryAcquire(requested)
		if err != nil || uri == "" {
			return err
		}
		if ended != nil {
			select {
			case <-ended:
				continue
			case <-limit.C:
			case <-u.server.life.Stopping():
			case <-ctx.Done():
			}
		}
		return invalidParams("%s is already subscribed to on this connection: end that subscription first", uri)
	}
}

// tryAcquire is acquire without the wait. A uri that it returns has a subscription
// already, which ends when ended is closed or, if that is nil, when the client
// unsubscribes.
func (u *resourceUpdates) tryAcquire(requested map[resourceSubscriptionKey]*resourceSubscription) (uri string, ended <-chan struct{}, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range requested {
		if sub := u.subscriptions[key]; sub != nil {
			return key.uri, sub.ended, nil
		}
	}
	switch {
	case u.listens >= maxListens:
		return "", nil, invalidParams("a client may have at most %d subscriptions/listen open: name more resources in one", maxListens)
	case len(u.subscriptions)+len(requested) > maxResourceSubscriptions:
		return "", nil, errTooManySubscriptions()
	}
	u.listens++
	for key, sub := range requested {
		u.subscriptions[key] = sub
	}
	return "", nil, nil
}

// release removes the subscriptions that acquire added, after the SDK has done so.
func (u *resourceUpdates) release(requested map[resourceSubscriptionKey]*resourceSubscription, ended chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.listens--
	for key := range requested {
		delete(u.subscriptions, key)
	}
	close(ended)
}
