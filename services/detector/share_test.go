package detector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/detector"
	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// patience bounds every wait here. A cluster that has lost a leader may take 10 s
// to have another one.
const patience = 90 * time.Second

// eventually waits until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %s", what, patience)
		}
	}
}

// wire is the network between one detector and the bus: it can be cut, or stand
// still and deliver late.
type wire struct {
	to       string
	listener net.Listener
	mu       sync.Mutex
	moved    *sync.Cond
	still    bool
	down     bool
	conns    map[net.Conn]struct{}
	running  sync.WaitGroup
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: strings.TrimPrefix(to, "nats://"), listener: l, conns: map[net.Conn]struct{}{}}
	w.moved = sync.NewCond(&w.mu)
	w.running.Go(w.accept)
	t.Cleanup(func() {
		_ = l.Close()
		w.set(false, true)
		w.running.Wait()
	})
	return w
}

func (w *wire) url() string { return "nats://" + w.listener.Addr().String() }

// set has everything stand still, or connections fail.
func (w *wire) set(still, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.still, w.down = still, down
	if down {
		for c := range w.conns {
			_ = c.Close()
		}
	}
	w.moved.Broadcast()
}

func (w *wire) accept() {
	for {
		c, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.to)
		w.mu.Lock()
		if err != nil || w.down {
			_ = c.Close()
			if err == nil {
				_ = server.Close()
			}
			w.mu.Unlock()
			continue
		}
		w.conns[c], w.conns[server] = struct{}{}, struct{}{}
		w.mu.Unlock()
		w.running.Go(func() { w.carry(c, server) })
		w.running.Go(func() { w.carry(server, c) })
	}
}

func (w *wire) carry(from io.ReadCloser, to io.WriteCloser) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		for w.still && !w.down {
			w.moved.Wait()
		}
		w.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// crowd is a bus with several detectors.
type crowd struct {
	rig    *bustest.Rig
	sender *bus.Publisher
	desk   *bus.Conn
	of     int
	sent   int
}

func newCrowd(t *testing.T, servers, partitions int) *crowd {
	t.Helper()
	c := &crowd{rig: bustest.Cluster(t, servers), of: partitions}
	c.rig.Provision(bus.Layout{Partitions: partitions})
	var err error
	if c.sender, err = bus.NewPublisher(c.rig.Connect(bus.RoleIngest), 256); err != nil {
		t.Fatal(err)
	}
	c.desk = c.rig.Connect(bus.RoleGateway)
	return c
}

// member is a detector of it.
type member struct {
	state *detector.State
	stop  func()
}

func (c *crowd) join(t *testing.T, url string) *member {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := &member{state: &detector.State{}}
	done := make(chan error, 1)
	cfg := c.rig.Config(bus.RoleDetector)
	if url != "" {
		cfg.URL = url
	}
	go func() {
		done <- detector.Run(ctx, detector.Config{
			Bus: cfg, Shared: true, SnapshotEvery: 300 * time.Millisecond,
			Registry: prometheus.NewRegistry(), Logger: logger(t), State: m.state,
		})
	}()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(m.stop)
	return m
}

func (m *member) owns() []int { return m.state.Health().Detector.Partitions }

// ready says that a member owns so many partitions and has caught up.
func (m *member) ready(n int) func() bool {
	return func() bool { h := m.state.Health(); return h.OK && len(h.Detector.Partitions) == n }
}

const apps = 16

// opened is an open circuit, whose alert leaves however many do.
func opened(name string) telemetry.Event {
	return telemetry.Event{Kind: telemetry.KindCircuit, Circuit: &telemetry.Circuit{Name: name, State: telemetry.CircuitOpen}}
}

// send sends one open circuit that was never seen for each app, all in messages of
// their own, and again until the bus takes them.
func (c *crowd) send(t *testing.T) {
	t.Helper()
	c.sendEach(t, opened(word(c.sent)))
	c.sent++
}

// sendEach sends an event for each app.
func (c *crowd) sendEach(t *testing.T, e telemetry.Event) {
	t.Helper()
	for app := range apps {
		e.App = fmt.Sprintf("app%d", app)
		data, err := telemetry.Encode([]telemetry.Event{e})
		if err != nil {
			t.Fatal(err)
		}
		m := &nats.Msg{Subject: bus.TelemetrySubject(e.App, e.Kind), Data: data}
		eventually(t, "room for telemetry", func() bool {
			_, err := c.sender.Publish(t.Context(), m)
			return err == nil
		})
	}
}

// flow sends until the returned function is called.
func (c *crowd) flow(t *testing.T, every time.Duration) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	sending.Go(func() {
		for ctx.Err() == nil {
			c.send(t)
			select {
			case <-ctx.Done():
			case <-time.After(every):
			}
		}
	})
	return sync.OnceFunc(func() { cancel(); sending.Wait() })
}

// told says what an alert says, without what differs by partition.
func told(a alert.Alert) string {
	return fmt.Sprintf("%s %s %s %q %q %d %s", a.App, a.Category, a.DedupKey, a.Title, a.Detail, a.Count, a.Timestamp.Format(time.RFC3339Nano))
}

// expected is what one fold over all of the telemetry tells, but for the ends of
// spikes: they come with the next message of the partition.
func (c *crowd) expected(t *testing.T) map[string]int {
	t.Helper()
	f, want := fold.New(fold.Config{}), map[string]int{}
	c.read(t, bus.StreamTelemetry, func(m bus.Message) {
		if !strings.HasPrefix(m.Subject, "telemetry.") {
			return
		}
		events, err := telemetry.DecodeMessage(m.Data)
		if err != nil {
			t.Error(err)
		}
		for _, a := range f.Apply(fold.Message{Seq: m.Seq, Time: m.Time, Events: events}).Alerts {
			if !a.OnlyResolves() {
				want[told(a)]++
			}
		}
	})
	return want
}

// alerts is what was told.
func (c *crowd) alerts(t *testing.T) map[string]int {
	t.Helper()
	got := map[string]int{}
	c.read(t, bus.StreamAlerts, func(m bus.Message) {
		var a alert.Alert
		if err := json.Unmarshal(m.Data, &a); err != nil {
			t.Error(err)
		}
		if !a.OnlyResolves() {
			got[told(a)]++
		}
	})
	return got
}

func (c *crowd) read(t *testing.T, stream string, each func(bus.Message)) {
	t.Helper()
	reader := c.rig.Connect(bus.RoleDetector)
	defer reader.Close()
	var last uint64
	eventually(t, "stream "+stream, func() bool {
		s, err := reader.JS.Stream(t.Context(), stream)
		if err == nil {
			last = s.CachedInfo().State.LastSeq
		}
		return err == nil
	})
	if last == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := bus.Follow(ctx, reader, bus.FollowConfig{Stream: stream, Logger: quiet()}, func(m bus.Message) error {
		each(m)
		if m.Seq >= last {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// check waits until everything is told, and says what is missing or doubled.
func (c *crowd) check(t *testing.T) {
	t.Helper()
	want := c.expected(t)
	var got map[string]int
	for deadline := time.Now().Add(patience); len(got) < len(want) && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		got = c.alerts(t)
	}
	for _, a := range slices.Sorted(maps.Keys(want)) {
		if got[a] != want[a] {
			t.Errorf("told %d times in place of %d: %s", got[a], want[a], a)
		}
	}
	for a, n := range got {
		if want[a] == 0 {
			t.Errorf("told %d times, and not to be told: %s", n, a)
		}
	}
	t.Logf("%d alerts, each once", len(want))
}

// takeover waits until a member owns everything and has caught up, and says how
// long that took. What is promised, 5 s, package ownership proves for its part; the
// rest depends on how busy the machine is.
func takeover(t *testing.T, what string, by *member, n int) {
	t.Helper()
	began := time.Now()
	eventually(t, "takeover", by.ready(n))
	t.Logf("%s: taken over after %.1f s", what, time.Since(began).Seconds())
}

// TestTakeover: a detector that vanishes, or hangs and says late what it had to
// say, is replaced, and every alert comes once.
func TestTakeover(t *testing.T) {
	const partitions = 4
	c := newCrowd(t, 1, partitions)
	wires := []*wire{newWire(t, c.rig.URL()), newWire(t, c.rig.URL())}
	one := c.join(t, wires[0].url())
	eventually(t, "owner", one.ready(partitions))
	two := c.join(t, wires[1].url())
	eventually(t, "standby", two.ready(0))
	stop := c.flow(t, 20*time.Millisecond)
	eventually(t, "sharing", func() bool { return len(one.owns()) == 2 && two.ready(2)() })

	wires[0].set(false, true)
	takeover(t, "vanished", two, partitions)
	wires[0].set(false, false)
	eventually(t, "return", func() bool { return one.ready(2)() && two.ready(2)() })

	wires[1].set(true, false)
	takeover(t, "hangs", one, partitions)
	time.Sleep(2 * time.Second) // so that there is more to be said late
	wires[1].set(false, false)
	eventually(t, "return", func() bool { return one.ready(2)() && two.ready(2)() })

	began := time.Now()
	two.stop()
	eventually(t, "handing over", one.ready(partitions))
	t.Logf("ended in order: taken over after %.1f s", time.Since(began).Seconds())
	stop()
	c.check(t)
}

// TestClusterRestarts: each server of a cluster goes and comes back, under load.
func TestClusterRestarts(t *testing.T) {
	const partitions = 8
	c := newCrowd(t, 3, partitions)
	one, two := c.join(t, ""), c.join(t, "")
	eventually(t, "owners", func() bool { return len(one.owns())+len(two.owns()) == partitions })
	stop := c.flow(t, 20*time.Millisecond)
	for i := range 3 {
		c.rig.Restart(i)
		eventually(t, "owners", func() bool {
			return len(one.owns())+len(two.owns()) == partitions && one.state.Health().OK && two.state.Health().OK
		})
	}
	stop()
	c.check(t)
}

// TestAnswersOfOwners: any detector answers for all, whoever owns what.
func TestAnswersOfOwners(t *testing.T) {
	const partitions = 4
	c := newCrowd(t, 1, partitions)
	one := c.join(t, "")
	eventually(t, "owner", one.ready(partitions))
	two := c.join(t, "")
	eventually(t, "sharing", func() bool { return one.ready(2)() && two.ready(2)() })
	for range 3 {
		c.send(t)
	}
	c.check(t)
	r := &rig{gateway: c.desk}
	all, err := presence.Collect(t.Context(), c.desk, time.Second)
	if err != nil || len(all) != 2 || !all[0].OK || !all[1].OK || len(all[0].Detector.Partitions) != 2 || all[0].Detector.Of != partitions || all[0].ID == all[1].ID {
		t.Errorf("%+v, %v", all, err)
	}
	for range 8 { // both are asked
		events := ask[query.EventsReply](t, r, query.SubjectEvents, query.EventsRequest{Limit: 200})
		if len(events.Events) != 3*apps || !slices.IsSortedFunc(events.Events, func(a, b query.StoredEvent) int { return b.Received.Compare(a.Received) }) {
			t.Fatalf("%d events", len(events.Events))
		}
		status := ask[query.StatusReply](t, r, query.SubjectStatus, struct{}{})
		if len(status.Apps) != apps || !status.Detector.Ready || status.Detector.Unanswered != nil || status.Detector.Lost != 0 {
			t.Fatalf("%+v", status)
		}
	}
	added := ask[query.NoiseReply](t, r, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseAdd, Pattern: "boom"})
	if added.Added == "" || len(added.Rules) != 1 || added.Rules[0].State != "manual" {
		t.Fatalf("%+v", added)
	}
	c.sendEach(t, boom("boom"))
	eventually(t, "hidden events", func() bool {
		list := ask[query.NoiseReply](t, r, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseList})
		return len(list.Rules) == 1 && list.Rules[0].Hidden == apps
	})
	if removed := ask[query.NoiseReply](t, r, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseRemove, RuleID: added.Added}); len(removed.Rules) != 0 {
		t.Fatalf("%+v", removed)
	}
}

// TestOtherPartitions: where the stream is made anew with another number of them, the
// detectors share that many.
func TestOtherPartitions(t *testing.T) {
	c := newCrowd(t, 1, 2)
	one := c.join(t, "")
	eventually(t, "owner", one.ready(2))
	c.send(t)
	c.check(t)
	admin := c.rig.Connect(bus.RoleProvisioner)
	if err := admin.JS.DeleteStream(t.Context(), bus.StreamTelemetry); err != nil {
		t.Fatal(err)
	}
	c.rig.Provision(bus.Layout{Partitions: 4})
	c.send(t) // wakes nobody up: the subscription is to a stream that is gone
	eventually(t, "owner of others", func() bool {
		h := one.state.Health()
		return h.OK && h.Detector.Of == 4 && len(h.Detector.Partitions) == 4
	})
	eventually(t, "alerts", func() bool { return len(c.alerts(t)) == 2*apps })
}

// TestSaysWhatItWaitsFor: a detector on a bus that nobody has prepared says so to
// who asks for its health, and not only in its log; and one whose bucket is gone.
func TestSaysWhatItWaitsFor(t *testing.T) {
	c := &crowd{rig: bustest.Cluster(t, 1), of: 1}
	one := c.join(t, "")
	says := func(want string) func() bool {
		return func() bool { h := one.state.Health(); return !h.OK && strings.Contains(h.Reason, want) }
	}
	eventually(t, "reason", says("run tocsin provision"))
	c.rig.Provision(bus.Layout{})
	eventually(t, "owner", one.ready(1))
	if why := one.state.Health().Reason; why != "" {
		t.Errorf("it is well, and says %q", why)
	}
	admin := c.rig.Connect(bus.RoleProvisioner)
	if err := admin.JS.DeleteStream(t.Context(), "KV_"+bus.BucketOwners); err != nil {
		t.Fatal(err)
	}
	eventually(t, "reason", says("of bucket "+bus.BucketOwners))
	c.rig.Provision(bus.Layout{})
	eventually(t, "owner again", one.ready(1))
}

// TestSaysWhichKey: one whose key the bus does not know says so.
func TestSaysWhichKey(t *testing.T) {
	c, other := &crowd{rig: bustest.Cluster(t, 1), of: 1}, bustest.Cluster(t, 1)
	c.rig.CredsOf = other.Creds
	one := c.join(t, "")
	eventually(t, "reason", func() bool { return strings.Contains(one.state.Health().Reason, "check TOCSIN_NATS_CREDS") })
}

// TestForgetsWhoLeft: the beat of a detector goes with it, else the bucket would be
// full one day, and nobody could say any more that it is alive.
func TestForgetsWhoLeft(t *testing.T) {
	c := newCrowd(t, 1, 2)
	admin := c.rig.Connect(bus.RoleProvisioner)
	members := func(n int) func() bool {
		return func() bool {
			s, err := admin.JS.Stream(t.Context(), "KV_"+bus.BucketOwners)
			if err != nil {
				return false
			}
			info, err := s.Info(t.Context(), jetstream.WithSubjectFilter("$KV."+bus.BucketOwners+".member.>"))
			return err == nil && len(info.State.Subjects) == n
		}
	}
	one := c.join(t, "")
	eventually(t, "owner", one.ready(2))
	two := c.join(t, "")
	eventually(t, "members", members(2))
	one.stop()
	eventually(t, "end of a member", members(1))
	eventually(t, "owner", two.ready(2))
}
