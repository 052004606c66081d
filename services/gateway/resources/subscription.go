package resources

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxSubscriptions is how many resources a client may be subscribed to. Past it a
// subscription is refused.
const maxSubscriptions = 100

const methodUnsubscribe = "resources/unsubscribe"

// refusal returns the error for a subscription that is refused.
func refusal(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// newSubscription returns a subscription to a resource, if that exists. It is not active yet.
func (u *Updates) newSubscription(ctx context.Context, uri string) (*subscription, error) {
	r, ok := Parse(uri)
	if !ok {
		return nil, NotFound(uri)
	}
	u.cfg.WaitForPast(ctx)
	sub := &subscription{Resource: r}
	if r.Kind == KindAlert {
		var err error
		if sub.lifecycle, err = u.cfg.Lifecycle(ctx, r.ID); err != nil {
			return nil, Failure(uri, err)
		}
	}
	return sub, nil
}

// Subscribe handles resources/subscribe: once more changes nothing. Within a listen,
// which has done all of it before, it does nothing.
func (u *Updates) Subscribe(ctx context.Context, r *mcp.SubscribeRequest) error {
	if ctx.Value(listenKey{}) != nil {
		return nil
	}
	sub, err := u.newSubscription(ctx, r.Params.URI)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := subscriptionKey{r.Session, r.Params.URI}
	if u.subscriptions[key] != nil {
		return nil
	}
	if len(u.subscriptions) >= maxSubscriptions {
		return errTooMany()
	}
	u.subscriptions[key] = sub
	return nil
}

func errTooMany() error {
	return refusal("a client may subscribe to at most %d resources: unsubscribe from others first", maxSubscriptions)
}

// Unsubscribe handles resources/unsubscribe: without a subscription it changes nothing.
func (u *Updates) Unsubscribe(ctx context.Context, r *mcp.UnsubscribeRequest) error {
	if ctx.Value(listenKey{}) != nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := subscriptionKey{r.Session, r.Params.URI}
	if sub := u.subscriptions[key]; sub != nil && sub.ended == nil {
		delete(u.subscriptions, key)
	}
	return nil
}

// Watch is the middleware: it ends subscriptions with their MCP session, bounds and ends
// subscriptions/listen, and answers in place of the SDK that a URI does not exist.
func (u *Updates) Watch(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		session, ok := r.GetSession().(*mcp.ServerSession)
		if !ok {
			return next(ctx, method, r)
		}
		switch params := r.GetParams().(type) {
		case *mcp.ReadResourceParams:
			if _, ok := Parse(params.URI); !ok {
				// It does not exist, unless the server was extended.
				result, err := next(ctx, method, r)
				if err != nil {
					return nil, NotFound(params.URI)
				}
				return result, nil
			}
		case *mcp.InitializeParams:
			u.unsubscribeAll(ctx, session, next)
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

// unsubscribeAll ends the subscriptions of an MCP session when its client initializes again.
func (u *Updates) unsubscribeAll(ctx context.Context, session *mcp.ServerSession, next mcp.MethodHandler) {
	u.mu.Lock()
	var uris []string
	for key := range u.subscriptions {
		if key.session == session {
			uris = append(uris, key.uri)
		}
	}
	u.mu.Unlock()
	for _, uri := range uris {
		_, err := next(ctx, methodUnsubscribe, &mcp.UnsubscribeRequest{Session: session, Params: &mcp.UnsubscribeParams{URI: uri}})
		if err != nil {
			u.cfg.Logger.Debug("cannot end a subscription of the session before", "uri", uri, "error", err)
		}
	}
}
