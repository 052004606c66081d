package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/stream"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxLines is how many notifications may wait for a client that does not read.
// At 12 a minute that is over a minute's worth; past it they are dropped and
// counted, and the inbox has their alerts anyway.
const maxLines = 16

// session owns what is told to the client: inbox and stream. Only its loop
// touches them; whoever wants something of them sends the loop a call.
type session struct {
	inbox  *inbox.Inbox
	stream *stream.Stream
	// at is the place of the newest alert offered.
	at       position
	received uint64
	// lines wait to be written, lost were dropped.
	lines []string
	lost  uint64
	// waiters are held until an alert is pending.
	waiters map[chan struct{}]struct{}

	arrivals chan arrival
	calls    chan func(*session, time.Time)
	out      chan<- string
	log      *slog.Logger
}

// arrival is an alert with its place in ALERTS, or the news that all of the
// past has been read.
type arrival struct {
	alert alert.Alert
	at    position
	// past says that there is no alert in it: only at counts.
	past bool
}

func newSession(out chan<- string, log *slog.Logger) *session {
	return &session{
		inbox: inbox.New(), stream: stream.New(), waiters: map[chan struct{}]struct{}{},
		arrivals: make(chan arrival), calls: make(chan func(*session, time.Time)), out: out, log: log,
	}
}

// run is the loop. It ends with ctx.
func (s *session) run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Stop()
		if due, ok := s.stream.Next(); ok {
			timer.Reset(time.Until(due))
		}
		var out chan<- string
		var line string
		if len(s.lines) > 0 {
			out, line = s.out, s.lines[0]
		}
		select {
		case <-ctx.Done():
			return nil
		case a := <-s.arrivals:
			s.take(a, time.Now())
		case f := <-s.calls:
			f(s, time.Now())
		case now := <-timer.C:
			s.emit(s.stream.Due(now))
		case out <- line:
			s.lines = s.lines[1:]
		}
	}
}

func (s *session) take(a arrival, now time.Time) {
	s.at = a.at
	if a.past {
		return
	}
	s.received++
	s.inbox.Offer(a.alert)
	s.emit(s.stream.Offer(a.alert, now))
	if s.inbox.Len() > 0 {
		for w := range s.waiters {
			close(w)
		}
		clear(s.waiters)
	}
}

func (s *session) emit(notes []stream.Notification) {
	for _, n := range notes {
		line, err := n.Line()
		switch {
		case err != nil:
			s.lost++
			s.log.Error("a notification can't be written", "error", err)
		case len(s.lines) == maxLines:
			s.lost++
			s.log.Warn("the client does not read: a notification is dropped", "dropped", s.lost)
		default:
			s.lines = append(s.lines, string(line))
		}
	}
}

// errEnded says that the gateway is about to end.
var errEnded = errors.New("the gateway is shutting down")

// do runs f in the loop and waits until it has.
func (s *session) do(ctx context.Context, f func(*session, time.Time)) error {
	done := make(chan struct{})
	select {
	case s.calls <- func(s *session, now time.Time) { f(s, now); close(done) }:
		<-done // the loop has taken it and runs it at once
		return nil
	case <-ctx.Done():
		return errEnded
	}
}

// wait returns once an alert is pending, the time is up, closing is closed or
// the call has ended; life is the session's. It is over unless only the time was
// up.
func (s *session) wait(life, call context.Context, closing <-chan struct{}, limit time.Duration) (over bool, err error) {
	if limit <= 0 {
		return false, nil
	}
	pending := make(chan struct{})
	err = s.do(life, func(s *session, _ time.Time) {
		if s.inbox.Len() > 0 {
			close(pending)
			return
		}
		s.waiters[pending] = struct{}{}
	})
	if err != nil {
		return true, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-pending:
		return true, nil
	case <-timer.C:
	case <-closing:
		over = true
	case <-call.Done():
		over = true
	}
	return over, s.do(life, func(s *session, _ time.Time) { delete(s.waiters, pending) })
}
