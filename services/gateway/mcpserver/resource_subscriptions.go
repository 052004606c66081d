package mcpserver

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxResourceSubscriptions is how many resources a client may be subscribed to.
const maxResourceSubscriptions = 100

const methodUnsubscribe = "resources/unsubscribe"

// resourceSubscriptionKey identifies a subscription by its MCP session and its URI.
type resourceSubscriptionKey struct {
	session *mcp.ServerSession
	uri     string
}

// resourceSubscription is a client's subscription to one resource.
type resourceSubscription struct {
	resource
	// lifecycle is set for singleAlert.
	lifecycle history.Lifecycle
	// ended is closed once the subscriptions/listen that made the subscription has
	// returned. It is nil after resources/subscribe.
	ended chan struct{}
}

// changedBy reports whether the alert changes the resource.
func (sub *resourceSubscription) changedBy(a alert.Alert) bool {
	switch sub.kind {
	case newestAlerts:
		return true
	case latestCI:
		return a.Category == alert.CI
	default:
		return sub.lifecycle.Add(a)
	}
}

// invalidParams returns the error that refuses a subscription.
func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

func errTooManySubscriptions() error {
	return invalidParams("a client may subscribe to at most %d resources: unsubscribe from others first", maxResourceSubscriptions)
}

// newSubscription returns a subscription to a resource that exists. It is not active yet.
func (u *resourceUpdates) newSubscription(ctx context.Context, uri string) (*resourceSubscription, error) {
	r, ok := parseResource(uri)
	if !ok {
		return nil, resourceNotFound(uri)
	}
	u.server.alerts.WaitForPast(ctx) // alerts after the subscription are news
	sub := &resourceSubscription{resource: r}
	if r.kind == singleAlert {
		var err error
		if sub.lifecycle, err = u.server.lifecycle(ctx, r.alertID); err != nil {
			return nil, resourceError(uri, err)
		}
	}
	return sub, nil
}

// subscribe handles resources/subscribe. A second subscription to the same resource
// changes nothing. Within a subscriptions/listen it does nothing, because listen has made
// the subscriptions.
func (u *resourceUpdates) subscribe(ctx context.Context, r *mcp.SubscribeRequest) error {
	if ctx.Value(listenKey{}) != nil {
		return nil
	}
	sub, err := u.newSubscription(ctx, r.Params.URI)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := resourceSubscriptionKey{r.Session, r.Params.URI}
	if u.subscriptions[key] != nil {
		return nil
	}
	if len(u.subscriptions) >= maxResourceSubscriptions {
		return errTooManySubscriptions()
	}
	u.subscriptions[key] = sub
	return nil
}

// unsubscribe handles resources/unsubscribe. Without a subscription it changes nothing.
func (u *resourceUpdates) unsubscribe(ctx context.Context, r *mcp.UnsubscribeRequest) error {
	if ctx.Value(listenKey{}) != nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := resourceSubscriptionKey{r.Session, r.Params.URI}
	if sub := u.subscriptions[key]; sub != nil && sub.ended == nil {
		delete(u.subscriptions, key)
	}
	return nil
}

// watch is middleware. It ends the subscriptions of a client that initializes again,
// bounds subscriptions/listen and ends it at shutdown, and words the error for an
// unknown URI in place of the SDK.
func (u *resourceUpdates) watch(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		session, ok := r.GetSession().(*mcp.ServerSession)
		if !ok {
			return next(ctx, method, r)
		}
		switch params := r.GetParams().(type) {
		case *mcp.ReadResourceParams:
			if _, ok := parseResource(params.URI); !ok { // only [Config.Extend] may have added it
				result, err := next(ctx, method, r)
				if err != nil {
					return nil, resourceNotFound(params.URI)
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

// unsubscribeAll ends the subscriptions of an MCP session.
func (u *resourceUpdates) unsubscribeAll(ctx context.Context, session *mcp.ServerSession, next mcp.MethodHandler) {
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
			u.server.log.Debug("cannot end a subscription of a client that initialized again", "uri", uri, "error", err)
		}
	}
}
