package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/kubewatch/outbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// box is one that runs on a bus, and what it said.
type box struct {
	*outbox.Box
	t      *testing.T
	conn   *bus.Conn
	cancel context.CancelFunc
	ended  chan error
	// places are for who has waited for the end.
	places []outbox.Place
}

func run(t *testing.T, r *bustest.Rig) *box {
	t.Helper()
	b := &box{t: t, conn: r.Connect(bus.RoleKubewatch), ended: make(chan error, 1)}
	publisher, err := outbox.NewPublisher(b.conn)
	if err != nil {
		t.Fatal(err)
	}
	b.Box = outbox.New(outbox.Config{
		Publisher: publisher, Logger: slog.New(slog.DiscardHandler),
		Reached: func(p outbox.Place) { b.places = append(b.places, p) }, Again: func() {},
	})
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() { b.ended <- b.Run(ctx) }()
	t.Cleanup(cancel)
	return b
}

func (b *box) put(item outbox.Item) {
	b.t.Helper()
	if err := b.Put(b.t.Context(), item); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) end() {
	b.t.Helper()
	b.Close()
	if err := <-b.ended; err != nil {
		b.t.Fatal(err)
	}
}

func message(id string, size int) *nats.Msg {
	return &nats.Msg{
		Subject: "kubernetes.dev.shop.normal.pod.x", Header: nats.Header{jetstream.MsgIDHeader: {id}}, Data: []byte(strings.Repeat("x", size)),
	}
}

// stored are the ids of the stream in order, with their sequences.
func (b *box) stored() (ids []string, seqs map[string]uint64) {
	b.t.Helper()
	all, err := b.conn.StoredFrom(b.t.Context(), bus.StreamKubernetes, 1, 10_000)
	if err != nil {
		b.t.Fatal(err)
	}
	seqs = map[string]uint64{}
	for _, m := range all {
		id := m.Header.Get(jetstream.MsgIDHeader)
		ids = append(ids, id)
		seqs[id] = m.Seq
	}
	return ids, seqs
}

// check says what is wrong with what a box of n items said: each place must be before
// everything that comes after its version.
func (b *box) check(n int) {
	b.t.Helper()
	ids, seqs := b.stored()
	if len(ids) != n {
		b.t.Fatalf("%d messages, want %d", len(ids), n)
	}
	for i, id := range ids {
		if id != strconv.Itoa(i) {
			b.t.Fatalf("message %d is %s", i, id)
		}
	}
	if len(b.places) != n {
		b.t.Fatalf("%d places, want %d", len(b.places), n)
	}
	for i, p := range b.places {
		if p.Version != strconv.Itoa(i) {
			b.t.Fatalf("place %d is %+v", i, p)
		}
		if next, there := seqs[strconv.Itoa(i+1)]; there && p.Sequence >= next {
			b.t.Errorf("after version %d comes %d, the place says %d", i, next, p.Sequence)
		}
	}
}

// TestInOrder: everything is stored in order, more than may be under way, and the place
// moves with it.
func TestInOrder(t *testing.T) {
	r := bustest.Cluster(t, 1)
	r.Provision(bus.Layout{})
	b := run(t, r)
	const n = 3 * outbox.Window
	for i := range n {
		b.put(outbox.Item{Version: strconv.Itoa(i), Then: []*nats.Msg{message(strconv.Itoa(i), 10)}})
	}
	b.end()
	b.check(n)
}

// TestOutage: the bus goes and comes back while much is under way. All is stored once,
// in order.
func TestOutage(t *testing.T) {
	r := bustest.Cluster(t, 1)
	r.Provision(bus.Layout{})
	b := run(t, r)
	const n = 2000
	for i := range n {
		if i == n/2 {
			r.Stop(0)
			go func() {
				time.Sleep(300 * time.Millisecond) // an outage lasts
				r.Start(0)
			}()
		}
		b.put(outbox.Item{Version: strconv.Itoa(i), Then: []*nats.Msg{message(strconv.Itoa(i), 10)}})
	}
	b.end()
	b.check(n)
}

// TestFirst: what is first is stored before the rest is sent, and a message that no bus
// takes holds nothing up.
func TestFirst(t *testing.T) {
	r := bustest.Cluster(t, 1)
	r.Provision(bus.Layout{})
	b := run(t, r)
	stored := 0
	b.put(outbox.Item{First: []*nats.Msg{message("first", 1)}, Then: []*nats.Msg{message("then", 1)}, Version: "1", Stored: func() { stored++ }})
	b.put(outbox.Item{Then: []*nats.Msg{message("large", 3<<20)}, Version: "2", Stored: func() { stored++ }})
	b.put(outbox.Item{Version: "3"})
	b.end()
	if ids, _ := b.stored(); fmt.Sprint(ids) != "[first then]" {
		t.Errorf("%v", ids)
	}
	if stored != 2 || len(b.places) != 3 || b.places[2].Version != "3" {
		t.Errorf("%d, %+v", stored, b.places)
	}
}

// TestSilence: who may say nothing more ends at once, whatever is under way.
func TestSilence(t *testing.T) {
	r := bustest.Cluster(t, 1)
	r.Provision(bus.Layout{})
	b := run(t, r)
	b.put(outbox.Item{Version: "0", Then: []*nats.Msg{message("0", 1)}})
	r.Stop(0)
	b.put(outbox.Item{Version: "1", Then: []*nats.Msg{message("1", 1)}})
	b.cancel()
	if err := <-b.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
