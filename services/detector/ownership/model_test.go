package ownership_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
)

// world simulates a bucket and its members in steps of time.
type world struct {
	now   time.Duration
	seq   uint64
	views []version // contents of the bucket, newest last
	nodes []*node
	// lag is the lag of the replica that answers, delay the latency of one direction.
	lag, delay func() time.Duration
	// changed is when the last fault began or ended.
	changed time.Duration
	moved   int
}

type version struct {
	at   time.Duration
	view ownership.View
}

const step = 50 * time.Millisecond

// node is a member with a clock of its own.
type node struct {
	id          string
	table       *ownership.Table
	lease       lease.Clock
	offset      time.Duration
	rate        float64
	paused, cut time.Duration // end of the pause, and of the loss of the network
	dead        bool
	leaving     bool
	ends        time.Duration // when a leaving node stops
	heartbeatAt time.Duration
	readAt      time.Duration
	sending     bool
	pending     int
	operations  []*operation
}

// operation is a request to the bucket: when it is served and when its answer arrives.
type operation struct {
	serve, answer time.Duration
	do            func()
	served        bool
	then          func()
}

func (w *world) current() *ownership.View { return &w.views[len(w.views)-1].view }

// write changes the bucket and returns the new revision.
func (w *world) write(change func(v *ownership.View, revision uint64)) uint64 {
	w.seq++
	old := w.current()
	next := ownership.View{Members: maps.Clone(old.Members), Records: maps.Clone(old.Records)}
	change(&next, w.seq)
	w.views = append(w.views, version{w.now, next})
	return w.seq
}

// read returns the content of a replica with a lag.
func (w *world) read(lag time.Duration) ownership.View {
	for i := len(w.views) - 1; i > 0; i-- {
		if w.views[i].at <= w.now-lag {
			return w.views[i].view
		}
	}
	return w.views[0].view
}

var epochStart = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

// clock returns the node's own time.
func (n *node) clock(now time.Duration) time.Time {
	return epochStart.Add(n.offset + time.Duration(float64(now)*n.rate))
}

func (w *world) send(n *node, do func(), then func()) {
	if w.now < n.cut {
		w.later(n, 500*time.Millisecond, then) // the request times out
		return
	}
	there := w.delay()
	n.operations = append(n.operations, &operation{serve: w.now + there, answer: w.now + there + w.delay(), do: do, then: then})
}

func (w *world) later(n *node, d time.Duration, then func()) {
	n.operations = append(n.operations, &operation{serve: w.now, answer: w.now + d, do: func() {}, then: then})
}

func (w *world) step() {
	w.now += step
	for _, n := range w.nodes {
		for _, op := range slices.Clone(n.operations) { // a request arrives even if its sender has died
			if !op.served && op.serve <= w.now {
				op.do()
				op.served = true
			}
		}
		n.dead = n.dead || n.leaving && w.now >= n.ends
		if n.dead || w.now < n.paused {
			continue
		}
		w.run(n)
	}
}

func (w *world) run(n *node) {
	for _, op := range slices.Clone(n.operations) {
		if op.served && op.answer <= w.now {
			n.operations = slices.DeleteFunc(n.operations, func(o *operation) bool { return o == op })
			op.then()
		}
	}
	if !n.sending && w.now >= n.heartbeatAt {
		n.sending, n.heartbeatAt = true, w.now+ownership.HeartbeatEvery
		sent, revision := n.clock(w.now), uint64(0)
		w.send(n, func() {
			revision = w.write(func(v *ownership.View, r uint64) {
				v.Members[n.id] = ownership.Member{Revision: r, Leaving: n.leaving}
			})
		}, func() {
			n.sending = false
			if revision > 0 {
				n.lease.Renew(sent, n.clock(w.now))
				n.table.RecordHeartbeat(revision, sent)
			}
		})
	}
	if !n.leaving && n.pending == 0 && w.now >= n.readAt {
		n.pending, n.readAt = 1, w.now+ownership.ReadEvery
		requested, lag := n.clock(w.now), w.lag()
		var view *ownership.View
		w.send(n, func() { v := w.read(lag); view = &v }, func() {
			n.pending--
			if view != nil {
				w.act(n, n.table.Plan(*view, requested, n.clock(w.now), n.lease.Epoch()))
			}
		})
	}
}

func (w *world) act(n *node, plan ownership.Plan) {
	for _, p := range plan.Drop {
		n.table.RecordEnd(p)
	}
	write := func(p int, owner string, expect uint64, then func(revision uint64)) {
		n.pending++
		revision := uint64(0)
		w.send(n, func() {
			if w.current().Records[p].Revision != expect {
				return
			}
			revision = w.write(func(v *ownership.View, r uint64) { v.Records[p] = ownership.Record{Owner: owner, Revision: r} })
		}, func() { n.pending--; then(revision) })
	}
	for _, c := range plan.Claim {
		epoch := n.lease.Epoch()
		write(c.Partition, n.id, c.Revision, func(revision uint64) {
			if revision > 0 {
				n.table.Claimed(c.Partition, revision, epoch)
				w.moved++
			}
			if n.leaving {
				w.act(n, ownership.Plan{Release: n.table.Leave()})
			}
		})
	}
	for _, p := range plan.Release {
		w.later(n, 200*time.Millisecond, func() {
			write(p, "", n.table.Revision(p), func(uint64) { n.table.RecordEnd(p) })
		})
	}
}

// holders returns the members that hold a partition now.
func (w *world) holders(p int) (ids []string) {
	for _, n := range w.nodes {
		if n.dead || w.now < n.paused {
			continue
		}
		if epoch, ok := n.table.Held()[p]; ok && n.lease.Holds(epoch, n.clock(w.now)) {
			ids = append(ids, n.id)
		}
	}
	return ids
}

// TestModel checks that no partition ever has two holders, and that each has one 5 s after
// the last fault. Members are paused, cut off, killed and started at random; their clocks
// differ in time and speed, and replicas lag.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions := rapid.SampledFrom([]int{1, 3, 8}).Draw(t, "partitions")
		maxLag := rapid.SampledFrom([]int{0, 200, 5000}).Draw(t, "lag")
		draw := rapid.IntRange(0, 1000)
		w := &world{views: []version{{0, ownership.View{Members: map[string]ownership.Member{}, Records: map[int]ownership.Record{}}}}}
		calm := false
		w.lag = func() time.Duration {
			if calm || maxLag == 0 {
				return 0
			}
			return time.Duration(draw.Draw(t, "lag of")*maxLag/1000) * time.Millisecond
		}
		w.delay = func() time.Duration {
			if calm {
				return time.Millisecond
			}
			return time.Duration(rapid.SampledFrom([]int{1, 1, 1, 100, 600, 2500}).Draw(t, "delay")) * time.Millisecond
		}
		start := func() {
			w.nodes = append(w.nodes, &node{
				lease: lease.NewClock(ownership.HoldFor),
				id:    fmt.Sprintf("m%d", (len(w.nodes)*7)%10), offset: time.Duration(draw.Draw(t, "offset")-500) * time.Hour,
				rate: []float64{1, 1.01, 0.99}[len(w.nodes)%3],
			})
			n := w.nodes[len(w.nodes)-1]
			n.table = ownership.New(n.id, partitions)
			w.changed = w.now
		}
		start()
		for range rapid.IntRange(1, 12).Draw(t, "faults") {
			victim := w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "victim")]
			span := time.Duration(rapid.IntRange(1, 80).Draw(t, "span")) * 100 * time.Millisecond
			switch rapid.SampledFrom([]string{"start", "pause", "cut", "kill", "leave", "nothing"}).Draw(t, "fault") {
			case "start":
				if len(w.nodes) < 6 {
					start()
				}
			case "pause":
				victim.paused = w.now + span
			case "cut":
				victim.cut = w.now + span
			case "kill":
				victim.dead = true
			case "leave":
				victim.leaving, victim.ends = true, w.now+4*time.Second
				w.act(victim, ownership.Plan{Release: victim.table.Leave()})
			}
			for range rapid.IntRange(0, 100).Draw(t, "steps") {
				w.step()
				checkHolders(t, w, partitions)
			}
		}
		calm, w.changed = true, w.now
		if !slices.ContainsFunc(w.nodes, func(n *node) bool { return !n.dead && !n.leaving }) {
			start()
		}
		for _, n := range w.nodes {
			w.changed = max(w.changed, n.paused, n.cut, n.ends)
		}
		// Requests sent before are answered late.
		for _, n := range w.nodes {
			for _, op := range n.operations {
				w.changed = max(w.changed, op.answer)
			}
		}
		last := map[int]time.Duration{}
		for w.now < w.changed+5*time.Second {
			w.step()
			checkHolders(t, w, partitions)
			for p := range partitions {
				if len(w.holders(p)) == 1 {
					last[p] = w.now
				}
			}
		}
		for p := range partitions {
			if w.now-last[p] > time.Second { // it may be moving to another member
				t.Fatalf("partition %d has no holder %v after the last fault, want one: %+v", p, w.now-w.changed, w.current())
			}
		}
		// Without faults the partitions are balanced and then stay where they are.
		for w.now < w.changed+time.Minute {
			w.step()
		}
		counts := map[string]int{}
		for _, n := range w.nodes {
			if !n.dead && !n.leaving {
				counts[n.id] = len(n.table.Held())
			}
		}
		most, least := slices.Max(slices.Collect(maps.Values(counts))), slices.Min(slices.Collect(maps.Values(counts)))
		if most-least > 1 {
			t.Errorf("partitions by member = %v, want counts that differ by at most 1", counts)
		}
		moved := w.moved
		for w.now < w.changed+2*time.Minute {
			w.step()
			checkHolders(t, w, partitions)
		}
		if w.moved != moved {
			t.Errorf("%d partitions moved without a fault, want 0", w.moved-moved)
		}
	})
}

func checkHolders(t *rapid.T, w *world, partitions int) {
	for p := range partitions {
		if ids := w.holders(p); len(ids) > 1 {
			t.Fatalf("at %v partition %d has the holders %v, want at most one", w.now, p, ids)
		}
	}
}
