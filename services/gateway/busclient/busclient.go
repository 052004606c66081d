// Package busclient keeps one client of the gateway connected to the bus. It also has the
// [Lifetime] that everything serving one client shares.
//
// An unreachable bus never ends a gateway: calls fail with [ErrUnreachable], and a closed
// session is opened again until the context ends.
package busclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// GatewayName is the name of gateways' sessions, by which the bus counts them.
	GatewayName = "tocsin gateway"
	// RequestTimeout bounds the requests of one tool call to the bus and the detector.
	RequestTimeout = 3 * time.Second
	// RetryPause is the pause between two attempts to do something on the bus.
	RetryPause = 200 * time.Millisecond
)

// The errors that a client of the gateway reads when the bus or the detector does not
// answer.
var (
	ErrUnreachable = errors.New("the bus is unreachable: alerts raised meanwhile are delivered when it is back; run tocsin doctor to see why")
	ErrNoAnswer    = errors.New("the bus does not answer: alerts raised meanwhile are delivered when it does; run tocsin doctor to see why")
	ErrNoDetector  = errors.New("the detector does not answer: run tocsin doctor to see why")
	// ErrNoInvestigator is returned where none runs, and where its answer took too long.
	ErrNoInvestigator = errors.New("no investigator answers: start one with tocsin up --investigator FILE, or run tocsin doctor to see why")
)

// Client has a session on the bus and opens it again when it is closed.
type Client struct {
	link     *bus.Link
	external bool
}

// New returns a client without a session: [Client.Run] opens it.
func New(cfg bus.Config, log *slog.Logger) *Client {
	cfg.Logger = log
	return &Client{
		link:     bus.NewLink(bus.RunConfig{Config: cfg, Pause: RetryPause, Retry: func(error) bool { return true }}),
		external: cfg.URL != "",
	}
}

// External reports whether the bus is an external NATS server.
func (c *Client) External() bool { return c.external }

// Session returns the session, or [ErrUnreachable].
func (c *Client) Session() (*bus.Session, error) {
	session, err := c.link.Connected()
	if err != nil {
		return nil, ErrUnreachable
	}
	return session, nil
}

// Connected returns nil while the bus is reachable, and [ErrUnreachable] otherwise.
func (c *Client) Connected() error {
	_, err := c.Session()
	return err
}

// Run keeps a session until ctx ends, and calls each of serve on every session. Their
// context ends with the session.
func (c *Client) Run(ctx context.Context, serve ...func(context.Context, *bus.Session) error) error {
	return c.link.Run(ctx, func(ctx context.Context, session *bus.Session) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, f := range serve {
			group.Go(func() error { return f(ctx, session) })
		}
		return group.Wait()
	})
}

// Follow follows a stream as [bus.Link.Follow] does, over sessions, until ctx ends.
func (c *Client) Follow(ctx context.Context, cfg bus.FollowConfig, handle func(bus.Message)) {
	// It fails only when ctx ends, because the handler never does.
	_ = c.link.Follow(ctx, cfg, func(m bus.Message) error { handle(m); return nil })
}

// Explain returns [ErrUnreachable] or [ErrNoAnswer] if that is why a request with ctx
// failed, and err otherwise.
func (c *Client) Explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case c.Connected() != nil, errors.Is(err, bus.ErrUnreachable):
		return ErrUnreachable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ErrNoAnswer
	default:
		return err
	}
}

// Ask sends a request to the detector and decodes its reply.
func Ask[T any](ctx context.Context, c *Client, subject string, request any) (reply T, err error) {
	return ask[T](ctx, c, subject, request, "the detector", ErrNoDetector)
}

// AskInvestigator sends a request to an investigator and decodes its reply. The error of a request
// that is too long for the bus wraps [nats.ErrMaxPayload].
func AskInvestigator[T any](ctx context.Context, c *Client, subject string, request any) (reply T, err error) {
	return ask[T](ctx, c, subject, request, "the investigator", ErrNoInvestigator)
}

// ask sends a request to a service. The error is none where the service does not answer.
func ask[T any](ctx context.Context, c *Client, subject string, request any, service string, none error) (reply T, err error) {
	session, err := c.Session()
	if err != nil {
		return reply, err
	}
	data, err := bus.Ask(ctx, session, subject, request)
	switch {
	case errors.Is(err, bus.ErrUnreachable):
		return reply, ErrUnreachable
	case errors.Is(err, bus.ErrNoAnswer):
		return reply, none
	case err != nil:
		return reply, err
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		return reply, fmt.Errorf("decode the answer of %s: %w", service, err)
	}
	return reply, nil
}

// State returns the state of a stream. Its errors are [ErrUnreachable] and those of
// [bus.Session.State].
func (c *Client) State(ctx context.Context, stream string) (bus.State, error) {
	session, err := c.Session()
	if err != nil {
		return bus.State{}, err
	}
	state, err := session.State(ctx, stream)
	if errors.Is(err, bus.ErrUnreachable) {
		return state, ErrUnreachable
	}
	return state, err
}

// Range reads a stream as [bus.Session.Range] does, until handle returns false.
func (c *Client) Range(ctx context.Context, r bus.Range, handle func(bus.Message) (more bool)) error {
	if r.First > r.Last {
		return nil
	}
	session, err := c.Session()
	if err != nil {
		return err
	}
	return session.Range(ctx, r, func(m bus.Message) error {
		if !handle(m) {
			return bus.ErrStop
		}
		return nil
	})
}

// Retry calls try until it succeeds. If ctx or the session ends first, it returns that
// error. doing names the attempt in the log.
func Retry(ctx context.Context, session *bus.Session, timeout time.Duration, log *slog.Logger, doing string, try func(context.Context) error) error {
	return session.Await(ctx, bus.AwaitConfig{
		Timeout: timeout, Pause: RetryPause, Permanent: func(error) bool { return false },
		Waiting: func(err error) { log.Debug("not done yet: "+doing, "error", err) }, Logger: slog.New(slog.DiscardHandler),
	}, try)
}
