package outbox_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/kubewatch/outbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// box is a running outbox and its watermarks.
type box struct {
	*outbox.Box
	t      *testing.T
	conn   *bus.Session
	cancel context.CancelFunc
	ended  chan error
	// resent receives when messages are sent again.
	resent chan struct{}
	// watermarks may be read after the end of Run.
	watermarks []outbox.Watermark
}

func run(t *testing.T, r *bustest.Rig) *box {
	t.Helper()
	b := &box{t: t, conn: r.Connect(bus.RoleKubewatch), ended: make(chan error, 1), resent: make(chan struct{}, 1)}
	publisher, err := outbox.NewPublisher(b.conn)
	if err != nil {
		t.Fatal(err)
	}
	b.Box = outbox.New(outbox.Config{
		Publisher: publisher, Logger: slog.New(slog.DiscardHandler),
		Advanced: func(w outbox.Watermark) { b.watermarks = append(b.watermarks, w) },
		Resent: func() {
			select {
			case b.resent <- struct{}{}:
			default:
			}
		},
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

// stored returns the message ids in the stream in order, and their sequences.
func (b *box) stored() (ids []string, seqs map[string]uint64) {
	b.t.Helper()
	all, err := b.conn.Read(b.t.Context(), bus.StreamKubernetes, 1, 10_000)
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

// check checks the stream and the watermarks of a box after n items: each watermark must be
// below all messages after its version.
func (b *box) check(n int) {
	b.t.Helper()
	ids, seqs := b.stored()
	if len(ids) != n {
		b.t.Fatalf("%d messages stored, want %d", len(ids), n)
	}
	for i, id := range ids {
		if id != strconv.Itoa(i) {
			b.t.Fatalf("message %d has the id %s, want %d", i, id, i)
		}
	}
	if len(b.watermarks) != n {
		b.t.Fatalf("%d watermarks, want %d", len(b.watermarks), n)
	}
	for i, w := range b.watermarks {
		if w.Version != strconv.Itoa(i) {
			b.t.Fatalf("watermark %d has the version %s, want %d", i, w.Version, i)
		}
		if next, ok := seqs[strconv.Itoa(i+1)]; ok && w.Sequence >= next {
			b.t.Errorf("watermark of version %d has sequence %d, want less than %d, the next message", i, w.Sequence, next)
		}
	}
}

// TestInOrder checks that more items than may be in flight are stored in order, and that the
// watermark advances with them.
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

// TestOutage checks that all items are stored once and in order if the bus restarts while many
// are in flight.
func TestOutage(t *testing.T) {
	r := bustest.Cluster(t, 1)
	r.Provision(bus.Layout{})
	b := run(t, r)
	const n = 2000
	for i := range n {
		if i == n/2 {
			r.Stop(0)
			go func() {
				<-b.resent // the box has noticed the outage
				r.Start(0)
			}()
		}
		b.put(outbox.Item{Version: strconv.Itoa(i), Then: []*nats.Msg{message(strconv.Itoa(i), 10)}})
	}
	b.end()
	b.check(n)
}

// TestFirst checks that First is stored before Then is sent, and that a message that the bus
// refuses is skipped.
func TestFirst(t *testing.T) {
	r := bustest.Cluster(t, 1)
	r.Provision(bus.Layout{})
	b := run(t, r)
	stored := 0
	b.put(outbox.Item{First: []*nats.Msg{message("first", 1)}, Then: []*nats.Msg{message("then", 1)}, Version: "1", Stored: func() { stored++ }})
	b.put(outbox.Item{Then: []*nats.Msg{message("large", 3<<20)}, Version: "2", Stored: func() { stored++ }})
	b.put(outbox.Item{Version: "3"})
	b.end()
	ids, _ := b.stored()
	if diff := cmp.Diff([]string{"first", "then"}, ids); diff != "" {
		t.Errorf("stored messages (-want +got):\n%s", diff)
	}
	if stored != 2 {
		t.Errorf("Stored was called %d times, want 2", stored)
	}
	var versions []string
	for _, w := range b.watermarks {
		versions = append(versions, w.Version)
	}
	if diff := cmp.Diff([]string{"1", "2", "3"}, versions); diff != "" {
		t.Errorf("versions of the watermarks (-want +got):\n%s", diff)
	}
}

// TestAbort checks that Run returns at once when its context ends, also with messages in
// flight.
func TestAbort(t *testing.T) {
	r := bustest.Cluster(t, 1)
	r.Provision(bus.Layout{})
	b := run(t, r)
	b.put(outbox.Item{Version: "0", Then: []*nats.Msg{message("0", 1)}})
	r.Stop(0)
	b.put(outbox.Item{Version: "1", Then: []*nats.Msg{message("1", 1)}})
	b.cancel()
	if err := <-b.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want %v", err, context.Canceled)
	}
}
