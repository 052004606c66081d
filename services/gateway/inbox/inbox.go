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

// Capacity is the number of alerts an inbox holds. Beyond it, the oldest of the
// least severe alerts is evicted and counted; that may be the one just offered. A
// resolution ranks as the alert that it resolves, and a repetition does not make
// an alert younger.
const Capacity = 50

// Inbox holds alerts until they are taken.
type Inbox struct {
	list       List
	causes     alert.Causes
	severities Severities
	// investigations decides which end of an investigation is news.
	investigations Investigations
	stats          Stats
	// evicted counts evictions since the last Take. evictedSeq is the highest
	// stream sequence that had been offered at the newest of them.
	evicted    int
	evictedSeq uint64
}

// Stats counts alerts since New.
type Stats struct {
	// Offered counts all alerts. Each is pending (by itself or merged), or was
	// taken, cleared, delivered elsewhere or evicted, or is counted as Revised,
	// Ignored, Absorbed or Silenced.
	Offered uint64
	// Revised alerts replaced a pending one. Ignored alerts revised one that was
	// no longer pending, without raising its severity or ending its investigation.
	Revised, Ignored uint64
	// Absorbed alerts only resolved a pending alert, which is now marked resolved.
	Absorbed uint64
	// DeliveredElsewhere counts alerts that another reader of the same client
	// delivered first. Merged alerts count once.
	DeliveredElsewhere uint64
	// Evicted counts alerts removed because the inbox was full. Merged alerts
	// count once.
	Evicted uint64
	// Silenced counts alerts suppressed on arrival or while pending. Merged alerts
	// count each.
	Silenced uint64
}

// New returns an empty inbox.
func New() *Inbox { return &Inbox{} }

// Offer adds an alert. It is merged into the pending alert with the same app and
// dedup key, replaces the one that it revises, or goes to the end. A revision of an
// alert that is no longer pending is ignored unless it raises the severity; then it
// enters under the id of the first alert. A revision with an investigation changes only
// that; the end of an investigation of an alert that is no longer pending enters once, as
// one line. A pending alert that a resolves becomes one line, and a itself is absorbed if
// it says nothing else.
func (b *Inbox) Offer(a alert.Alert) {
	b.stats.Offered++
	raises := b.severities.Raises(a)
	b.severities.Record(a)
	if b.investigations.Repeats(a) {
		b.stats.Ignored++
		return
	}
	news := b.investigations.Record(a)
	resolved := a.Resolves != "" && b.list.Resolve(a)
	switch {
	case resolved && a.OnlyResolves():
		b.stats.Absorbed++
		return
	case a.Revises != "" && b.list.Revise(a, news):
		b.stats.Revised++
		return
	case news && !raises:
		a = a.InvestigationEnd()
	case a.Revises != "":
		if b.list.IsPending(a.Revises) || !raises {
			b.stats.Ignored++
			return
		}
		b.stats.Revised += uint64(b.list.DropInvestigationEnd(a.Revises))
		a = b.investigations.Keep(a).AsOriginal()
	}
	if !a.OnlyInvestigation && b.list.Merge(a) {
		return
	}
	b.list.Add(a)
	if b.list.Len() > Capacity {
		b.list.DropLowest(b.severities.RankOfFinding)
		b.stats.Evicted++
		b.evicted, b.evictedSeq = b.evicted+1, max(b.evictedSeq, a.Seq)
	}
}

// RecordElsewhere records the severity and the investigation of an alert that is not
// offered here, for later alerts that revise or resolve it.
func (b *Inbox) RecordElsewhere(a alert.Alert) {
	b.severities.Record(a)
	b.investigations.Record(a)
}

// Suppress counts an alert that is not delivered. A pending alert that it resolves
// still becomes one line: that one was raised before the silence, and must not be
// delivered as if it were still open.
func (b *Inbox) Suppress(a alert.Alert) {
	b.stats.Offered++
	b.stats.Silenced++
	b.RecordElsewhere(a)
	if a.Investigation != nil && a.Revises != "" {
		b.list.Revise(a, false) // no news: it changes only what is pending
	}
	if a.Resolves != "" {
		b.list.Resolve(a)
	}
}

// SuppressWhere removes the pending alerts for which suppressed returns true.
// offers is the number of alerts merged into each.
func (b *Inbox) SuppressWhere(suppressed func(a alert.Alert, offers int) bool) {
	b.stats.Silenced += uint64(b.list.DropWhere(suppressed))
}

// Find returns the pending alert with an id: its own, or that of an alert merged
// into it.
func (b *Inbox) Find(id string) (alert.Alert, bool) { return b.list.Find(id) }

// Len returns the number of pending alerts.
func (b *Inbox) Len() int { return b.list.Len() }

// Pending returns the pending alerts in the order of first arrival and keeps them.
func (b *Inbox) Pending() []alert.Alert { return b.list.Alerts() }

// Take removes the alerts up to a stream sequence and returns them as a digest: a
// regression and an anomaly that belong together are joined, the most severe and
// newest come first, and symptoms follow their cause. Of an alert that repeated
// after seq, the later part stays.
func (b *Inbox) Take(seq uint64) []alert.Alert {
	taken := b.causes.Digest(b.list.UpTo(seq))
	b.remove(seq, taken, func(int) bool { return true })
	return alert.Alerts(taken)
}

// TakeWithin is Take limited to the alerts that fit. The others stay: the least
// severe, and of equal severity the oldest. write writes a digest from which left
// alerts are missing, and returns how many of the digest fit. It is called with
// smaller digests until all fit, and its last digest is taken. At least one alert is
// taken. If write fails, all alerts stay.
func (b *Inbox) TakeWithin(seq uint64, write func(digest []alert.Alert, left int) (fit int, err error)) error {
	pending := b.list.UpTo(seq)
	if len(pending) == 0 {
		return nil
	}
	order := b.bySeverity(pending)
	for n := len(pending); ; {
		chosen := slices.Clone(order[:n])
		slices.Sort(chosen) // the digest breaks ties by order of arrival
		subset := make([]alert.Pending, n)
		for i, index := range chosen {
			subset[i] = pending[index]
		}
		digest := b.causes.Digest(subset)
		fit, err := write(alert.Alerts(digest), len(pending)-n)
		if err != nil {
			return err
		}
		if fit >= len(digest) || n == 1 {
			b.remove(seq, digest, func(i int) bool { return slices.Contains(chosen, i) })
			return nil
		}
		n = max(min(n-1, fit), 1)
	}
}

// bySeverity returns the indexes of alerts, the most severe first, and the newest
// first among equals.
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

// remove removes delivered alerts.
func (b *Inbox) remove(seq uint64, delivered []alert.Pending, wanted func(i int) bool) {
	b.list.Take(seq, wanted)
	b.causes.Delivered(delivered)
	b.evicted = 0
}

// Digest returns what Take of all alerts would return, and keeps them.
func (b *Inbox) Digest() []alert.Alert { return alert.Alerts(b.causes.Digest(b.list.Pending())) }

// ForgetPositions sets the sequence of every pending alert to 0, because their
// stream was deleted: they come before every alert of the new stream.
func (b *Inbox) ForgetPositions() { b.list.ForgetPositions() }

// MarkClaimed marks the alerts up to a stream sequence as claimed by this reader:
// [Inbox.DiscardDelivered] keeps them.
func (b *Inbox) MarkClaimed(seq uint64) { b.list.MarkClaimed(seq) }

// DiscardDelivered removes the alerts up to a stream sequence, which another reader
// of the same client delivered. Of an alert that repeated after seq, the later part
// stays. Later alerts may have the removed ones as their cause.
func (b *Inbox) DiscardDelivered(seq uint64) {
	removed := b.list.DiscardDelivered(seq)
	if seq >= b.evictedSeq { // the other reader counted the evicted alerts, or had room for them
		b.evicted = 0
	}
	b.stats.DeliveredElsewhere += uint64(len(removed))
	b.recordCauses(removed)
}

// RecordDelivered records alerts that another process delivered to this client
// recently: they may be the cause of later ones.
func (b *Inbox) RecordDelivered(delivered []alert.Alert) {
	all := make([]alert.Pending, len(delivered))
	for i, a := range delivered {
		b.RecordElsewhere(a)
		all[i].Alert = a
	}
	b.recordCauses(all)
}

func (b *Inbox) recordCauses(delivered []alert.Pending) {
	if len(delivered) > 0 {
		b.causes.Delivered(b.causes.Digest(delivered))
	}
}

// Clear empties the inbox and returns how many alerts were in it.
func (b *Inbox) Clear() int {
	n := b.list.Len()
	b.list.Clear()
	b.evicted = 0
	return n
}

// Evicted returns how many alerts were evicted since New.
func (b *Inbox) Evicted() uint64 { return b.stats.Evicted }

// EvictedSinceTake returns how many alerts were evicted since the last alerts were
// taken, cleared or delivered by another reader.
func (b *Inbox) EvictedSinceTake() int { return b.evicted }

// Stats returns the counts since New.
func (b *Inbox) Stats() Stats { return b.stats }
