package ownership_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
)

// world is a bucket with members around it, in steps of time.
type world struct {
	now   time.Duration
	seq   uint64
	views []moment // what the bucket held, the newest last
	nodes []*node
	// lag is how far behind a replica is that answers, delay how long one way takes.
	lag, delay func() time.Duration
	// changed is when a fault began or ended last.
	changed time.Duration
	moved   int
}

type moment struct {
	at   time.Duration
	view ownership.View
}

const step = 50 * time.Millisecond

// node is a member with a clock of its own.
type node struct {
	id             string
	table          *ownership.Table
	lease          ownership.Lease
	offset         time.Duration
	rate           float64
	paused, cut    time.Duration // until when
	dead           bool
	leaving        bool
	ends           time.Duration // when it is leaving
	beatAt, lookAt time.Duration
	beating        bool
	looking        int
	underWay       []*operation
}

// operation reaches the bucket at one time, and its answer the node at another.
type operation struct {
	serve, answer time.Duration
	do            func()
	served        bool
	then          func()
}

func (w *world) current() *ownership.View { return &w.views[len(w.views)-1].view }

// write changes the bucket.
func (w *world) write(change func(v *ownership.View, revision uint64)) uint64 {
	w.seq++
	old := w.current()
	next := ownership.View{Members: maps.Clone(old.Members), Records: maps.Clone(old.Records)}
	change(&next, w.seq)
	w.views = append(w.views, moment{w.now, next})
	return w.seq
}

// read is what a replica shows.
func (w *world) read(lag time.Duration) ownership.View {
	for i := len(w.views) - 1; i > 0; i-- {
		if w.views[i].at <= w.now-lag {
			return w.views[i].view
		}
	}
	return w.views[0].view
}

var epochStart = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

// clock is the node's own time.
func (n *node) clock(now time.Duration) time.Time {
	return epochStart.Add(n.offset + time.Duration(float64(now)*n.rate))
}

func (w *world) send(n *node, do func(), then func()) {
	if w.now < n.cut {
		w.later(n, 500*time.Millisecond, then) // it gives up
		return
	}
	there := w.delay()
	n.underWay = append(n.underWay, &operation{serve: w.now + there, answer: w.now + there + w.delay(), do: do, then: then})
}

func (w *world) later(n *node, d time.Duration, then func()) {
	n.underWay = append(n.underWay, &operation{serve: w.now, answer: w.now + d, do: func() {}, then: then})
}

func (w *world) step() {
	w.now += step
	for _, n := range w.nodes {
		for _, op := range slices.Clone(n.underWay) { // what was sent arrives, whatever became of its sender
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
	for _, op := range slices.Clone(n.underWay) {
		if op.served && op.answer <= w.now {
			n.underWay = slices.DeleteFunc(n.underWay, func(o *operation) bool { return o == op })
			op.then()
		}
	}
	if !n.beating && w.now >= n.beatAt {
		n.beating, n.beatAt = true, w.now+ownership.BeatEvery
		sent, revision := n.clock(w.now), uint64(0)
		w.send(n, func() {
			revision = w.write(func(v *ownership.View, r uint64) {
				v.Members[n.id] = ownership.Member{Revision: r, Leaving: n.leaving}
			})
		}, func() {
			n.beating = false
			if revision > 0 {
				n.lease.Renew(sent, n.clock(w.now))
				n.table.Beat(revision, sent)
			}
		})
	}
	if !n.leaving && n.looking == 0 && w.now >= n.lookAt {
		n.looking, n.lookAt = 1, w.now+ownership.LookEvery
		from, lag := n.clock(w.now), w.lag()
		var view *ownership.View
		w.send(n, func() { v := w.read(lag); view = &v }, func() {
			n.looking--
			if view != nil {
				w.act(n, n.table.Look(*view, from, n.clock(w.now), n.lease.Epoch()))
			}
		})
	}
}

func (w *world) act(n *node, plan ownership.Plan) {
	for _, p := range plan.Drop {
		n.table.Ended(p)
	}
	write := func(p int, owner string, expect uint64, then func(revision uint64)) {
		n.looking++
		revision := uint64(0)
		w.send(n, func() {
			if w.current().Records[p].Revision != expect {
				return
			}
			revision = w.write(func(v *ownership.View, r uint64) { v.Records[p] = ownership.Record{Owner: owner, Revision: r} })
		}, func() { n.looking--; then(revision) })
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
			write(p, "", n.table.Revision(p), func(uint64) { n.table.Ended(p) })
		})
	}
}

// speakers are those that would speak for a partition now.
func (w *world) speakers(p int) (ids []string) {
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

// TestModel: whatever is paused, cut off, killed and started, with clocks that
// differ in time and speed and replicas that lag, no partition ever has two that
// speak for it, and 5 s after the last of it each has one.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions := rapid.SampledFrom([]int{1, 3, 8}).Draw(t, "partitions")
		maxLag := rapid.SampledFrom([]int{0, 200, 5000}).Draw(t, "lag")
		draw := rapid.IntRange(0, 1000)
		w := &world{views: []moment{{0, ownership.View{Members: map[string]ownership.Member{}, Records: map[int]ownership.Record{}}}}}
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
				id: fmt.Sprintf("m%d", (len(w.nodes)*7)%10), offset: time.Duration(draw.Draw(t, "offset")-500) * time.Hour,
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
				checkSpeakers(t, w, partitions)
			}
		}
		calm, w.changed = true, w.now
		if !slices.ContainsFunc(w.nodes, func(n *node) bool { return !n.dead && !n.leaving }) {
			start()
		}
		for _, n := range w.nodes {
			w.changed = max(w.changed, n.paused, n.cut, n.ends)
		}
		// What was under way before is answered late.
		for _, n := range w.nodes {
			for _, op := range n.underWay {
				w.changed = max(w.changed, op.answer)
			}
		}
		last := map[int]time.Duration{}
		for w.now < w.changed+5*time.Second {
			w.step()
			checkSpeakers(t, w, partitions)
			for p := range partitions {
				if len(w.speakers(p)) == 1 {
					last[p] = w.now
				}
			}
		}
		for p := range partitions {
			if w.now-last[p] > time.Second { // it may be on its way from one to another
				t.Fatalf("nobody speaks for partition %d %v after the last change: %+v", p, w.now-w.changed, w.current())
			}
		}
		// And once it is quiet, they are shared out, and stay where they are.
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
			t.Errorf("unevenly shared: %v", counts)
		}
		moved := w.moved
		for w.now < w.changed+2*time.Minute {
			w.step()
			checkSpeakers(t, w, partitions)
		}
		if w.moved != moved {
			t.Errorf("%d more were moved while nothing happened", w.moved-moved)
		}
	})
}

func checkSpeakers(t *rapid.T, w *world, partitions int) {
	for p := range partitions {
		if ids := w.speakers(p); len(ids) > 1 {
			t.Fatalf("at %v partition %d has %v", w.now, p, ids)
		}
	}
}
