// Package notifier decides which alerts become notifications, and when (the wire
// calls it streaming), and writes them for the delivery channels: MCP's
// notifications/message and Claude Code's channels.
//
// [Notifier] filters each alert by severity, category and URL, drops duplicates,
// and sends it at once or keeps it for the next batch. It knows no bus and no MCP,
// and owns no timer: its owner asks Next when to call Due, serializes the calls,
// and never passes a time before the last one.
//
// Package notify is about the other direction: messages from the agent to its user.
package notifier

import (
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// maxPending is the number of alerts that wait for a batch; merged alerts count
	// once. Beyond it a new one is dropped and counted.
	maxPending = 100
	// settle is how long the first alert of a batch waits for others.
	settle = 2 * time.Second
	// jitter is how much an alert may be delayed on its way here. A sender with one
	// alert a second and a throttle of 1 s expects one notification each: an alert
	// that comes this little before the throttle ends waits for that end only, and
	// one this little before the end of the duplicate window is no duplicate.
	jitter = 50 * time.Millisecond
)

// Notifier turns alerts into notifications. It is disabled until Enable.
type Notifier struct {
	config Config
	// floor is the least severity rank that the client set (logging/setLevel).
	floor int

	pending inbox.List
	// severities records all offered alerts, also while the notifier is disabled.
	severities inbox.Severities
	// investigations does the same for investigations.
	investigations inbox.Investigations
	causes         alert.Causes
	// pendingSince is when the first pending alert was offered.
	pendingSince time.Time
	sent         sentAlerts
	sendTimes    sendTimes
	stats        Stats
}

// Stats counts since Enable. Every alert offered since is counted in one of Emitted,
// Suppressed, Dropped, Filtered, Revised, Ignored, Absorbed, Cleared and Silenced, or
// in PendingOffers.
type Stats struct {
	// NotifyCount counts notifications, Emitted the alerts in them; merged alerts
	// count each.
	NotifyCount, Emitted int
	// Pending is the number of alerts that wait now; merged alerts count once.
	// PendingOffers counts them each.
	Pending, PendingOffers int
	// Suppressed alerts were duplicates. Dropped alerts found the batch full. Filtered
	// alerts did not pass the configuration.
	Suppressed, Dropped, Filtered int
	// Revised alerts replaced a pending one. Ignored alerts revised one that was no
	// longer pending, without raising its severity or ending its investigation.
	Revised, Ignored int
	// Absorbed alerts only resolved a pending alert, which is now marked resolved.
	Absorbed int
	// Cleared alerts were pending when the notifier was disabled.
	Cleared int
	// Silenced alerts were pending when a silence or an acknowledgement matched them.
	Silenced int
}

// New returns a disabled notifier.
func New() *Notifier { return &Notifier{config: DefaultConfig()} }

// Enable enables the notifier with a valid configuration. It discards pending alerts,
// the duplicate window, the throttle, the rate limit and the counts. The client's floor
// and what was recorded of alerts stay.
func (n *Notifier) Enable(c Config) {
	c.Enabled = true
	c.Events = slices.Clone(c.Events)
	*n = Notifier{config: c, floor: n.floor, severities: n.severities, investigations: n.investigations}
}

// Reset returns the notifier to the state of New, except for what was recorded of alerts.
func (n *Notifier) Reset() {
	*n = Notifier{config: DefaultConfig(), severities: n.severities, investigations: n.investigations}
}

// RecordElsewhere records the severity and the investigation of an alert that is not
// offered, for later alerts that revise it.
func (n *Notifier) RecordElsewhere(a alert.Alert) {
	n.severities.Record(a)
	n.investigations.Record(a)
}

// Disable disables the notifier, discards the pending alerts and returns their number.
// The configuration stays readable.
func (n *Notifier) Disable() (pendingCleared int) {
	n.config.Enabled = false
	n.stats.Cleared += n.pending.Offers()
	pendingCleared = n.pending.Len()
	n.pending.Clear()
	return pendingCleared
}

// Config returns the configuration.
func (n *Notifier) Config() Config {
	c := n.config
	c.Events = slices.Clone(c.Events)
	return c
}

// SetFloor sets the least severity rank that the client wants, in addition to
// Config.SeverityMin; 0 is no floor. Pending alerts below it are filtered.
func (n *Notifier) SetFloor(rank int) {
	n.floor = rank
	n.stats.Filtered += n.pending.DropBelow(rank)
}

// SuppressWhere removes the pending alerts for which suppressed returns true.
func (n *Notifier) SuppressWhere(suppressed func(alert.Alert) bool) {
	n.stats.Silenced += n.pending.DropWhere(func(a alert.Alert, _ int) bool { return suppressed(a) })
}

// Stats returns the counts.
func (n *Notifier) Stats() Stats {
	stats := n.stats
	stats.Pending, stats.PendingOffers = n.pending.Len(), n.pending.Offers()
	return stats
}

// Full reports whether the pending batch is full, so that the next alert may be
// dropped. A caller that can leave alerts elsewhere should offer none meanwhile.
func (n *Notifier) Full() bool { return n.pending.Len() >= maxPending }

// Offer takes an alert and returns the notification to send now, if any.
//
// A revision replaces the pending alert that it revises. If that is no longer pending,
// the revision is ignored unless it raises the severity; then it counts as a new alert.
// The end of an investigation of an alert that is no longer pending is sent once, as one
// line, and is no duplicate of the alert.
// A resolution cuts the pending alert that it resolves to one line, even if the
// resolution itself would be filtered. The alert's context must not change afterwards.
func (n *Notifier) Offer(a alert.Alert, now time.Time) []Notification {
	raises := n.severities.Raises(a)
	n.severities.Record(a)
	repeats := n.investigations.Repeats(a)
	news := n.investigations.Record(a)
	if !n.config.Enabled {
		return nil
	}
	if repeats {
		n.stats.Ignored++
		return nil
	}
	if a.Resolves != "" && n.pending.Resolve(a) && a.OnlyResolves() {
		n.stats.Absorbed++
		return nil
	}
	if !n.config.passesFilters(a, n.floor) {
		n.pending.RecordRepeat(a)
		n.stats.Filtered++
		return nil
	}
	open := !now.Before(n.sendTimes.nextAllowed(n.throttle()))
	switch {
	case a.Revises != "" && n.pending.Revise(a, news):
		n.stats.Revised++
		if open {
			return n.emit(now)
		}
		return nil
	case news && !raises:
		a = a.InvestigationEnd()
	case a.Revises != "" && (n.pending.IsPending(a.Revises) || !raises):
		n.stats.Ignored++
		return nil
	case a.Revises != "":
		n.stats.Revised += n.pending.DropInvestigationEnd(a.Revises)
		a = n.investigations.Keep(a).AsOriginal()
	}
	switch {
	case !raises && !a.OnlyInvestigation && n.duplicate(a, now):
		n.pending.RecordRepeat(a)
		n.stats.Suppressed++
		return nil
	case !a.OnlyInvestigation && n.pending.Merge(a):
	case n.pending.Len() >= maxPending && open:
		out := n.emit(now) // a full batch is sent without the new alert
		n.pendingSince = now
		n.pending.Add(a)
		return out
	case n.pending.Len() >= maxPending:
		n.stats.Dropped++
		return nil
	default:
		if n.pending.Len() == 0 {
			n.pendingSince = now
		}
		n.pending.Add(a)
	}
	if open {
		return n.emit(now)
	}
	return nil
}

// duplicate reports whether the alert repeats one that was sent within the duplicate
// window. It does not if a resolution lies between the two, also one that is pending.
func (n *Notifier) duplicate(a alert.Alert, now time.Time) bool {
	before := n.sent.find(a, now)
	switch {
	case before == nil:
		return false
	case a.IsResolution():
		return !n.sent.resolvedBy(a, now)
	}
	for pending := range n.pending.All() {
		if !pending.IsResolution() {
			continue
		}
		if _, finding := keysOf(pending); before.resolvedBy(pending, finding) {
			return false
		}
	}
	before.addRepeat(a)
	return true
}

// Next returns when Due has a batch to send. ok is false when nothing is pending.
func (n *Notifier) Next() (at time.Time, ok bool) {
	if n.pending.Len() == 0 {
		return time.Time{}, false
	}
	free := n.sendTimes.nextAllowed(n.throttle())
	if n.pendingSince.Before(free) && !n.pendingSince.Before(free.Add(-jitter)) {
		return free, true
	}
	return later(n.pendingSince.Add(settle), free), true
}

// Due returns the batch if its time has come.
func (n *Notifier) Due(now time.Time) []Notification {
	if at, ok := n.Next(); !ok || now.Before(at) {
		return nil
	}
	return n.emit(now)
}

func (n *Notifier) throttle() time.Duration {
	return time.Duration(n.config.ThrottleSeconds) * time.Second
}

// emit returns all pending alerts as one notification.
func (n *Notifier) emit(now time.Time) []Notification {
	sorted := n.causes.Group(n.pending.Pending())
	n.causes.Delivered(sorted)
	for a := range n.pending.All() {
		if a.IsResolution() {
			n.sent.forgetResolved(a)
		}
	}
	for a, ids := range n.pending.All() {
		n.sent.add(a, ids, now)
	}
	n.sendTimes.add(now)
	n.stats.NotifyCount++
	n.stats.Emitted += n.pending.Offers()
	n.pending.Clear()
	return []Notification{{At: now, Alerts: alert.Alerts(sorted)}}
}
