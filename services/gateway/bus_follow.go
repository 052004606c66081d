package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// chase follows a stream as bus.Follow does, and goes on with the link's next
// connection where one is closed for good, until ctx ends. Of a stream that was made
// anew everything is news. The handler is told when the stream was made that a
// message is of.
func (l *link) chase(ctx context.Context, cfg bus.FollowConfig, handle func(m bus.Message, created time.Time)) {
	cfg.Renewed = func(created time.Time) (uint64, time.Time) {
		cfg.Start, cfg.Created = 0, created
		return 0, time.Time{}
	}
	for ctx.Err() == nil {
		if c := l.conn.Load(); c != nil && !c.NC.IsClosed() {
			l.chaseOn(ctx, c, &cfg, handle)
		}
		pause(ctx)
	}
}

// chaseOn is chase on one connection, until that is closed for good. It leaves in cfg
// where to go on.
func (l *link) chaseOn(ctx context.Context, c *bus.Conn, cfg *bus.FollowConfig, handle func(bus.Message, time.Time)) {
	ctx, stop := context.WithCancel(ctx)
	closed := c.NC.StatusChanged(nats.CLOSED)
	defer c.NC.RemoveStatusListener(closed)
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
	if c.NC.IsClosed() { // before anybody listened
		return
	}
	// It fails only when handing on does, which does not.
	_ = bus.Follow(ctx, c, *cfg, func(m bus.Message) error {
		handle(m, cfg.Created)
		cfg.Start = m.Seq + 1
		return nil
	})
}
