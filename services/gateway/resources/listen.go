package resources

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxListens is how many subscriptions/listen of a client may be open. Past it one is
	// refused: on stdio each counts among the calls under way.
	maxListens = 32
	// overlapTimeout is how long a new listen waits for one of the same resource that its
	// client is about to end: the two messages may arrive in either order.
	overlapTimeout = time.Second
)

// listenKey marks the context of a subscriptions/listen.
type listenKey struct{}

// listen keeps subscriptions while serve runs: until the client has ended it, or the gateway
// stops accepting; then the client gets the answer that ends it.
func (u *Updates) listen(ctx context.Context, session *mcp.ServerSession, uris []string, serve func(context.Context) (mcp.Result, error)) (mcp.Result, error) {
	if len(uris) > maxSubscriptions {
		return nil, errTooMany()
	}
	ended := make(chan struct{})
	requested := make(map[subscriptionKey]*subscription, len(uris))
	for _, uri := range uris {
		sub, err := u.newSubscription(ctx, uri)
		if err != nil {
			return nil, err
		}
		sub.ended = ended
		requested[subscriptionKey{session, uri}] = sub
	}
	if err := u.acquire(ctx, requested); err != nil {
		return nil, err
	}
	defer u.release(requested, ended)

	ctx, cancel := context.WithCancel(context.WithValue(ctx, listenKey{}, true))
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-u.cfg.Stopping:
			cancel()
		case <-ctx.Done():
		}
	})
	defer watching.Wait()
	defer cancel()
	return serve(ctx)
}

// acquire takes all of the subscriptions, or none. The SDK keeps one listen of a resource
// for each connection, so an open one is awaited, but not long.
func (u *Updates) acquire(ctx context.Context, requested map[subscriptionKey]*subscription) error {
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
			case <-u.cfg.Stopping:
			case <-ctx.Done():
			}
		}
		return refusal("%s is subscribed to already on this connection: end that first", uri)
	}
}

// tryAcquire is acquire without the wait. uri is subscribed to already, until ended is
// closed or, where that is nil, the client unsubscribes.
func (u *Updates) tryAcquire(requested map[subscriptionKey]*subscription) (uri string, ended <-chan struct{}, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range requested {
		if sub := u.subscriptions[key]; sub != nil {
			return key.uri, sub.ended, nil
		}
	}
	switch {
	case u.listens >= maxListens:
		return "", nil, refusal("a client may have at most %d subscriptions/listen open: name more resources in one", maxListens)
	case len(u.subscriptions)+len(requested) > maxSubscriptions:
		return "", nil, errTooMany()
	}
	u.listens++
	for key, sub := range requested {
		u.subscriptions[key] = sub
	}
	return "", nil, nil
}

// release returns what acquire took, once the SDK has forgotten it too.
func (u *Updates) release(requested map[subscriptionKey]*subscription, ended chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.listens--
	for key := range requested {
		delete(u.subscriptions, key)
	}
	close(ended)
}
