package mcpevents

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// MaxStreams is the number of streams that a client may have at once. Each takes at most
// 500 KB, with its pending alerts.
const MaxStreams = 8

// maxAge is the largest maxAgeMs: ten years.
const maxAge = 10 * 365 * 24 * 60 * 60 * 1000

// Config configures the extension.
type Config struct {
	Source Source
	// Writer returns the function that writes notifications for a request to the client: on
	// stdio to stdout, on HTTP to the response of that request. A line ends with a newline
	// and is written at once. It returns nil if there is no such connection.
	Writer func(ctx context.Context) (write func(line []byte) error)
	// RequestContext bounds a request. If nil, the request's own context does.
	RequestContext func(context.Context) (context.Context, context.CancelFunc)
	// Stopping is closed when the streams must end.
	Stopping <-chan struct{}
	// Defaults returns the filters of a subscription that names none. If nil, they are
	// [notifier.DefaultConfig].
	Defaults func() notifier.Config
}

// Register adds the extension's methods to a server. The server must declare the extension,
// see [Declare], and its transport must call [SetSubscriptionID] for each request.
func Register(s *mcp.Server, cfg Config) error {
	e := &extension{cfg: cfg, streams: make(chan struct{}, MaxStreams)}
	if e.cfg.RequestContext == nil {
		e.cfg.RequestContext = context.WithCancel
	}
	if e.cfg.Defaults == nil {
		e.cfg.Defaults = notifier.DefaultConfig
	}
	for _, add := range []func() error{
		func() error { return mcp.AddReceivingCustomMethod(s, methodList, list) },
		func() error { return mcp.AddReceivingCustomMethod(s, methodPoll, e.poll) },
		func() error { return mcp.AddReceivingCustomMethod(s, methodStream, e.stream) },
		func() error { return mcp.AddReceivingCustomMethod(s, methodSubscribe, subscribe) },
		func() error { return mcp.AddReceivingCustomMethod(s, methodUnsubscribe, unsubscribe) },
	} {
		if err := add(); err != nil {
			return fmt.Errorf("add the events extension: %w", err)
		}
	}
	return nil
}

type extension struct {
	cfg Config
	// streams holds an element for each open stream.
	streams chan struct{}
}

func list(_ context.Context, _ *mcp.ServerSession, p *listParams) (*listResult, error) {
	if p != nil && p.Cursor != nil && *p.Cursor != "" {
		return nil, invalidParams("cursor must be missing or null: all events are on the first page")
	}
	types, err := eventTypes()
	if err != nil {
		return nil, internalError(err)
	}
	return &listResult{ResultType: complete, Events: types}, nil
}

func (e *extension) poll(ctx context.Context, _ *mcp.ServerSession, p *subscription) (*pollResult, error) {
	f, err := e.check(p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := e.cfg.RequestContext(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	r, err := poll(ctx, e.cfg.Source, p, f, time.Now())
	if err != nil {
		return nil, internalError(err)
	}
	return r, nil
}

// check validates the parameters of a subscription and returns its filter.
func (e *extension) check(p *subscription) (filter, error) {
	switch {
	case p == nil:
		return filter{}, invalidParams("name must be the name of an event: events/list has the names")
	case p.Name != EventName:
		return filter{}, unknownEvent()
	case p.MaxAgeMs != nil && (*p.MaxAgeMs < 0 || *p.MaxAgeMs > maxAge):
		return filter{}, invalidParams(fmt.Sprintf("maxAgeMs must be between 0 and %d", int64(maxAge)))
	case p.MaxEvents != nil && *p.MaxEvents < 1:
		return filter{}, invalidParams("maxEvents must be at least 1")
	}
	return readFilter(p.Arguments, e.cfg.Defaults())
}

func (e *extension) stream(ctx context.Context, _ *mcp.ServerSession, p *subscription) (*streamResult, error) {
	f, err := e.check(p)
	if err != nil {
		return nil, err
	}
	id, err := json.Marshal(p.Meta[mcp.MetaKeySubscriptionID])
	write := e.cfg.Writer(ctx)
	if err != nil || write == nil || p.Meta[mcp.MetaKeySubscriptionID] == nil {
		return nil, unsupportedDelivery("push", "there is no stream to this client: use events/poll")
	}
	select {
	case e.streams <- struct{}{}:
	default:
		return nil, refusal(codeResourceExhausted, fmt.Sprintf("at most %d streams are allowed: cancel one", MaxStreams), limitData{"subscriptions", MaxStreams})
	}
	defer func() { <-e.streams }()
	ctx, cancel := e.cfg.RequestContext(ctx)
	defer cancel()
	start, truncated, err := e.start(ctx, p)
	if err != nil {
		return nil, internalError(err)
	}
	if err := newPush(id, f, start).run(ctx, e.cfg.Source, truncated, e.cfg.Stopping, write); err != nil {
		return nil, internalError(err)
	}
	r := &streamResult{ResultType: complete}
	r.Meta = mcp.Meta{mcp.MetaKeySubscriptionID: json.RawMessage(id)}
	return r, nil
}

// start returns where a stream begins.
func (e *extension) start(ctx context.Context, p *subscription) (start bus.Position, truncated bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	state, err := e.cfg.Source.State(ctx)
	if err != nil {
		return bus.Position{}, false, err
	}
	if start, truncated = startPosition(p.Cursor, state); p.Cursor == nil {
		return start, truncated, nil
	}
	from, err := skipOlder(ctx, e.cfg.Source, start, state.Last, p.MaxAgeMs, time.Now())
	return from, truncated || from.Seq != start.Seq, err
}

// subscribe refuses webhooks: a gateway on a developer's machine sends no requests.
func subscribe(_ context.Context, _ *mcp.ServerSession, p *subscription) (*listResult, error) {
	if p == nil || p.Name != EventName {
		return nil, unknownEvent()
	}
	return nil, unsupportedDelivery("webhook", "events are not delivered by webhook: use events/poll or events/stream")
}

// unsubscribe finds no subscription: only subscribe would make one.
func unsubscribe(context.Context, *mcp.ServerSession, *subscription) (*listResult, error) {
	return nil, refusal(codeNotFound, "there is no such subscription: events are not delivered by webhook", kindData{"subscription"})
}
