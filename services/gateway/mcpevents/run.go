package mcpevents

import (
	"context"
	"sync"
	"time"
)

const (
	// heartbeat is how long a stream says nothing at most. Clients take one for
	// dead that said nothing for a minute.
	heartbeat = 20 * time.Second
	// askWithin bounds what a request asks of the bus, and checkWithin what a
	// stream asks it at a heartbeat, while alerts wait.
	askWithin   = 3 * time.Second
	checkWithin = time.Second
)

// run delivers until ctx ends, ending is closed or write fails. It is the one
// that owns push, and writes: a client that does not read holds it up, and the
// alerts wait on the bus.
func (p *push) run(ctx context.Context, s Source, truncated bool, ending <-chan struct{}, write func([]byte) error) error {
	out := &writer{write: write, next: time.NewTimer(heartbeat)}
	defer out.next.Stop()
	out.put(p.active(truncated))

	arrivals := make(chan Arrival)
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	after := p.seen
	follower.Go(func() {
		s.Follow(following, after, func(a Arrival) {
			select {
			case arrivals <- a:
			case <-following.Done():
			}
		})
	})
	defer follower.Wait()
	defer stop()

	due := time.NewTimer(0)
	defer due.Stop()
	away := false
	for out.err == nil {
		due.Stop()
		if at, ok := p.next(); ok {
			due.Reset(time.Until(at))
		}
		in := arrivals
		if p.full() {
			in = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ending:
			return nil
		case a := <-in:
			out.putAll(p.take(a, time.Now()))
		case now := <-due.C:
			out.putAll(p.due(now, s.Suppressed))
		case <-out.next.C:
			err := p.check(ctx, s)
			if err != nil && !away {
				out.put(p.failure(err))
			}
			away = err != nil
			out.put(p.heartbeat())
		}
	}
	return out.err
}

// check says whether the bus is away: a client should not take its silence for
// good news.
func (*push) check(ctx context.Context, s Source) error {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	_, err := s.State(ctx)
	return err
}

// writer writes until that fails, and knows when a heartbeat is due.
type writer struct {
	write func([]byte) error
	next  *time.Timer
	err   error
}

func (w *writer) putAll(lines [][]byte, err error) {
	if err != nil {
		w.put(nil, err)
	}
	for _, l := range lines {
		w.put(l, nil)
	}
}

func (w *writer) put(line []byte, err error) {
	if w.err != nil {
		return
	}
	if w.err = err; err == nil {
		w.err = w.write(line)
	}
	w.next.Reset(heartbeat)
}
