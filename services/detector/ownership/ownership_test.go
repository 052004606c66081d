package ownership_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
)

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

// view parses the notation of the tables: members with the revisions of their heartbeats
// ("!" if leaving), and the owner of each partition ("-" without a record, "." released).
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
			text += " (takeover)"
		}
		out = append(out, text)
	}
	for _, n := range p.Forget {
		out = append(out, fmt.Sprint("forget ", n))
	}
	return strings.Join(out, ", ")
}

// TestTable plays the views that member a reads and checks its plans.
func TestTable(t *testing.T) {
	type read struct {
		at               float64
		members, records string // see view
		stale            bool   // our own heartbeat in the view is old
		want             string
	}
	tests := []struct {
		name  string
		reads []read
	}{
		{"alone: claims everything at once", []read{{0, "a:1", "- - -", false, "claim 0, claim 1, claim 2"}}},
		{"two: half each, and no claims collide", []read{{0, "a:1 b:2", "- - - -", false, "claim 0, claim 2"}}},
		{"free partitions go to the member with the fewest", []read{{0, "a:1 b:2", "b b . . .", false, "claim 2, claim 3, claim 4"}}},
		{"claims the other's part after the grace time", []read{
			{0, "a:1 b:2", "- -", false, "claim 0"},
			{0.5, "a:3 b:4", "a -", false, ""},
			{1.0, "a:5 b:6", "a -", false, "claim 1"},
		}},
		{"takes over from a dead member after 3 s", []read{
			{0, "a:1 b:2", "b", false, ""},
			{2.9, "a:3 b:2", "b", false, ""},
			{3, "a:4 b:2", "b", false, "claim 0 (takeover)"},
		}},
		{"a heartbeat in time keeps a partition", []read{
			{0, "a:1 b:2", "b", false, ""},
			{2.9, "a:3 b:4", "b", false, ""},
			{5.8, "a:5 b:4", "b", false, ""},
			{5.9, "a:6 b:4", "b", false, "claim 0 (takeover)"},
		}},
		{"an old view makes no member dead", []read{
			{0, "a:1 b:2", "b", false, ""},
			{3, "a:1 b:2", "b", true, ""},
			{9, "a:1 b:2", "b", true, ""},
			{9.1, "a:3 b:9", "b", false, ""},
		}},
		{"an owner without a heartbeat is dead after 3 s", []read{
			{0, "a:1", "b", false, ""},
			{3, "a:2", "b", false, "claim 0 (takeover)"},
		}},
		{"a leaving member gets nothing and keeps what it owns", []read{
			{0, "a:1 b:2!", "b .", false, "claim 1"},
			{1, "a:3 b:4!", ". a", false, "claim 0"},
		}},
		{"claims again what it owned before", []read{{0, "a:1", "a a", false, "claim 0, claim 1"}}},
		{"forgets the heartbeat of a dead member", []read{
			{0, "a:1 b:2", "", false, ""},
			{59, "a:3 b:2", "", false, ""},
			{60, "a:4 b:2", "", false, "forget 2"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := ownership.New("a", len(strings.Fields(tt.reads[0].records)))
			clock := lease.NewClock(ownership.HoldFor)
			for i, l := range tt.reads {
				v := view(l.members, l.records)
				if !l.stale {
					table.RecordHeartbeat(v.Members["a"].Revision, at(l.at-0.1))
					clock.Renew(at(l.at-0.1), at(l.at))
				}
				if i > 0 { // the claims of the read before succeeded
					for n, r := range v.Records {
						if r.Owner == "a" {
							table.Claimed(n, r.Revision, clock.Epoch())
						}
					}
				}
				if got := describe(table.Plan(v, at(l.at), at(l.at), clock.Epoch())); got != l.want {
					t.Errorf("plan at %v s = %q, want %q", l.at, got, l.want)
				}
			}
		})
	}
}

// TestRebalance checks that the member with the most partitions releases its newest ones
// once the members have not changed for SettleTime, and that the other one does not.
func TestRebalance(t *testing.T) {
	for id, want := range map[string]string{"a": "", "b": "release 6, release 5"} {
		table := ownership.New(id, 8)
		records := "a a a a b b b b"
		table.RecordHeartbeat(1, at(0))
		for i, n := range []int{4, 7, 5, 6} {
			table.Claimed(map[string]int{"a": i, "b": n}[id], 107, 1)
		}
		v := view("a:1 b:1 c:1", records)
		for n, r := range v.Records {
			r.Revision = 107
			v.Records[n] = r
		}
		for s := range 5 {
			table.RecordHeartbeat(uint64(s+1), at(float64(s)))
			if got := describe(table.Plan(withHeartbeats(v, s+1), at(float64(s)), at(float64(s)), 1)); got != "" {
				t.Errorf("member %s after %d s: plan = %q, want none", id, s, got)
			}
		}
		table.RecordHeartbeat(6, at(5))
		if got := describe(table.Plan(withHeartbeats(v, 6), at(5), at(5), 1)); got != want {
			t.Errorf("member %s after 5 s: plan = %q, want %q", id, got, want)
		}
		if id == "b" {
			if held := table.Held(); len(held) != 2 {
				t.Errorf("member b holds %v while two of its four partitions end, want 2", held)
			}
			table.RecordEnd(6)
			table.RecordEnd(5)
		}
	}
}

// withHeartbeats returns a view in which every member has a new heartbeat.
func withHeartbeats(v ownership.View, revision int) ownership.View {
	members := map[string]ownership.Member{}
	for id := range v.Members {
		members[id] = ownership.Member{Revision: uint64(revision)}
	}
	return ownership.View{Members: members, Records: v.Records}
}

// TestDrop checks that a partition taken by another member is dropped and not claimed
// before it has ended, and that a view older than our claim has no effect.
func TestDrop(t *testing.T) {
	table := ownership.New("a", 1)
	table.RecordHeartbeat(1, at(0))
	plan := func(s float64, owner string, revision uint64) string {
		v := ownership.View{
			Members: map[string]ownership.Member{"a": {Revision: 1}, "b": {Revision: 1}},
			Records: map[int]ownership.Record{0: {Owner: owner, Revision: revision}},
		}
		return describe(table.Plan(v, at(s), at(s), 1))
	}
	table.Claimed(0, 7, 1)
	for i, step := range []struct {
		owner    string
		revision uint64
		want     string
	}{{"b", 5, ""}, {"a", 7, ""}, {"b", 8, "drop 0"}, {"", 9, ""}} {
		if got := plan(float64(i)/10, step.owner, step.revision); got != step.want {
			t.Errorf("owner %q at revision %d: plan = %q, want %q", step.owner, step.revision, got, step.want)
		}
	}
	if held := table.Held(); len(held) != 0 {
		t.Errorf("Held = %v, want none", held)
	}
	table.RecordEnd(0)
	if got := plan(0.5, "", 9); got != "claim 0" {
		t.Errorf("plan after the partition has ended = %q, want %q", got, "claim 0")
	}
}

// TestNewEpoch checks that a partition claimed in an earlier lease epoch is claimed again.
func TestNewEpoch(t *testing.T) {
	table := ownership.New("a", 2)
	table.RecordHeartbeat(1, at(0))
	table.Claimed(0, 100, 1)
	table.Claimed(1, 101, 2)
	if got := describe(table.Plan(view("a:1", "a a"), at(0), at(0), 2)); got != "claim 0" {
		t.Errorf("plan = %q, want %q", got, "claim 0")
	}
	if got := table.Revision(0); got != 100 {
		t.Errorf("Revision = %d, want 100", got)
	}
	if got := table.Leave(); !slices.Equal(got, []int{1, 0}) {
		t.Errorf("Leave = %v, want [1 0]", got)
	}
}

// TestNewBucket checks that all partitions are dropped if the bucket was recreated.
func TestNewBucket(t *testing.T) {
	table := ownership.New("a", 1)
	table.RecordHeartbeat(50, at(0))
	table.Claimed(0, 60, 1)
	table.RecordHeartbeat(2, at(1))
	if got := describe(table.Plan(view("a:2", "-"), at(1), at(1), 1)); got != "drop 0" {
		t.Errorf("plan = %q, want %q", got, "drop 0")
	}
}

func TestLease(t *testing.T) {
	l := lease.NewClock(ownership.HoldFor)
	if l.Holds(0, at(0)) || l.Holds(1, at(0)) {
		t.Error("the lease is held before a heartbeat, want not held")
	}
	tests := []struct {
		sent, acked float64 // a heartbeat, none if acked is 0
		epoch       uint64
		now         float64
		want        bool
	}{
		{0, 0.5, 1, 1.9, true},
		{0, 0, 1, 2, false},
		{0, 0, 1, 1.9, true},
		{1.5, 1.6, 1, 3.4, true}, // renewed in time
		{1, 1.7, 1, 3.4, true},   // a heartbeat that was sent earlier is acknowledged later
		{4, 4.1, 1, 4.2, false},  // had expired
		{0, 0, 2, 4.2, true},
		{0, 0, 2, 6, false},
		{5, 7.5, 3, 7.6, false}, // acknowledged after it expired
	}
	for i, tt := range tests {
		if tt.acked > 0 {
			l.Renew(at(tt.sent), at(tt.acked))
		}
		if got := l.Holds(tt.epoch, at(tt.now)); got != tt.want {
			t.Errorf("step %d: Holds(%d) = %v in epoch %d, want %v", i, tt.epoch, got, l.Epoch(), tt.want)
		}
	}
}

// TestLeaseOfASuspendedMachine checks that the lease expires by the wall clock while the
// monotonic clock stands still.
func TestLeaseOfASuspendedMachine(t *testing.T) {
	l := lease.NewClock(ownership.HoldFor)
	now := time.Now()
	l.Renew(now, now)
	if !l.Holds(1, now.Add(time.Second)) {
		t.Error("the lease has expired after 1 s, want it held")
	}
	if l.Holds(1, now.Round(0).Add(time.Hour)) {
		t.Error("the lease is held after 1 h of suspension, want it expired")
	}
}
