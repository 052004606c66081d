package mcpevents

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
)

// MaxStreams is how many streams a client may have at once, which is a server of
// its own: with the alerts that it holds back, one takes at most 500 KB. Past it
// one more is refused.
const MaxStreams = 8

// maxAge is the largest maxAgeMs: ten years.
const maxAge = 10 * 365 * 24 * 60 * 60 * 1000

// Notifier finds the way to the client for what belongs to a request: on stdio
// stdout, on HTTP the response to that very request. A line ends with a newline,
// and is written as it is, at once. It is nil where there is no such way.
type Notifier func(ctx context.Context) (write func(line []byte) error)

// Config is what the extension needs.
type Config struct {
	Source   Source
	Notifier Notifier
	// Underway bounds a request. It may be nil: the request's own context does.
	Underway func(context.Context) (context.Context, context.CancelFunc)
	// Ending is closed when the streams have to end.
	Ending <-chan struct{}
	// Defaults are the filters of a subscription that names none. It may be nil:
	// stream.DefaultConfig.
	Defaults func() notifier.Config
}

// Register adds the extension's methods to a server, which has to Declare it,
// and whose transport has to Stamp its requests.
func Register(s *mcp.Server, cfg Config) error {
	e := &extension{cfg: cfg, streams: make(chan struct{}, MaxStreams)}
	if e.cfg.Underway == nil {
		e.cfg.Underway = context.WithCancel
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
	// streams has a place for each that is open.
	streams chan struct{}
}

func list(_ context.Context, _ *mcp.ServerSession, p *listParams) (*listResult, error) {
	if p != nil && p.Cursor != nil && *p.Cursor != "" {
		return nil, invalid("cursor must be that of a page before: all events are on the first")
	}
	return &listResult{ResultType: complete, Events: descriptors()}, nil
}

func (e *extension) poll(ctx context.Context, _ *mcp.ServerSession, p *subscription) (*pollResult, error) {
	f, err := e.check(p)
	if err != nil {
		return nil, err
	}
	ctx, cancel := e.cfg.Underway(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, askWithin)
	defer stop()
	r, err := poll(ctx, e.cfg.Source, p, f, time.Now())
	if err != nil {
		return nil, internal(err)
	}
	return r, nil
}

// check reads what a subscription asks for.
func (e *extension) check(p *subscription) (filter, error) {
	switch {
	case p == nil:
		return filter{}, invalid("name must be that of an event: events/list names those that there are")
	case p.Name != EventName:
		return filter{}, unknown()
	case p.MaxAgeMs != nil && (*p.MaxAgeMs < 0 || *p.MaxAgeMs > maxAge):
		return filter{}, invalid(fmt.Sprintf("maxAgeMs must be between 0 and %d", int64(maxAge)))
	case p.MaxEvents != nil && *p.MaxEvents < 1:
		return filter{}, invalid("maxEvents must be at least 1")
	}
	return readFilter(p.Arguments, e.cfg.Defaults())
}

func (e *extension) stream(ctx context.Context, _ *mcp.ServerSession, p *subscription) (*streamResult, error) {
	f, err := e.check(p)
	if err != nil {
		return nil, err
	}
	id, err := json.Marshal(p.Meta[mcp.MetaKeySubscriptionID])
	write := e.cfg.Notifier(ctx)
	if err != nil || write == nil || p.Meta[mcp.MetaKeySubscriptionID] == nil {
		return nil, unsupported("push", "there is no stream to this client: ask by events/poll")
	}
	select {
	case e.streams <- struct{}{}:
	default:
		return nil, refusal(codeResourceExhausted, fmt.Sprintf("there may be at most %d streams: cancel one", MaxStreams), limit{"subscriptions", MaxStreams})
	}
	defer func() { <-e.streams }()
	ctx, cancel := e.cfg.Underway(ctx)
	defer cancel()
	at, truncated, err := e.begin(ctx, p)
	if err != nil {
		return nil, internal(err)
	}
	if err := newPush(id, f, at).run(ctx, e.cfg.Source, truncated, e.cfg.Ending, write); err != nil {
		return nil, internal(err)
	}
	r := &streamResult{ResultType: complete}
	r.Meta = mcp.Meta{mcp.MetaKeySubscriptionID: json.RawMessage(id)}
	return r, nil
}

// begin finds where a stream begins.
func (e *extension) begin(ctx context.Context, p *subscription) (at Position, truncated bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	state, err := e.cfg.Source.State(ctx)
	if err != nil {
		return Position{}, false, err
	}
	if at, truncated = begin(p.Cursor, state); p.Cursor == nil {
		return at, truncated, nil
	}
	from, err := aged(ctx, e.cfg.Source, at, state.Last, p.MaxAgeMs, time.Now())
	return from, truncated || from.Seq != at.Seq, err
}

// subscribe refuses webhooks: a gateway on a developer's machine calls nobody.
func subscribe(_ context.Context, _ *mcp.ServerSession, p *subscription) (*listResult, error) {
	if p == nil || p.Name != EventName {
		return nil, unknown()
	}
	return nil, unsupported("webhook", "events are not delivered by webhook: ask by events/poll or events/stream")
}

// unsubscribe finds no subscription, as there is none.
func unsubscribe(context.Context, *mcp.ServerSession, *subscription) (*listResult, error) {
	return nil, refusal(codeNotFound, "there is no such subscription: events are not delivered by webhook", kind{"subscription"})
}
