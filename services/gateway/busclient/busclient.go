// Package busclient keeps one client of the gateway connected to the bus, and reads
// streams on that connection.
//
// A bus that is unreachable never ends a gateway: calls fail with [ErrUnreachable], and
// the client connects again until its context ends.
package busclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// GatewayName is how gateways name their connections: the bus counts them by it.
	GatewayName = "tocsin gateway"
	// RequestTimeout bounds what one tool call asks of the bus and the detector.
	RequestTimeout = 3 * time.Second
	// retryPause is the pause between two tries to connect.
	retryPause = 200 * time.Millisecond
	// readBatch is how many messages one request to the bus asks for.
	readBatch = 500
)

// The errors that a client of the gateway reads when the bus or the detector is missing.
var (
	ErrUnreachable = errors.New("the bus is unreachable: alerts raised meanwhile are delivered when it is back; run tocsin doctor to see why")
	ErrNoAnswer    = errors.New("the bus does not answer: alerts raised meanwhile are delivered when it does; run tocsin doctor to see why")
	ErrNoDetector  = errors.New("the detector does not answer: tocsin doctor says what is wrong")
)

// errClosed is the end of a connection that was closed for good, as it is when the bus
// no longer accepts its credentials.
var errClosed = errors.New("the bus has closed the connection")

// Client is a connection to the bus that is made again whenever it is closed.
type Client struct {
	cfg  bus.ConnConfig
	conn atomic.Pointer[bus.Conn]
	log  *slog.Logger
}

// New returns a client that is not connected yet: [Client.Run] connects it.
func New(cfg bus.ConnConfig, log *slog.Logger) *Client { return &Client{cfg: cfg, log: log} }

// External reports whether the bus is a NATS server that others run.
func (c *Client) External() bool { return c.cfg.URL != "" }

// Conn returns the connection, or ErrUnreachable.
func (c *Client) Conn() (*bus.Conn, error) {
	if conn := c.conn.Load(); conn != nil && conn.Connected() {
		return conn, nil
	}
	return nil, ErrUnreachable
}

// Connected reports whether the bus is reachable, as an error: nil or ErrUnreachable.
func (c *Client) Connected() error {
	_, err := c.Conn()
	return err
}

// Run connects until ctx ends, and calls each of serve on every connection. Their
// context ends with the connection.
func (c *Client) Run(ctx context.Context, serve ...func(context.Context, *bus.Conn) error) error {
	for ctx.Err() == nil {
		if err := c.runOnce(ctx, serve); err != nil {
			c.log.Warn("cannot use the bus; connecting again", "error", err)
		}
		Pause(ctx)
	}
	return nil
}

// Pause waits before the next try, or until ctx ends.
func Pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(retryPause):
	}
}

func (c *Client) runOnce(ctx context.Context, serve []func(context.Context, *bus.Conn) error) error {
	conn, err := bus.Connect(ctx, c.cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	c.conn.Store(conn)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			if conn.NC.IsClosed() {
				return errClosed
			}
			select {
			case <-ctx.Done():
				return nil
			case <-conn.Changes():
			}
		}
	})
	for _, f := range serve {
		group.Go(func() error { return f(ctx, conn) })
	}
	return group.Wait()
}

// Explain returns ErrUnreachable or ErrNoAnswer where that is why a request with ctx
// failed, and err itself otherwise.
func (c *Client) Explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case c.Connected() != nil:
		return ErrUnreachable
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ErrNoAnswer
	default:
		return err
	}
}

// Ask sends a request to the detector and decodes its reply.
func Ask[T any](ctx context.Context, c *Client, subject string, request any) (reply T, err error) {
	conn, err := c.Conn()
	if err != nil {
		return reply, err
	}
	data, err := bus.Ask(ctx, conn, subject, request)
	switch {
	case errors.Is(err, bus.ErrAway):
		return reply, ErrUnreachable
	case errors.Is(err, bus.ErrNoAnswer):
		return reply, ErrNoDetector
	case err != nil:
		return reply, err
	}
	if err := json.Unmarshal(data, &reply); err != nil {
		return reply, fmt.Errorf("decode the detector's answer: %w", err)
	}
	return reply, nil
}

// Extent returns the first and the last sequence of a stream. Of an empty stream the
// last comes before the first.
func (c *Client) Extent(ctx context.Context, stream string) (first, last uint64, err error) {
	conn, err := c.Conn()
	if err != nil {
		return 0, 0, err
	}
	s, err := conn.JS.Stream(ctx, stream)
	if err != nil {
		return 0, 0, fmt.Errorf("read the stream %s: %w", stream, err)
	}
	state := s.CachedInfo().State
	return max(state.FirstSeq, 1), state.LastSeq, nil
}

// Forwards hands over the messages of a stream from one sequence to another, oldest
// first.
func (c *Client) Forwards(ctx context.Context, stream string, from, to uint64, handle func(bus.Message)) error {
	for from <= to {
		conn, err := c.Conn()
		if err != nil {
			return err
		}
		messages, err := conn.StoredFrom(ctx, stream, from, readBatch)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			return nil
		}
		for _, m := range messages {
			if m.Seq > to {
				return nil
			}
			handle(m)
			from = m.Seq + 1
		}
	}
	return nil
}

// Backwards hands over the messages of a stream from last to first, newest first, until
// handle returns false. It requests batch messages at once; 0 is the default.
func (c *Client) Backwards(ctx context.Context, stream string, first, last, batch uint64, handle func(bus.Message) (more bool)) error {
	if batch == 0 {
		batch = readBatch
	}
	for end := last; end >= first && end > 0; {
		begin := max(first, end-min(end, batch-1))
		var chunk []bus.Message
		if err := c.Forwards(ctx, stream, begin, end, func(m bus.Message) { chunk = append(chunk, m) }); err != nil {
			return err
		}
		for _, m := range slices.Backward(chunk) {
			if !handle(m) {
				return nil
			}
		}
		end = begin - min(begin, 1)
	}
	return nil
}

// Follow follows a stream as [bus.Follow] does, and continues on the client's next
// connection when one is closed, until ctx ends. A stream that was created again is
// followed from its beginning. handle also gets the creation time of the message's
// stream.
func (c *Client) Follow(ctx context.Context, cfg bus.FollowConfig, handle func(m bus.Message, created time.Time)) {
	cfg.Renewed = func(created time.Time) (uint64, time.Time) {
		cfg.Start, cfg.Created = 0, created
		return 0, time.Time{}
	}
	for ctx.Err() == nil {
		if conn := c.conn.Load(); conn != nil && !conn.NC.IsClosed() {
			followOn(ctx, conn, &cfg, handle)
		}
		Pause(ctx)
	}
}

// followOn follows on one connection until that is closed for good, and leaves in cfg
// where to continue.
func followOn(ctx context.Context, conn *bus.Conn, cfg *bus.FollowConfig, handle func(bus.Message, time.Time)) {
	ctx, stop := context.WithCancel(ctx)
	closed := conn.NC.StatusChanged(nats.CLOSED)
	defer conn.NC.RemoveStatusListener(closed)
	var watch sync.WaitGroup
	watch.Go(func() {
		defer stop()
		select {
		case <-closed:
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer stop()
	if conn.NC.IsClosed() { // closed before the listener was added
		return
	}
	// Follow fails only when the handler does, and this one does not.
	_ = bus.Follow(ctx, conn, *cfg, func(m bus.Message) error {
		handle(m, cfg.Created)
		cfg.Start = m.Seq + 1
		return nil
	})
}
