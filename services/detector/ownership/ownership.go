// Package ownership decides which detector works on which partition of the
// telemetry, from what one of them sees in a bucket that all of them share.
//
// Every member writes a beat there, and a record for each partition names its
// owner. Records change by compare-and-set alone. A member whose beat has not
// changed for DeadAfter, by the clock of whoever looks, is dead, and its
// partitions are free; no times of two machines are ever compared. An owner holds
// what it owns for HoldFor after it sent its newest acknowledged beat (Lease).
// That is shorter, so it has fallen silent before another one takes its place,
// also when it was paused and does not know.
//
// A Table is what one member knows. It knows no NATS, starts nothing, and takes
// the time as an argument. It is not safe for concurrent use.
package ownership

import (
	"slices"
	"time"
)

const (
	// BeatEvery is the pause between two beats of a member.
	BeatEvery = 750 * time.Millisecond
	// LookEvery is the pause between two looks at the bucket.
	LookEvery = 250 * time.Millisecond
	// HoldFor is how long a beat lets its member speak, from its sending.
	HoldFor = 2 * time.Second
	// DeadAfter is how long the beat of a dead member has not changed.
	DeadAfter = 3 * time.Second
	// Fresh is how old our own beat may be in a look on which anything is taken or
	// given: replicas may lag, and in an old look everybody is dead. Together with
	// HoldFor it is shorter than DeadAfter.
	Fresh = 900 * time.Millisecond
	// Grace is how long a free partition is left to those whose share it is.
	Grace = time.Second
	// Settle is how long the members must have been the same before one gives
	// something away to another: while they are restarted in turn, nothing moves.
	Settle = 5 * time.Second
	// ForgetAfter is when what a dead member left in the bucket is removed.
	ForgetAfter = time.Minute
)

// View is what the bucket holds at one look.
type View struct {
	Members map[string]Member
	// Records are those of the partitions that have one.
	Records map[int]Record
}

// Member is the beat of one member.
type Member struct {
	Revision uint64
	// Leaving says that it gives away what it owns, and is to be given nothing.
	Leaving bool
}

// Record says who owns a partition; nobody for the empty owner.
type Record struct {
	Owner    string
	Revision uint64
}

// Plan is what a member is to do.
type Plan struct {
	// Drop are partitions that another one owns now: they end at once, and nothing
	// more is said or saved. Ended follows.
	Drop []int
	// Release are partitions that end in order; then their records are cleared.
	// Ended follows.
	Release []int
	// Claim are records to be written. Claimed follows where that succeeded; where
	// it did not, the next look tells more.
	Claim []Claim
	// Forget are beats, by their revisions, that nobody needs any more.
	Forget []uint64
}

// Claim is to write our name into the record of a partition that is still at a
// revision, which is 0 for none.
type Claim struct {
	Partition int
	Revision  uint64
	// Takeover says that its owner died.
	Takeover bool
}

// Table is what one member knows of all.
type Table struct {
	id     string
	held   map[int]*holding
	claims int // so far, to tell which holding is the newest

	// beats are our own that were acknowledged, the newest last.
	beats   []ownBeat
	members map[string]*seen
	records []record
	// settled is when a member came or went last.
	settled time.Time
}

type ownBeat struct {
	revision uint64
	sent     time.Time
}

// seen is what is known of a member. One that owns something and has no beat has
// revision 0.
type seen struct {
	Member
	since time.Time // when it was first seen like this
	alive bool
}

type record struct {
	Record
	freeSince time.Time // zero while somebody alive owns it
}

// holding is a partition that we own, or that is ending.
type holding struct {
	revision uint64
	// epoch is that of the lease in which the record was written.
	epoch  uint64
	number int
	ending bool
}

// New returns the table of a member that has seen nothing.
func New(id string, partitions int) *Table {
	return &Table{id: id, held: map[int]*holding{}, members: map[string]*seen{}, records: make([]record, partitions)}
}

// Beat notes that a beat of ours, sent at a time, was stored under a revision.
func (t *Table) Beat(revision uint64, sent time.Time) {
	if n := len(t.beats); n > 0 && revision < t.beats[n-1].revision {
		t.beats = nil // the bucket was made anew, and its revisions with it
		clear(t.records)
		clear(t.members)
		for _, h := range t.held {
			h.revision = 0
		}
	}
	t.beats = append(t.beats, ownBeat{revision, sent})
	if len(t.beats) > 8 {
		t.beats = slices.Delete(t.beats, 0, 1)
	}
}

// Claimed notes that a record is ours at a revision. The epoch is that of the
// lease when the claim was sent.
func (t *Table) Claimed(partition int, revision, epoch uint64) {
	h := t.held[partition]
	if h == nil {
		t.claims++
		h = &holding{number: t.claims}
		t.held[partition] = h
	}
	h.revision, h.epoch = revision, epoch
	t.records[partition] = record{Record: Record{Owner: t.id, Revision: revision}}
}

// Ended notes that nothing of a partition runs here any more.
func (t *Table) Ended(partition int) { delete(t.held, partition) }

// Leave is what to release before the end of the process.
func (t *Table) Leave() []int { return t.release(len(t.held)) }

// Revision is that of the record of a partition that we own.
func (t *Table) Revision(partition int) uint64 {
	if h := t.held[partition]; h != nil {
		return h.revision
	}
	return 0
}

// Held are the partitions that we own and that are not ending, and the epoch in
// which each was claimed.
func (t *Table) Held() map[int]uint64 {
	held := map[int]uint64{}
	for p, h := range t.held {
		if !h.ending {
			held[p] = h.epoch
		}
	}
	return held
}

// Look takes in a view that was asked for and answered at two times, and says what
// to do. epoch is that of the lease. What is in a view may be older than what is
// known already, because replicas may lag.
func (t *Table) Look(v View, from, to time.Time, epoch uint64) Plan {
	t.see(v, to)
	var plan Plan
	for p := range t.records {
		h, r := t.held[p], t.records[p]
		if h != nil && !h.ending && r.Owner != t.id {
			h.ending = true
			plan.Drop = append(plan.Drop, p)
		}
	}
	if !t.fresh(v, from) {
		return plan
	}
	t.judge(from)
	plan.Claim = t.claim(from, epoch)
	if len(plan.Claim) == 0 && len(plan.Drop) == 0 {
		plan.Release = t.release(t.surplus(from))
	}
	plan.Forget = t.forget(v, from)
	return plan
}

// see notes what has changed since the look before.
func (t *Table) see(v View, now time.Time) {
	note := func(id string, m Member) {
		if known := t.members[id]; known == nil || m.Revision > known.Revision || m.Revision == 0 && known.Revision > 0 {
			alive := known != nil && known.alive
			t.members[id] = &seen{Member: m, since: now, alive: alive}
		}
	}
	for id, m := range v.Members {
		note(id, m)
	}
	named := map[string]bool{t.id: true}
	for p := range t.records {
		if r, ok := v.Records[p]; ok && r.Revision >= t.records[p].Revision {
			t.records[p].Record = r
		}
		named[t.records[p].Owner] = true
	}
	for owner := range named {
		if _, ok := v.Members[owner]; !ok && owner != "" {
			note(owner, Member{})
		}
	}
	for id := range t.members {
		if _, ok := v.Members[id]; !ok && !named[id] {
			if t.members[id].alive {
				t.settled = now
			}
			delete(t.members, id)
		}
	}
}

// fresh says whether a view shows what was so at most Fresh before it was asked
// for: it has our own beat of that time.
func (t *Table) fresh(v View, asked time.Time) bool {
	shown := v.Members[t.id].Revision
	for _, b := range t.beats {
		if b.revision == shown {
			return asked.Sub(b.sent) <= Fresh
		}
	}
	// One that is not acknowledged yet is newer than all that are.
	return len(t.beats) > 0 && shown > t.beats[len(t.beats)-1].revision
}

// judge says who is alive, and what is free since when. Its time is that at which
// the view was asked for: what came later it does not show.
func (t *Table) judge(now time.Time) {
	for id, m := range t.members {
		alive := id == t.id || m.Revision > 0 && !m.Leaving && now.Sub(m.since) < DeadAfter
		if alive != m.alive {
			m.alive, t.settled = alive, now
		}
	}
	for p := range t.records {
		r := &t.records[p]
		switch {
		case r.Owner != "" && !t.dead(r.Owner, now):
			r.freeSince = time.Time{}
		case r.freeSince.IsZero():
			r.freeSince = now
		}
	}
}

// dead says whether what a member owns is free. One that is leaving owns what it
// owns until it has cleared the record.
func (t *Table) dead(id string, now time.Time) bool {
	return id != t.id && now.Sub(t.members[id].since) >= DeadAfter
}

// claim takes what is free. Free partitions are dealt one by one to whoever has
// the fewest, so that all who see the same want different ones; after Grace what
// is still free is anybody's.
func (t *Table) claim(now time.Time, epoch uint64) []Claim {
	var claims []Claim
	counts := t.counts()
	for p, r := range t.records {
		h := t.held[p]
		switch {
		case h != nil && (h.ending || h.epoch == epoch):
		case h != nil || r.Owner == t.id:
			// Ours, but perhaps taken while we held nothing: only the record can tell.
			claims = append(claims, Claim{Partition: p, Revision: r.Revision})
		case !r.freeSince.IsZero():
			to := fewest(counts)
			counts[to]++
			if to == t.id || now.Sub(r.freeSince) >= Grace {
				claims = append(claims, Claim{Partition: p, Revision: r.Revision, Takeover: r.Owner != ""})
			}
		}
	}
	return claims
}

// counts is how many partitions each of the living owns.
func (t *Table) counts() map[string]int {
	counts := map[string]int{}
	for id, m := range t.members {
		if m.alive {
			counts[id] = 0
		}
	}
	for _, r := range t.records {
		if _, ok := counts[r.Owner]; ok {
			counts[r.Owner]++
		}
	}
	return counts
}

// fewest is who has the smallest count, and of several the first by name.
func fewest(counts map[string]int) string {
	var who string
	for id, n := range counts {
		if who == "" || n < counts[who] || n == counts[who] && id < who {
			who = id
		}
	}
	return who
}

// surplus is how many partitions we should give away: half of what we have more
// than the member that has the fewest, when that is two or more, and nobody has
// more than we or as many and comes behind us. So one gives at a time.
func (t *Table) surplus(now time.Time) int {
	if now.Sub(t.settled) < Settle {
		return 0
	}
	for p, r := range t.records {
		if h := t.held[p]; !r.freeSince.IsZero() || h != nil && h.ending {
			return 0 // first everything has to be somebody's
		}
	}
	counts := t.counts()
	mine := counts[t.id]
	for id, n := range counts {
		if n > mine || n == mine && id > t.id {
			return 0
		}
	}
	return (mine - counts[fewest(counts)]) / 2
}

// release picks the holdings that were claimed last.
func (t *Table) release(n int) []int {
	var list []int
	for p, h := range t.held {
		if !h.ending {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b int) int { return t.held[b].number - t.held[a].number })
	list = list[:min(n, len(list))]
	for _, p := range list {
		t.held[p].ending = true
	}
	return list
}

// forget lists the beats of those that have been dead for long.
func (t *Table) forget(v View, now time.Time) []uint64 {
	var list []uint64
	for id, m := range v.Members {
		if known := t.members[id]; id != t.id && known.Revision == m.Revision && now.Sub(known.since) >= ForgetAfter {
			list = append(list, m.Revision)
		}
	}
	slices.Sort(list)
	return list
}
