// Package notifier decides which alerts become notifications, and when (the wire
// calls it streaming), and writes them for the delivery channels: MCP's
// notifications/message and Claude Code's channels.
//
// [Notifier] filters each alert by severity, category and URL, drops duplicates,
// and sends it at once or keeps it for the next batch. It knows no bus and no MCP,
// and owns no timer: its owner asks Next when to call Due, serializes the calls,
// and never passes a time before the last one.
package notifier

import (
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// maxPending is how many alerts wait for a batch, merged ones counted once.
	// Past it a new one is dropped and counted.
	maxPending = 100
	// settle is how long the first alert of a batch waits for others.
	settle = 2 * time.Second
	// jitter is how far off its time an alert may come on its way here. Who sends
	// one a second and has a throttle of 1 s means one notification each: an
	// alert that comes this little before the throttle ends waits for that end
	// and no longer, and one this little before the end of the duplicate window
	// is no duplicate.
	jitter = 50 * time.Millisecond
)

// Notifier turns alerts into notifications. It is off until it is enabled.
type Notifier struct {
	config Config
	// floor is the least severity rank that the client itself asked for.
	floor int

	pending inbox.List
	// severities are those of all alerts that were offered, also while it was off.
	severities inbox.Severities
	causes     alert.Causes
	// since is when the first pending alert came.
	since time.Time
	sent  sent
	pace  pace
	stats Stats
}

// Stats counts since the stream was enabled. Every alert offered meanwhile is
// one of Emitted, Suppressed, Dropped, Filtered, Revised, Ignored, Absorbed,
// Cleared and Silenced, or was merged into one of those pending.
type Stats struct {
	// NotifyCount is how many notifications went out, Emitted how many alerts
	// they held, merged ones counted each.
	NotifyCount, Emitted int
	// Pending is how many alerts wait now, merged ones counted once;
	// PendingOffers counts them each.
	Pending, PendingOffers int
	// Suppressed alerts were duplicates, Dropped ones found the batch full,
	// Filtered ones were not asked for.
	Suppressed, Dropped, Filtered int
	// Revised alerts took the place of a pending one. Ignored ones found it gone,
	// and were no more severe than what was known of it.
	Revised, Ignored int
	// Absorbed alerts said no more than that a pending one is over, which that
	// one now says itself.
	Absorbed int
	// Cleared alerts were pending when the stream was disabled.
	Cleared int
	// Silenced alerts were pending when somebody silenced them.
	Silenced int
}

// New returns a stream that is off.
func New() *Notifier { return &Notifier{config: DefaultConfig()} }

// Enable switches the stream on with a valid configuration in place of the one
// it had. It starts afresh: what was pending, the memory of what was sent, the
// throttle, the window of 60 s and the counts are forgotten. The client's floor
// stays, and how severe alerts were.
func (s *Notifier) Enable(c Config) {
	c.Enabled = true
	c.Events = slices.Clone(c.Events)
	*s = Notifier{config: c, floor: s.floor, severities: s.severities}
}

// Reset makes the stream what New returns, but for how severe alerts were.
func (s *Notifier) Reset() { *s = Notifier{config: DefaultConfig(), severities: s.severities} }

// Know remembers how severe an alert was that is not offered, for those that revise
// it.
func (s *Notifier) Know(a alert.Alert) { s.severities.Note(a) }

// Disable switches the stream off and returns how many alerts were pending.
// They are forgotten; the rest of the configuration stays to be looked at.
func (s *Notifier) Disable() (pendingCleared int) {
	s.config.Enabled = false
	s.stats.Cleared += s.pending.Offers()
	pendingCleared = s.pending.Len()
	s.pending.Clear()
	return pendingCleared
}

// Config returns the configuration.
func (s *Notifier) Config() Config {
	c := s.config
	c.Events = slices.Clone(c.Events)
	return c
}

// SetFloor sets the least severity rank that the client wants, beside the
// configuration's SeverityMin; 0 is no floor. Pending alerts under it go.
func (s *Notifier) SetFloor(rank int) {
	s.floor = rank
	s.stats.Filtered += s.pending.DropBelow(rank)
}

// Silence takes out the pending alerts that hushed says yes to.
func (s *Notifier) Silence(hushed func(alert.Alert) bool) {
	s.stats.Silenced += s.pending.DropWhere(func(a alert.Alert, _ int) bool { return hushed(a) })
}

// Stats returns the counts.
func (s *Notifier) Stats() Stats {
	stats := s.stats
	stats.Pending, stats.PendingOffers = s.pending.Len(), s.pending.Offers()
	return stats
}

// Offer takes an alert and returns the notification that has to go out now, if
// one has to. An alert that revises another takes its place where that is
// pending. Otherwise it is ignored, unless it raises the severity: then it is news,
// and no duplicate. One that resolves another makes one line of it
// where that is pending, also when it would not pass itself: what it resolves
// did. The alert's context must not change later.
func (s *Notifier) Offer(a alert.Alert, now time.Time) []Notification {
	raises := s.severities.Raises(a)
	s.severities.Note(a)
	if !s.config.Enabled {
		return nil
	}
	if a.Resolves != "" && s.pending.Resolve(a) && a.OnlyResolves() {
		s.stats.Absorbed++
		return nil
	}
	if !s.config.passesFilters(a, s.floor) {
		s.pending.Repeat(a)
		s.stats.Filtered++
		return nil
	}
	open := !now.Before(s.pace.free(s.throttle()))
	switch _, waits := s.pending.Find(a.Revises); {
	case a.Revises != "" && s.pending.Revise(a):
		s.stats.Revised++
		if open {
			return s.emit(now)
		}
		return nil
	case a.Revises != "" && (waits || !raises):
		s.stats.Ignored++
		return nil
	case a.Revises != "":
		a = a.Whole()
	}
	switch {
	case !raises && s.repeats(a, now):
		s.pending.Repeat(a)
		s.stats.Suppressed++
		return nil
	case s.pending.Merge(a):
	case s.pending.Len() >= maxPending && open:
		out := s.emit(now) // a full batch goes out as it is
		s.since = now
		s.pending.Add(a)
		return out
	case s.pending.Len() >= maxPending:
		s.stats.Dropped++
		return nil
	default:
		if s.pending.Len() == 0 {
			s.since = now
		}
		s.pending.Add(a)
	}
	if open {
		return s.emit(now)
	}
	return nil
}

// repeats says whether the alert tells nothing that was not sent a moment ago. It
// does where an end is between the two: one that waits will be told before it.
func (s *Notifier) repeats(a alert.Alert, now time.Time) bool {
	before := s.sent.find(a, now)
	switch {
	case before == nil:
		return false
	case a.Over():
		return !s.sent.ends(a, now)
	}
	for waiting := range s.pending.All() {
		if !waiting.Over() {
			continue
		}
		if _, finding := keysOf(waiting); before.endedBy(waiting, finding) {
			return false
		}
	}
	before.repeat(a)
	return true
}

// Next returns when Due has a batch to send, or false when nothing is pending.
func (s *Notifier) Next() (at time.Time, ok bool) {
	if s.pending.Len() == 0 {
		return time.Time{}, false
	}
	free := s.pace.free(s.throttle())
	if s.since.Before(free) && !s.since.Before(free.Add(-jitter)) {
		return free, true
	}
	return later(s.since.Add(settle), free), true
}

// Due returns the batch if its time has come.
func (s *Notifier) Due(now time.Time) []Notification {
	if at, ok := s.Next(); !ok || now.Before(at) {
		return nil
	}
	return s.emit(now)
}

func (s *Notifier) throttle() time.Duration {
	return time.Duration(s.config.ThrottleSeconds) * time.Second
}

// emit sends all that is pending as one notification.
func (s *Notifier) emit(now time.Time) []Notification {
	told := s.causes.Sorted(s.pending.Pending())
	s.causes.Told(told)
	for a := range s.pending.All() {
		if a.Over() {
			s.sent.forget(a)
		}
	}
	for a, ids := range s.pending.All() {
		s.sent.add(a, ids, now)
	}
	s.pace.add(now)
	s.stats.NotifyCount++
	s.stats.Emitted += s.pending.Offers()
	s.pending.Clear()
	return []Notification{{At: now, Alerts: alert.Alerts(told)}}
}

// Full says that the next alert may find no room in the pending batch and be
// dropped. Who can let alerts wait elsewhere offers none as long as that holds.
func (s *Notifier) Full() bool { return s.pending.Len() >= maxPending }
