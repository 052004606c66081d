package ownership_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
)

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// view is written as in the tables: members with the revisions of their beats, an
// exclamation mark behind one that is leaving, and partitions with their owners.
func view(members, records string) ownership.View {
	v := ownership.View{Members: map[string]ownership.Member{}, Records: map[int]ownership.Record{}}
	for m := range strings.FieldsSeq(members) {
		id, rest, _ := strings.Cut(m, ":")
		var revision uint64
		_, _ = fmt.Sscan(strings.TrimSuffix(rest, "!"), &revision)
		v.Members[id] = ownership.Member{Revision: revision, Leaving: strings.HasSuffix(rest, "!")}
	}
	for i, owner := range strings.Fields(records) {
		if owner == "-" {
			continue
		}
		v.Records[i] = ownership.Record{Owner: strings.Trim(owner, "."), Revision: uint64(100 + i)}
	}
	return v
}

func describe(p ownership.Plan) string {
	var out []string
	for _, n := range p.Drop {
		out = append(out, fmt.Sprint("drop ", n))
	}
	for _, n := range p.Release {
		out = append(out, fmt.Sprint("release ", n))
	}
	for _, c := range p.Claim {
		text := fmt.Sprint("claim ", c.Partition)
		if c.Takeover {
			text += " of the dead"
		}
		out = append(out, text)
	}
	for _, n := range p.Forget {
		out = append(out, fmt.Sprint("forget ", n))
	}
	return strings.Join(out, ", ")
}

// TestTable plays what one member, a, sees and what it makes of that.
func TestTable(t *testing.T) {
	type look struct {
		at               float64
		members, records string // '-' for no record, '.' for one without an owner
		stale            bool   // our own beat in it is old
		want             string
	}
	tests := []struct {
		name  string
		looks []look
	}{
		{"alone: everything at once", []look{{0, "a:1", "- - -", false, "claim 0, claim 1, claim 2"}}},
		{"two: half each, and nobody wants the same", []look{{0, "a:1 b:2", "- - - -", false, "claim 0, claim 2"}}},
		{"to whoever has the fewest", []look{{0, "a:1 b:2", "b b . . .", false, "claim 2, claim 3, claim 4"}}},
		{"the others' share after a while", []look{
			{0, "a:1 b:2", "- -", false, "claim 0"},
			{0.5, "a:3 b:4", "a -", false, ""},
			{1.0, "a:5 b:6", "a -", false, "claim 1"},
		}},
		{"a dead one's after 3 s", []look{
			{0, "a:1 b:2", "b", false, ""},
			{2.9, "a:3 b:2", "b", false, ""},
			{3, "a:4 b:2", "b", false, "claim 0 of the dead"},
		}},
		{"a beat in time keeps it", []look{
			{0, "a:1 b:2", "b", false, ""},
			{2.9, "a:3 b:4", "b", false, ""},
			{5.8, "a:5 b:4", "b", false, ""},
			{5.9, "a:6 b:4", "b", false, "claim 0 of the dead"},
		}},
		{"an old view kills nobody", []look{
			{0, "a:1 b:2", "b", false, ""},
			{3, "a:1 b:2", "b", true, ""},
			{9, "a:1 b:2", "b", true, ""},
			{9.1, "a:3 b:9", "b", false, ""},
		}},
		{"an owner without a beat is dead after 3 s", []look{
			{0, "a:1", "b", false, ""},
			{3, "a:2", "b", false, "claim 0 of the dead"},
		}},
		{"nothing for one that leaves, and what it has is not free", []look{
			{0, "a:1 b:2!", "b .", false, "claim 1"},
			{1, "a:3 b:4!", ". a", false, "claim 0"},
		}},
		{"ours from before", []look{{0, "a:1", "a a", false, "claim 0, claim 1"}}},
		{"a dead member's beat is removed", []look{
			{0, "a:1 b:2", "", false, ""},
			{59, "a:3 b:2", "", false, ""},
			{60, "a:4 b:2", "", false, "forget 2"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := ownership.New("a", len(strings.Fields(tt.looks[0].records)))
			var lease ownership.Lease
			for i, l := range tt.looks {
				v := view(l.members, l.records)
				if !l.stale {
					table.Beat(v.Members["a"].Revision, at(l.at-0.1))
					lease.Renew(at(l.at-0.1), at(l.at))
				}
				if i > 0 { // what was asked for before is ours
					for n, r := range v.Records {
						if r.Owner == "a" {
							table.Claimed(n, r.Revision, lease.Epoch())
						}
					}
				}
				if got := describe(table.Look(v, at(l.at), at(l.at), lease.Epoch())); got != l.want {
					t.Errorf("at %v: %s, want %s", l.at, got, l.want)
				}
			}
		})
	}
}

// TestGivingAway: one that has more than it should gives away what it took last,
// once nobody has come or gone for a while, and only one at a time does.
func TestGivingAway(t *testing.T) {
	for id, want := range map[string]string{"a": "", "b": "release 6, release 5"} {
		table := ownership.New(id, 8)
		records := "a a a a b b b b"
		table.Beat(1, at(0))
		for i, n := range []int{4, 7, 5, 6} {
			table.Claimed(map[string]int{"a": i, "b": n}[id], 107, 1)
		}
		v := view("a:1 b:1 c:1", records)
		for n, r := range v.Records {
			r.Revision = 107
			v.Records[n] = r
		}
		for s := range 5 {
			table.Beat(uint64(s+1), at(float64(s)))
			if got := describe(table.Look(at1(v, s+1), at(float64(s)), at(float64(s)), 1)); got != "" {
				t.Errorf("%s after %d s: %s", id, s, got)
			}
		}
		table.Beat(6, at(5))
		if got := describe(table.Look(at1(v, 6), at(5), at(5), 1)); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
		if id == "b" {
			if held := table.Held(); len(held) != 2 {
				t.Errorf("%v are held while two end", held)
			}
			table.Ended(6)
			table.Ended(5)
		}
	}
}

// at1 is a view in which everybody has just beaten.
func at1(v ownership.View, revision int) ownership.View {
	members := map[string]ownership.Member{}
	for id := range v.Members {
		members[id] = ownership.Member{Revision: uint64(revision)}
	}
	return ownership.View{Members: members, Records: v.Records}
}

// TestOusted: a partition that another one has taken ends, and is not claimed
// before it has ended; a view from before we claimed it says nothing.
func TestOusted(t *testing.T) {
	table := ownership.New("a", 1)
	table.Beat(1, at(0))
	look := func(s float64, owner string, revision uint64) string {
		v := ownership.View{
			Members: map[string]ownership.Member{"a": {Revision: 1}, "b": {Revision: 1}},
			Records: map[int]ownership.Record{0: {Owner: owner, Revision: revision}},
		}
		return describe(table.Look(v, at(s), at(s), 1))
	}
	table.Claimed(0, 7, 1)
	for i, step := range []struct {
		owner    string
		revision uint64
		want     string
	}{{"b", 5, ""}, {"a", 7, ""}, {"b", 8, "drop 0"}, {"", 9, ""}} {
		if got := look(float64(i)/10, step.owner, step.revision); got != step.want {
			t.Errorf("%+v: %s", step, got)
		}
	}
	if len(table.Held()) != 0 {
		t.Errorf("still held: %v", table.Held())
	}
	table.Ended(0)
	if got := look(0.5, "", 9); got != "claim 0" {
		t.Errorf("after the end: %s", got)
	}
}

// TestNewEpoch: after the lease lapsed, what is ours is claimed again before it is
// spoken for.
func TestNewEpoch(t *testing.T) {
	table := ownership.New("a", 2)
	table.Beat(1, at(0))
	table.Claimed(0, 100, 1)
	table.Claimed(1, 101, 2)
	if got := describe(table.Look(view("a:1", "a a"), at(0), at(0), 2)); got != "claim 0" {
		t.Error(got)
	}
	if got := table.Revision(0); got != 100 {
		t.Errorf("revision %d", got)
	}
	if got := table.Leave(); !slices.Equal(got, []int{1, 0}) {
		t.Errorf("to be released: %v", got)
	}
}

// TestNewBucket: where the bucket was made anew, nothing is ours any more.
func TestNewBucket(t *testing.T) {
	table := ownership.New("a", 1)
	table.Beat(50, at(0))
	table.Claimed(0, 60, 1)
	table.Beat(2, at(1))
	if got := describe(table.Look(view("a:2", "-"), at(1), at(1), 1)); got != "drop 0" {
		t.Error(got)
	}
}

func TestLease(t *testing.T) {
	var l ownership.Lease
	if l.Holds(0, at(0)) || l.Holds(1, at(0)) {
		t.Error("held without a beat")
	}
	tests := []struct {
		sent, acked float64 // a beat, or a question where acked is 0
		epoch       uint64
		now         float64
		want        bool
	}{
		{0, 0.5, 1, 1.9, true},
		{0, 0, 1, 2, false},
		{0, 0, 1, 1.9, true},
		{1.5, 1.6, 1, 3.4, true}, // renewed in time
		{1, 1.7, 1, 3.4, true},   // one that was sent before comes later
		{4, 4.1, 1, 4.2, false},  // had lapsed
		{0, 0, 2, 4.2, true},
		{0, 0, 2, 6, false},
		{5, 7.5, 3, 7.6, false}, // acknowledged too late to hold anything
	}
	for i, tt := range tests {
		if tt.acked > 0 {
			l.Renew(at(tt.sent), at(tt.acked))
		}
		if got := l.Holds(tt.epoch, at(tt.now)); got != tt.want {
			t.Errorf("step %d: %v in epoch %d", i, got, l.Epoch())
		}
	}
}

// TestLeaseOfASuspendedMachine: the clock that only runs forward stood still, the
// other one tells.
func TestLeaseOfASuspendedMachine(t *testing.T) {
	var l ownership.Lease
	now := time.Now()
	l.Renew(now, now)
	if !l.Holds(1, now.Add(time.Second)) || l.Holds(1, now.Round(0).Add(time.Hour)) {
		t.Error("the lease outlives a suspended machine")
	}
}
