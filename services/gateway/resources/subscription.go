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

// hold returns the state of a subscription to a resource, if that exists.
func (u *Updates) hold(ctx context.Context, uri string) (*holding, error) {
	r, ok := Parse(uri)
	if !ok {
		return nil, NotFound(uri)
	}
	u.cfg.Settle(ctx)
	h := &holding{Resource: r}
	if r.Kind == KindAlert {
		var err error
		if h.lifecycle, err = u.cfg.Lifecycle(ctx, r.ID); err != nil {
			return nil, Failure(uri, err)
		}
	}
	return h, nil
}

// Subscribe handles resources/subscribe: once more changes nothing. Within a listen,
// which has done all of it before, it does nothing.
func (u *Updates) Subscribe(ctx context.Context, r *mcp.SubscribeRequest) error {
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

// Unsubscribe handles resources/unsubscribe: without a subscription it changes nothing.
func (u *Updates) Unsubscribe(ctx context.Context, r *mcp.UnsubscribeRequest) error {
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

// forget ends the subscriptions of an MCP session when its client initializes again.
func (u *Updates) forget(ctx context.Context, session *mcp.ServerSession, next mcp.MethodHandler) {
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
			u.cfg.Logger.Debug("cannot end a subscription of the session before", "uri", uri, "error", err)
		}
	}
}
