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

// listening marks the context of a subscriptions/listen.
type listening struct{}

// listen holds resources while serve runs: until the client has ended it, or the gateway
// stops accepting; then the client gets the answer that ends it.
func (u *Updates) listen(ctx context.Context, session *mcp.ServerSession, uris []string, serve func(context.Context) (mcp.Result, error)) (mcp.Result, error) {
	if len(uris) > maxSubscriptions {
		return nil, tooMany()
	}
	ended := make(chan struct{})
	wanted := make(map[subscription]*holding, len(uris))
	for _, uri := range uris {
		h, err := u.hold(ctx, uri)
		if err != nil {
			return nil, err
		}
		h.ended = ended
		wanted[subscription{session, uri}] = h
	}
	if err := u.acquire(ctx, wanted); err != nil {
		return nil, err
	}
	defer u.release(wanted, ended)

	ctx, cancel := context.WithCancel(context.WithValue(ctx, listening{}, true))
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
// for each connection, so one that is held is awaited, but not long.
func (u *Updates) acquire(ctx context.Context, wanted map[subscription]*holding) error {
	limit := time.NewTimer(overlapTimeout)
	defer limit.Stop()
	for {
		uri, ended, err := u.tryAcquire(wanted)
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

// tryAcquire is acquire without the wait. uri is what is held already, until ended is
// closed or, where that is nil, the client unsubscribes.
func (u *Updates) tryAcquire(wanted map[subscription]*holding) (uri string, ended <-chan struct{}, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range wanted {
		if h := u.held[key]; h != nil {
			return key.uri, h.ended, nil
		}
	}
	switch {
	case u.listens >= maxListens:
		return "", nil, refusal("a client may have at most %d subscriptions/listen open: name more resources in one", maxListens)
	case len(u.held)+len(wanted) > maxSubscriptions:
		return "", nil, tooMany()
	}
	u.listens++
	for key, h := range wanted {
		u.held[key] = h
	}
	return "", nil, nil
}

// release returns what acquire took, once the SDK has forgotten it too.
func (u *Updates) release(wanted map[subscription]*holding, ended chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.listens--
	for key := range wanted {
		delete(u.held, key)
	}
	close(ended)
}
