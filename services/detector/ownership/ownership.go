// Package ownership decides which detector works on which partition of the
// telemetry, from what one detector reads in a bucket that all of them share.
//
// Every member writes a heartbeat to the bucket, and one record for each partition
// names its owner. Records change by compare-and-set only. A member whose heartbeat
// has not changed for DeadAfter, by the reader's clock, is dead, and its partitions
// are free; times of two machines are never compared. An owner holds its partitions
// for HoldFor after it sent its newest acknowledged heartbeat (package lease). HoldFor is
// shorter than DeadAfter, so an owner stops acting before another one replaces it,
// even if its process was paused.
//
// A [Table] is the knowledge of one member. It knows nothing of NATS, starts no
// goroutine and takes the time as an argument. It is not safe for concurrent use.
package ownership

import (
	"slices"
	"time"
)

const (
	// HeartbeatEvery is the interval between two heartbeats of a member.
	HeartbeatEvery = 750 * time.Millisecond
	// ReadEvery is the interval between two reads of the bucket.
	ReadEvery = 250 * time.Millisecond
	// HoldFor is how long a heartbeat keeps the lease, counted from its sending.
	HoldFor = 2 * time.Second
	// DeadAfter is how long a heartbeat is unchanged before its member counts as dead.
	DeadAfter = 3 * time.Second
	// MaxViewAge is the largest age of our own heartbeat in a view on which we claim or
	// release. Replicas may lag, and in an old view every member looks dead. HoldFor
	// plus MaxViewAge is less than DeadAfter.
	MaxViewAge = 900 * time.Millisecond
	// ClaimGrace is how long a free partition is reserved for the member with the fewest.
	ClaimGrace = time.Second
	// SettleTime is how long the set of members must be unchanged before partitions are
	// rebalanced: during a rolling restart nothing moves.
	SettleTime = 5 * time.Second
	// ForgetAfter is when the heartbeat of a dead member is removed from the bucket.
	ForgetAfter = time.Minute
)

// View is the content of the bucket at one read.
type View struct {
	// Members are the heartbeats, by member id.
	Members map[string]Member
	// Records are the owners, by partition. A partition that was never owned has none.
	Records map[int]Record
}

// Member is the heartbeat of one member.
type Member struct {
	Revision uint64
	// Leaving is set while the member releases its partitions before it stops. It is
	// given no new ones.
	Leaving bool
}

// Record names the owner of a partition. An empty owner means that it was released.
type Record struct {
	Owner    string
	Revision uint64
}

// Plan lists what a member must do.
type Plan struct {
	// Drop are partitions that another member owns now. The caller aborts them, without
	// publishing or saving anything more, and then calls Ended.
	Drop []int
	// Release are partitions to shut down and whose records are then cleared. The
	// caller then calls Ended.
	Release []int
	// Claim are records to write. The caller calls Claimed for each one that succeeded;
	// the next plan deals with the others.
	Claim []Claim
	// Forget are the revisions of heartbeats of members that died long ago.
	Forget []uint64
}

// Claim is a compare-and-set: write our id into the record of a partition if the record
// still has this revision, 0 for a record that does not exist.
type Claim struct {
	Partition int
	Revision  uint64
	// Takeover is set if the previous owner died.
	Takeover bool
}

// Table is what one member knows of all members and partitions.
type Table struct {
	id     string
	held   map[int]*holding
	claims int // number of claims so far; orders holdings by age

	heartbeats []ownHeartbeat // our acknowledged ones, newest last
	members    map[string]*memberState
	records    []record
	// settled is when a member last joined, left or died.
	settled time.Time
}

type ownHeartbeat struct {
	revision uint64
	sent     time.Time
}

// memberState is what is known of a member. One that owns a partition but has no
// heartbeat has revision 0.
type memberState struct {
	Member
	since time.Time // when this heartbeat was first seen
	alive bool
}

type record struct {
	Record
	freeSince time.Time // zero while the owner is alive
}

// holding is a partition that we own or are ending.
type holding struct {
	revision uint64
	epoch    uint64 // lease epoch in which the record was written
	number   int    // order of claiming
	ending   bool
}

// New returns the table of a member that has read nothing yet.
func New(id string, partitions int) *Table {
	return &Table{id: id, held: map[int]*holding{}, members: map[string]*memberState{}, records: make([]record, partitions)}
}

// RecordHeartbeat records that our heartbeat sent at a time was stored at a revision. A
// revision lower than the last one means that the bucket was recreated.
func (t *Table) RecordHeartbeat(revision uint64, sent time.Time) {
	if n := len(t.heartbeats); n > 0 && revision < t.heartbeats[n-1].revision {
		t.heartbeats = nil
		clear(t.records)
		clear(t.members)
		for _, h := range t.held {
			h.revision = 0
		}
	}
	t.heartbeats = append(t.heartbeats, ownHeartbeat{revision, sent})
	if len(t.heartbeats) > 8 {
		t.heartbeats = slices.Delete(t.heartbeats, 0, 1)
	}
}

// Claimed records that our claim of a partition was stored at a revision. The epoch is
// the lease's when the claim was sent.
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

// RecordEnd records that nothing of a partition runs here any more.
func (t *Table) RecordEnd(partition int) { delete(t.held, partition) }

// Leave returns all partitions to release before the process stops.
func (t *Table) Leave() []int { return t.release(len(t.held)) }

// Revision returns the revision of the record of a partition that we own, or 0.
func (t *Table) Revision(partition int) uint64 {
	if h := t.held[partition]; h != nil {
		return h.revision
	}
	return 0
}

// Held returns the partitions that we own and are not ending, with the epoch in which
// each was claimed.
func (t *Table) Held() map[int]uint64 {
	held := map[int]uint64{}
	for p, h := range t.held {
		if !h.ending {
			held[p] = h.epoch
		}
	}
	return held
}

// Plan takes a view that was requested and answered at the given times and returns what
// to do. The epoch is the lease's. Replicas may lag, so a view may be older than what
// is known already.
func (t *Table) Plan(v View, requested, answered time.Time, epoch uint64) Plan {
	t.merge(v, answered)
	var plan Plan
	for p := range t.records {
		h, r := t.held[p], t.records[p]
		if h != nil && !h.ending && r.Owner != t.id {
			h.ending = true
			plan.Drop = append(plan.Drop, p)
		}
	}
	if !t.fresh(v, requested) {
		return plan
	}
	t.updateLiveness(requested)
	plan.Claim = t.claim(requested, epoch)
	if len(plan.Claim) == 0 && len(plan.Drop) == 0 {
		plan.Release = t.release(t.surplus(requested))
	}
	plan.Forget = t.forget(v, requested)
	return plan
}

// merge takes over what is newer in a view.
func (t *Table) merge(v View, now time.Time) {
	note := func(id string, m Member) {
		if known := t.members[id]; known == nil || m.Revision > known.Revision || m.Revision == 0 && known.Revision > 0 {
			alive := known != nil && known.alive
			t.members[id] = &memberState{Member: m, since: now, alive: alive}
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

// fresh reports whether a view is at most MaxViewAge older than its request: then it
// contains a heartbeat of ours that is no older.
func (t *Table) fresh(v View, requested time.Time) bool {
	shown := v.Members[t.id].Revision
	for _, b := range t.heartbeats {
		if b.revision == shown {
			return requested.Sub(b.sent) <= MaxViewAge
		}
	}
	// A heartbeat that is not acknowledged yet is newer than all acknowledged ones.
	return len(t.heartbeats) > 0 && shown > t.heartbeats[len(t.heartbeats)-1].revision
}

// updateLiveness updates which members are alive and since when partitions are free.
// now is when the view was requested, because the view shows nothing later.
func (t *Table) updateLiveness(now time.Time) {
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

// dead reports whether the partitions of a member are free. A leaving member owns its
// partitions until it has cleared their records.
func (t *Table) dead(id string, now time.Time) bool {
	return id != t.id && now.Sub(t.members[id].since) >= DeadAfter
}

// claim returns the free partitions to claim. They are assigned one by one to the
// member with the fewest, so that members with the same view claim different ones.
// After ClaimGrace any member may claim what is still free.
func (t *Table) claim(now time.Time, epoch uint64) []Claim {
	var claims []Claim
	counts := t.counts()
	for p, r := range t.records {
		h := t.held[p]
		switch {
		case h != nil && (h.ending || h.epoch == epoch):
		case h != nil || r.Owner == t.id:
			// The lease expired since we claimed it, so another member may have taken it:
			// the compare-and-set decides.
			claims = append(claims, Claim{Partition: p, Revision: r.Revision})
		case !r.freeSince.IsZero():
			id := fewest(counts)
			counts[id]++
			if id == t.id || now.Sub(r.freeSince) >= ClaimGrace {
				claims = append(claims, Claim{Partition: p, Revision: r.Revision, Takeover: r.Owner != ""})
			}
		}
	}
	return claims
}

// counts returns the number of partitions that each living member owns.
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

// fewest returns the member with the smallest count; ties go to the first by name.
func fewest(counts map[string]int) string {
	var least string
	for id, n := range counts {
		if least == "" || n < counts[least] || n == counts[least] && id < least {
			least = id
		}
	}
	return least
}

// surplus returns how many partitions to release for rebalancing: half of the difference
// to the member with the fewest. Only the member with the most releases any (ties: the
// last by name), so one member releases at a time.
func (t *Table) surplus(now time.Time) int {
	if now.Sub(t.settled) < SettleTime {
		return 0
	}
	for p, r := range t.records {
		if h := t.held[p]; !r.freeSince.IsZero() || h != nil && h.ending {
			return 0 // every partition must have an owner first
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

// release marks the n newest holdings as ending and returns their partitions.
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

// forget returns the heartbeats of members that died at least ForgetAfter ago.
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
