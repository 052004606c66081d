package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
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
	stream *notifier.Notifier
	hush   *hush
	// at is the place of the newest alert offered.
	at       inbox.Position
	received uint64
	// ways are those that the stream's notifications go. While it is off they
	// mean nothing.
	ways []way
	// lines wait to be written, lost were dropped.
	lines []string
	lost  uint64
	// waiters are held until an alert of their rank is pending.
	waiters map[chan struct{}]int
	// watchers are who watches Kubernetes clusters, subscriptions the client's to what
	// those say, by id.
	watchers      kubernetes.Watchers
	subscriptions map[string]*subscription
	// changed hears of alerts that are news, unless they are silenced. It must not
	// wait.
	changed func(alert.Alert)

	arrivals chan arrival
	calls    chan func(*session, time.Time)
	// out hands lines on to who writes them.
	out chan string
	log *slog.Logger
}

// arrival is an alert with its place in ALERTS, or the news that all of the
// past has been read.
type arrival struct {
	alert alert.Alert
	at    inbox.Position
	// past says that there is no alert in it: only at counts.
	past bool
	// news says that the alert came after all of the past had been read.
	news bool
	// known reports whether the alert was delivered before: it is remembered, and that is
	// all.
	known bool
}

func newSession(log *slog.Logger) *session {
	return &session{
		inbox: inbox.New(), stream: notifier.New(), ways: []way{viaMessage}, waiters: map[chan struct{}]int{}, subscriptions: map[string]*subscription{},
		changed: func(alert.Alert) {}, hush: newHush(log), arrivals: make(chan arrival), calls: make(chan func(*session, time.Time)), out: make(chan string), log: log,
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
	if !a.at.Created.Equal(s.at.Created) {
		s.inbox.ForgetPositions()
	}
	s.at = a.at
	switch {
	case a.past:
		return
	case a.known:
		s.inbox.RecordSeverity(a.alert)
		s.stream.RecordSeverity(a.alert)
		return
	}
	s.received++
	if s.hush.holds(a.alert, now) {
		s.inbox.Suppress(a.alert)
		s.stream.RecordSeverity(a.alert)
		return
	}
	s.inbox.Offer(a.alert)
	s.emit(s.stream.Offer(a.alert, now))
	if a.news {
		s.changed(a.alert)
	}
	for w, rank := range s.waiters {
		if s.pends(rank) {
			close(w)
			delete(s.waiters, w)
		}
	}
}

// restart forgets what the client wanted of the stream, and what it has not read of
// it: it has begun anew. The inbox stays.
func (s *session) restart(time.Time) {
	s.stream.Reset()
	s.ways, s.lines = []way{viaMessage}, nil
}

// pends says whether an alert of that rank or above is pending.
func (s *session) pends(rank int) bool {
	return slices.ContainsFunc(s.inbox.Pending(), func(a alert.Alert) bool { return urgency(a) >= rank })
}

// urgency is the rank of an alert that is to be told. What is over already is
// for information, however severe it was.
func urgency(a alert.Alert) int {
	if a.Over() {
		return alert.Info.Rank()
	}
	return a.Severity.Rank()
}

// emit hands each notification to the ways in use.
func (s *session) emit(notes []notifier.Notification) {
	for _, n := range notes {
		for _, w := range s.ways {
			line, err := w.line(n)
			switch {
			case err != nil:
				s.lost++
				s.log.Error("a notification can't be written", "way", w, "error", err)
			case line == nil:
			case len(s.lines) == maxLines:
				s.lost++
				s.log.Warn("the client does not read: a notification is dropped", "way", w, "dropped", s.lost)
			default:
				s.lines = append(s.lines, string(line))
			}
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

// waited is why a wait is over.
type waited int

const (
	timeUp waited = iota
	alertPends
	callEnded
)

// wait returns once an alert of that rank is pending, the time is up, closing is
// closed or the call has ended; life is the session's.
func (s *session) wait(life, call context.Context, closing <-chan struct{}, rank int, limit time.Duration) (waited, error) {
	if limit <= 0 {
		return timeUp, nil
	}
	pending := make(chan struct{})
	err := s.do(life, func(s *session, _ time.Time) {
		if s.pends(rank) {
			close(pending)
			return
		}
		s.waiters[pending] = rank
	})
	if err != nil {
		return callEnded, err
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	why := callEnded
	select {
	case <-pending:
		return alertPends, nil
	case <-timer.C:
		why = timeUp
	case <-closing:
	case <-call.Done():
	}
	return why, s.do(life, func(s *session, _ time.Time) { delete(s.waiters, pending) })
}
