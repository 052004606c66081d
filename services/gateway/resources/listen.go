package resources

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxListens is how many subscriptions/listen of a client may be open. Past it
	// one is refused: on stdio each counts among the calls under way.
	maxListens = 32
	// endingWithin is how long a new listen waits for one of the same resource that
	// its client is about to end: the two messages may have overtaken each other.
	endingWithin = time.Second
)

// listening marks the context of a subscriptions/listen.
type listening struct{}

// listen holds resources while serve does, which is until the client has ended
// it, or the gateway is about to end: then the client gets the answer that says
// so.
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
	if err := u.enter(ctx, wanted); err != nil {
		return nil, err
	}
	defer u.leave(wanted, ended)

	ctx, cancel := context.WithCancel(context.WithValue(ctx, listening{}, true))
	var until sync.WaitGroup
	until.Go(func() {
		select {
		case <-u.cfg.Closing:
			cancel()
		case <-ctx.Done():
		}
	})
	defer until.Wait()
	defer cancel()
	return serve(ctx)
}

// enter takes all of the subscriptions, or none. The SDK keeps one listen of a
// resource for each connection, so one that is held is waited for, but not long.
func (u *Updates) enter(ctx context.Context, wanted map[subscription]*holding) error {
	limit := time.NewTimer(endingWithin)
	defer limit.Stop()
	for {
		uri, ended, err := u.tryEnter(wanted)
		if err != nil || uri == "" {
			return err
		}
		if ended != nil {
			select {
			case <-ended:
				continue
			case <-limit.C:
			case <-u.cfg.Closing:
			case <-ctx.Done():
			}
		}
		return refusal("%s is subscribed to already on this connection: end that first", uri)
	}
}

// tryEnter is enter without the wait: uri is what is held already, until ended is
// closed or, where that is nil, the client unsubscribes.
func (u *Updates) tryEnter(wanted map[subscription]*holding) (uri string, ended <-chan struct{}, err error) {
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

// leave gives back what enter took, once the SDK has forgotten it too.
func (u *Updates) leave(wanted map[subscription]*holding, ended chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.listens--
	for key := range wanted {
		delete(u.held, key)
	}
	close(ended)
}
