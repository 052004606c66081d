package mcpevents

import (
	"context"
	"sync"
	"time"
)

const (
	// heartbeatInterval is the longest pause between two notifications of a stream. Clients
	// consider a stream dead after a minute.
	heartbeatInterval = 20 * time.Second
	// requestTimeout bounds the questions of a request to the bus. checkTimeout bounds the
	// one at a heartbeat, during which alerts wait.
	requestTimeout = 3 * time.Second
	checkTimeout   = time.Second
)

// run delivers until ctx ends, stopping is closed or write fails. It owns the push and
// writes: while a client does not read, the alerts wait on the bus.
func (p *push) run(ctx context.Context, s Source, truncated bool, stopping <-chan struct{}, write func([]byte) error) error {
	out := &streamWriter{write: write, heartbeat: time.NewTimer(heartbeatInterval)}
	defer out.heartbeat.Stop()
	out.send(p.active(truncated))

	arrivals := make(chan Arrival)
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	after := p.processed
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
	unreachable := false
	for out.err == nil {
		due.Stop()
		if at, ok := p.next(); ok {
			due.Reset(time.Until(at))
		}
		in := arrivals
		if p.isFull() {
			in = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stopping:
			return nil
		case a := <-in:
			out.sendAll(p.process(a, time.Now()))
		case now := <-due.C:
			out.sendAll(p.due(now, s.Suppressed))
		case <-out.heartbeat.C:
			err := p.check(ctx, s)
			if err != nil && !unreachable {
				out.send(p.failure(err))
			}
			unreachable = err != nil
			out.send(p.heartbeat())
		}
	}
	return out.err
}

// check returns an error if the bus is unreachable: the client must not take the silence
// for good news.
func (*push) check(ctx context.Context, s Source) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, err := s.State(ctx)
	return err
}

// streamWriter writes lines until a write fails, and resets the heartbeat timer.
type streamWriter struct {
	write     func([]byte) error
	heartbeat *time.Timer
	err       error
}

func (w *streamWriter) sendAll(lines [][]byte, err error) {
	if err != nil {
		w.send(nil, err)
	}
	for _, l := range lines {
		w.send(l, nil)
	}
}

func (w *streamWriter) send(line []byte, err error) {
	if w.err != nil {
		return
	}
	if w.err = err; err == nil {
		w.err = w.write(line)
	}
	w.heartbeat.Reset(heartbeatInterval)
}
