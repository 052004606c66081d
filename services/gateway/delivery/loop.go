package delivery

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/services/gateway/silences"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// maxLines is how many notifications may wait for a client that does not read: over a
// minute's worth at 12 a minute. Beyond it they are dropped and counted; the inbox has their
// alerts anyway.
const maxLines = 16

// State decides which alerts are delivered to the client. Only the loop uses it, see
// [Client.Do].
type State struct {
	Inbox    *inbox.Inbox
	Notifier *notifier.Notifier
	Silences *silences.Filter
	// Received counts alerts, Dropped the notifications that the client did not read
	// in time.
	Received, Dropped uint64
	// Channels carry the notifications while the notifier is enabled.
	Channels []Channel

	// position is the position of the newest alert received.
	position bus.Position
	// lines are notifications that wait to be written.
	lines []string
	log   *slog.Logger
}

// arrival is an alert with its position in ALERTS.
type arrival struct {
	alert    alert.Alert
	position bus.Position
	// positionOnly reports that there is no alert to deliver: only the position advances.
	positionOnly bool
	// isNew reports whether the alert came after all alerts of the past were read.
	isNew bool
	// wasDelivered reports that the alert was delivered before. Only its severity is
	// recorded, for revisions of it.
	wasDelivered bool
}

// loop owns a State.
type loop struct {
	state State
	// waiters are released when an alert of their rank is pending.
	waiters map[chan struct{}]int
	changed func(alert.Alert)

	arrivals chan arrival
	calls    chan func(*State, time.Time)
	out      chan string
	log      *slog.Logger
}

func newLoop(changed func(alert.Alert), log *slog.Logger) *loop {
	if changed == nil {
		changed = func(alert.Alert) {}
	}
	return &loop{
		state: State{
			Inbox: inbox.New(), Notifier: notifier.New(), Silences: silences.NewFilter(log), Channels: []Channel{ChannelMessage}, log: log,
		},
		waiters: map[chan struct{}]int{}, changed: changed,
		arrivals: make(chan arrival), calls: make(chan func(*State, time.Time)), out: make(chan string), log: log,
	}
}

// run is the loop. It ends with ctx.
func (l *loop) run(ctx context.Context) error {
	s := &l.state
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Stop()
		if due, ok := s.Notifier.Next(); ok {
			timer.Reset(time.Until(due))
		}
		var out chan<- string
		var line string
		if len(s.lines) > 0 {
			out, line = l.out, s.lines[0]
		}
		select {
		case <-ctx.Done():
			return nil
		case a := <-l.arrivals:
			l.receive(a, time.Now())
		case f := <-l.calls:
			f(s, time.Now())
		case now := <-timer.C:
			s.notify(s.Notifier.Due(now))
		case out <- line:
			s.lines = s.lines[1:]
		}
	}
}

// receive suppresses an alert or adds it to inbox and notifier.
func (l *loop) receive(a arrival, now time.Time) {
	s := &l.state
	if !a.position.Created.Equal(s.position.Created) {
		s.Inbox.ForgetPositions()
	}
	s.position = a.position
	switch {
	case a.positionOnly:
		return
	case a.wasDelivered:
		s.Inbox.RecordElsewhere(a.alert)
		s.Notifier.RecordElsewhere(a.alert)
		return
	}
	s.Received++
	if s.Silences.CheckAndCount(a.alert, now) {
		s.Inbox.Suppress(a.alert)
		s.Notifier.RecordElsewhere(a.alert)
		return
	}
	s.Inbox.Offer(a.alert)
	s.notify(s.Notifier.Offer(a.alert, now))
	if a.isNew {
		l.changed(a.alert)
	}
	for w, rank := range l.waiters {
		if s.pending(rank) {
			close(w)
			delete(l.waiters, w)
		}
	}
}

// Enable starts notifications through these channels, without what was pending.
func (s *State) Enable(cfg notifier.Config, channels []Channel) {
	cfg.Enabled = true
	s.Notifier.Enable(cfg)
	s.Channels, s.lines = channels, nil
}

// Disable ends notifications, and returns how many alerts were pending for one.
func (s *State) Disable() int {
	s.lines = nil // not written yet
	return s.Notifier.Disable()
}

// ResetSettings forgets the client's settings and unwritten notifications when it
// initializes again. The inbox stays.
func (s *State) ResetSettings() {
	s.Notifier.Reset()
	s.Channels, s.lines = []Channel{ChannelMessage}, nil
}

// Apply applies records to the silences, and removes the alerts that they suppress from
// inbox and notifier: those that were acknowledged, and those that were raised after the
// silence but arrived before its record.
func (s *State) Apply(now time.Time, records ...silence.Record) {
	for _, d := range records {
		s.Silences.Apply(d)
	}
	s.Inbox.SuppressWhere(func(a alert.Alert, offers int) bool {
		why, suppressed := s.Silences.Matches(a, now)
		if suppressed {
			s.Silences.Count(why, offers)
		}
		return suppressed
	})
	s.Notifier.SuppressWhere(func(a alert.Alert) bool {
		_, suppressed := s.Silences.Matches(a, now)
		return suppressed
	})
}

// pending reports whether an alert of that rank or above is pending.
func (s *State) pending(rank int) bool {
	return slices.ContainsFunc(s.Inbox.Pending(), func(a alert.Alert) bool { return urgency(a) >= rank })
}

// urgency returns the severity rank of a pending alert. A resolved one counts as info.
func urgency(a alert.Alert) int {
	if a.IsResolution() {
		return alert.Info.Rank()
	}
	return a.Severity.Rank()
}

// notify hands notifications to the channels in use.
func (s *State) notify(notifications []notifier.Notification) {
	for _, n := range notifications {
		for _, c := range s.Channels {
			line, err := c.encode(n)
			switch {
			case err != nil:
				s.Dropped++
				s.log.Error("cannot encode a notification", "channel", c, "error", err)
			case line == nil:
			case len(s.lines) == maxLines:
				s.Dropped++
				s.log.Warn("the client does not read: dropped a notification", "channel", c, "dropped", s.Dropped)
			default:
				s.lines = append(s.lines, string(line))
			}
		}
	}
}

// do runs f in the loop and waits until it has.
func (l *loop) do(ctx context.Context, f func(*State, time.Time)) error {
	done := make(chan struct{})
	select {
	case l.calls <- func(s *State, now time.Time) { f(s, now); close(done) }:
		<-done // the loop has received it and runs it at once
		return nil
	case <-ctx.Done():
		return busclient.ErrShutdown
	}
}

// Filter implements [silences.Owner].
func (c *Client) Filter(ctx context.Context, f func(*silences.Filter)) error {
	return c.loop.do(ctx, func(s *State, _ time.Time) { f(s.Silences) })
}

// Apply implements [silences.Owner].
func (c *Client) Apply(ctx context.Context, records ...silence.Record) error {
	return c.loop.do(ctx, func(s *State, now time.Time) { s.Apply(now, records...) })
}
