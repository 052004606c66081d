// Package inbox holds the alerts that one client has not received yet.
//
// [Inbox] decides which alerts are kept, merged and evicted, and hands them out
// as a digest. [List] merges alerts; the notifier's batch uses it too. Both are
// pure: they know no bus, no MCP and no clock, and are not safe for concurrent
// use. [Claim] keeps each client's inbox position on the bus, so that each alert
// is delivered by one of the client's readers. [Key] names the inbox of a coding
// agent.
package inbox

import (
	"cmp"
	"slices"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Capacity is how many alerts an inbox holds. Past it, the oldest of the least
// severe is evicted and counted, which may be the one that has just come. A
// resolution is as severe as what it resolves, and a repetition does not make an
// alert younger.
const Capacity = 50

// Inbox holds alerts until they are drained.
type Inbox struct {
	list       List
	causes     alert.Causes
	severities Severities
	stats      Stats
	// evicted counts those since alerts were last drained, and evictedAt is the
	// position by which the newest of them had come.
	evicted   int
	evictedAt uint64
}

// Stats counts alerts since New.
type Stats struct {
	// Offered is every alert. Each one is in the inbox by itself or merged, was
	// drained, cleared, told elsewhere or evicted, or is one of Revised, Ignored
	// and Silenced.
	Offered uint64
	// Revised alerts took the place of a pending one. Ignored ones found it gone,
	// and were no more severe than what was known of it.
	Revised, Ignored uint64
	// Absorbed alerts said no more than that a pending one is over, which that
	// one now says itself.
	Absorbed uint64
	// ToldElsewhere is how many another reader of the same client was shown
	// first, merged ones counted once.
	ToldElsewhere uint64
	// Evicted is how many alerts had to go for want of room, merged ones
	// counted once.
	Evicted uint64
	// Silenced alerts were held back when they came, or taken out while they
	// pended; merged ones are counted each.
	Silenced uint64
}

// New returns an empty
func New() *Inbox { return &Inbox{} }

// Offer takes an alert in: into the pending one of the same app and dedup key,
// in the place of the one that it revises, or at the end. A revision of what is
// no longer pending enters only where it raises the severity, under the id of the
// first alert; else it is ignored. A pending alert that it resolves becomes one
// line, and where it tells nothing else it goes into that.
func (b *Inbox) Offer(a alert.Alert) {
	b.stats.Offered++
	raises := b.severities.Raises(a)
	b.severities.Note(a)
	resolved := a.Resolves != "" && b.list.Resolve(a)
	switch {
	case resolved && a.OnlyResolves():
		b.stats.Absorbed++
		return
	case a.Revises != "" && b.list.Revise(a):
		b.stats.Revised++
		return
	case a.Revises != "":
		if _, over := b.list.Find(a.Revises); over || !raises {
			b.stats.Ignored++
			return
		}
		a = a.Whole()
	}
	if b.list.Merge(a) {
		return
	}
	b.list.Add(a)
	if b.list.Len() > Capacity {
		b.list.DropLeast(b.severities.RankOfFinding)
		b.stats.Evicted++
		b.evicted, b.evictedAt = b.evicted+1, max(b.evictedAt, a.Seq)
	}
}

// Know remembers how severe an alert was that this inbox never held, for those that
// revise or resolve it.
func (b *Inbox) Know(a alert.Alert) { b.severities.Note(a) }

// HoldBack counts an alert that is told to nobody. A pending one that it resolves
// becomes one line all the same: that was raised before anybody silenced it, and
// would be told as if it went on.
func (b *Inbox) HoldBack(a alert.Alert) {
	b.stats.Offered++
	b.stats.Silenced++
	b.severities.Note(a)
	if a.Resolves != "" {
		b.list.Resolve(a)
	}
}

// Silence takes out the pending alerts that hushed says yes to; it hears of how
// many alerts each was made.
func (b *Inbox) Silence(hushed func(a alert.Alert, offers int) bool) {
	b.stats.Silenced += uint64(b.list.DropWhere(hushed))
}

// Find is the pending alert that answers to an id: its own, or that of one that
// was merged with it.
func (b *Inbox) Find(id string) (alert.Alert, bool) { return b.list.Find(id) }

// Len is the number of pending alerts.
func (b *Inbox) Len() int { return b.list.Len() }

// Pending returns the pending alerts in the order of first arrival, as they
// are, and keeps them.
func (b *Inbox) Pending() []alert.Alert { return b.list.Alerts() }

// Drain takes out the alerts that came up to a place in the stream, and returns
// them as a digest: a regression and an anomaly that belong together joined, the
// most urgent and newest first, and what has one cause under that. Of one that
// came again after it, the rest stays.
func (b *Inbox) Drain(seq uint64) []alert.Alert {
	told := b.causes.Digest(b.list.UpTo(seq))
	b.take(seq, told, func(int) bool { return true })
	return alert.Alerts(told)
}

// DrainWithin is Drain of as many alerts as have room. The others stay: the least
// severe, of these the oldest. write writes a digest, of which so many alerts are left
// out, and returns how many of it have room. It is asked until all have, and what it
// wrote then is drained. One alert is drained in any case. Where write fails, all stay.
func (b *Inbox) DrainWithin(seq uint64, write func(digest []alert.Alert, left int) (room int, err error)) error {
	waiting := b.list.UpTo(seq)
	if len(waiting) == 0 {
		return nil
	}
	order := b.bySeverity(waiting)
	for n := len(waiting); ; {
		chosen := slices.Clone(order[:n])
		slices.Sort(chosen) // of equals the order of arrival decides
		some := make([]alert.Pending, n)
		for i, at := range chosen {
			some[i] = waiting[at]
		}
		told := b.causes.Digest(some)
		room, err := write(alert.Alerts(told), len(waiting)-n)
		if err != nil {
			return err
		}
		if room >= len(told) || n == 1 {
			b.take(seq, told, func(i int) bool { return slices.Contains(chosen, i) })
			return nil
		}
		n = max(min(n-1, room), 1)
	}
}

// bySeverity returns the places of alerts, the most severe first, of equals the
// newest.
func (b *Inbox) bySeverity(all []alert.Pending) []int {
	order := make([]int, len(all))
	ranks := make([]int, len(all))
	for i, a := range all {
		order[i], ranks[i] = i, b.severities.RankOfFinding(a.Alert)
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(ranks[j], ranks[i]), all[j].Timestamp.Compare(all[i].Timestamp), cmp.Compare(all[j].Seq, all[i].Seq))
	})
	return order
}

// take removes what was delivered.
func (b *Inbox) take(seq uint64, told []alert.Pending, wanted func(i int) bool) {
	b.list.Take(seq, wanted)
	b.causes.Told(told)
	b.evicted = 0
}

// Digest is what a Drain of all would return, and keeps the alerts.
func (b *Inbox) Digest() []alert.Alert { return alert.Alerts(b.causes.Digest(b.list.Pending())) }

// Unplace forgets the places of the pending alerts: they are of a stream that is
// gone, so they come before all that is to come.
func (b *Inbox) Unplace() { b.list.Unplace() }

// Own says that what came up to a place in the stream was claimed for this
// reader: no other one of the same client tells it.
func (b *Inbox) Own(seq uint64) { b.list.Own(seq) }

// DropTold forgets the alerts that another reader of the same client was shown
// already: those that came up to a place in the stream. Of one that came again
// after it, the rest stays, and so does what was Own before. What comes of them
// later is told as if they had been drained here.
func (b *Inbox) DropTold(seq uint64) {
	gone := b.list.DropTold(seq)
	if seq >= b.evictedAt { // that reader counted them, or had room
		b.evicted = 0
	}
	b.stats.ToldElsewhere += uint64(len(gone))
	b.remember(gone)
}

// Remember says what the reader was told before, of late, by another inbox: it may
// be the cause of what comes.
func (b *Inbox) Remember(told []alert.Alert) {
	all := make([]alert.Pending, len(told))
	for i, a := range told {
		b.Know(a)
		all[i].Alert = a
	}
	b.remember(all)
}

func (b *Inbox) remember(told []alert.Pending) {
	if len(told) > 0 {
		b.causes.Told(b.causes.Digest(told))
	}
}

// Clear empties the inbox and returns how many alerts were in it.
func (b *Inbox) Clear() int {
	n := b.list.Len()
	b.list.Clear()
	b.evicted = 0
	return n
}

// Evicted is how many alerts had to go for want of room since New.
func (b *Inbox) Evicted() uint64 { return b.stats.Evicted }

// EvictedSince is how many had to go since alerts were last drained, cleared or
// delivered by another reader.
func (b *Inbox) EvictedSince() int { return b.evicted }

// Stats returns the counts since New.
func (b *Inbox) Stats() Stats { return b.stats }
