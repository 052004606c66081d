package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// firstRead bounds how long alerts wait for what is silenced to be read.
const firstRead = time.Second

// silencer keeps what a session holds back in step with the bus.
type silencer struct {
	session *session
	// over are acknowledgements that have ended, to be written down.
	over chan silence.Ack
	// unwritten is what write is about; it outlives a connection.
	unwritten *silence.Ack
	log       *slog.Logger
}

func newSilencer(s *session, log *slog.Logger) *silencer {
	over := make(chan silence.Ack, maxEnding)
	s.hush.over = over
	return &silencer{session: s, over: over, log: log}
}

// run keeps in step, once the first read is over, until ctx ends.
func (s *silencer) run(ctx context.Context, c *bus.Conn, loaded <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-loaded:
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.follow(ctx, c) })
	group.Go(func() error { return s.write(ctx, c) })
	return group.Wait()
}

// load reads what is held back, before the first alert is handed on. A bus that
// does not answer in time is not waited for: alerts are worth more than silence.
func (s *silencer) load(ctx context.Context, c *bus.Conn) {
	s.tell(ctx, func(own *session, _ time.Time) { own.hush.doubt() })
	reading, cancel := context.WithTimeout(ctx, firstRead)
	defer cancel()
	documents, err := silence.Records(reading, c)
	if err != nil {
		if ctx.Err() == nil { // else nobody is told anything
			s.log.Warn("alerts are told without a new look at what is silenced", "because", err)
		}
		return
	}
	s.tell(ctx, func(own *session, now time.Time) {
		own.learn(now, documents...)
		own.hush.complete()
	})
}

// tell does something in the session's loop. A session that is about to end has
// no need of it.
func (s *silencer) tell(ctx context.Context, f func(*session, time.Time)) {
	if err := s.session.do(ctx, f); err != nil {
		s.log.Debug("too late to be silenced", "because", err)
	}
}

// follow hands over each change until ctx ends.
func (s *silencer) follow(ctx context.Context, c *bus.Conn) error {
	cfg := bus.FollowConfig{Stream: bus.StreamSilences, Logger: s.log}
	cfg.Renewed = func(time.Time) (uint64, time.Time) {
		s.tell(ctx, func(own *session, _ time.Time) { own.hush.doubt(); own.hush.complete() })
		return 0, time.Time{}
	}
	return bus.Follow(ctx, c, cfg, func(m bus.Message) error {
		s.tell(ctx, func(own *session, now time.Time) { own.learn(now, silence.RecordOf(m)) })
		return nil
	})
}

// write writes down which acknowledgements have ended, until ctx ends. A bus that is
// away is waited for.
func (s *silencer) write(ctx context.Context, c *bus.Conn) error {
	for ctx.Err() == nil {
		if s.unwritten == nil {
			select {
			case <-ctx.Done():
				return nil
			case k := <-s.over:
				s.unwritten = &k
			}
		}
		err := s.end(ctx, c, *s.unwritten)
		if err == nil || errors.Is(err, errUnchanged) {
			s.unwritten = nil
			continue
		}
		s.log.Debug("the end of an acknowledgement is not written yet", "error", err)
		pause(ctx)
	}
	return nil
}

func (s *silencer) end(ctx context.Context, c *bus.Conn, over silence.Ack) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	_, err := silence.ChangeAcks(ctx, c, func(l silence.Acks) (silence.Acks, error) {
		after, changed := l.MarkEnded(over)
		if !changed {
			return nil, errUnchanged
		}
		return after, nil
	})
	return err
}

// errUnchanged is what a change answers with that has nothing to write.
var errUnchanged = errors.New("nothing to change")
