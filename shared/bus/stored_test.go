package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// serveForeign runs a server that Tocsin has not prepared.
func serveForeign(t *testing.T) string {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("no server")
	}
	return ns.ClientURL()
}

func TestHas(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	c := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, Server: s})
	p, err := bus.NewPublisher(c, 8)
	if err != nil {
		t.Fatal(err)
	}
	taken, other := bus.DeliverySubject("github", "1"), bus.DeliverySubject("github", "2")
	for range 2 { // noted twice is noted
		if _, err := p.Publish(t.Context(), &nats.Msg{Subject: taken}); err != nil {
			t.Fatal(err)
		}
		for subject, want := range map[string]bool{taken: true, other: false} {
			if has, err := c.Contains(t.Context(), bus.StreamDeliveries, subject); err != nil || has != want {
				t.Errorf("%s: %v %v", subject, has, err)
			}
		}
	}
	foreign := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, URL: serveForeign(t)})
	bustest.Eventually(t, "connection", foreign.Connected)
	if has, err := foreign.Contains(t.Context(), bus.StreamDeliveries, taken); err == nil || has {
		t.Errorf("without the stream: %v %v", has, err)
	}
}

func TestStoredAndDelete(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	c := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, Server: s})
	p, err := bus.NewPublisher(c, 8)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i := 1; i <= 6; i++ {
		if _, err := p.Publish(t.Context(), &nats.Msg{
			Subject: "ci.result.custom.abc.build.failure", Data: fmt.Append(nil, i), Header: nats.Header{"X": {"y"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(limit int) string {
		t.Helper()
		msgs, err := c.Read(t.Context(), bus.StreamCI, 1, limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range msgs {
			if m.Subject != "ci.result.custom.abc.build.failure" || m.Header.Get("X") != "y" || fmt.Sprint(m.Seq) != string(m.Data) || m.Time.Before(began.Add(-time.Second)) {
				t.Errorf("%+v", m)
			}
			got = append(got, fmt.Sprintf("%s+%d", m.Data, m.Pending))
		}
		return strings.Join(got, " ")
	}
	if got := read(10); got != "1+5 2+4 3+3 4+2 5+1 6+0" {
		t.Error(got)
	}
	if got := read(2); got != "1+5 2+4" {
		t.Errorf("at the limit: %s", got)
	}
	for from, want := range map[uint64]int{0: 6, 1: 6, 5: 2, 6: 1, 7: 0} {
		msgs, err := c.Read(t.Context(), bus.StreamCI, from, 10)
		if err != nil || len(msgs) != want || want > 0 && msgs[want-1].Seq != 6 {
			t.Errorf("from %d: %v %v", from, msgs, err)
		}
	}
	// Twice each: between others, the first of all, and one that never was.
	for _, seq := range []uint64{4, 4, 1, 1, 2, 1, 99} {
		if err := c.Delete(t.Context(), bus.StreamCI, seq); err != nil {
			t.Errorf("delete %d: %v", seq, err)
		}
	}
	if got := read(10); got != "3+2 5+1 6+0" {
		t.Error(got)
	}
}

// logged is what was logged, of those who log at the same time.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestFollowOfASlowHandle: nothing that is under way to it is dropped.
func TestFollowOfASlowHandle(t *testing.T) {
	for _, ahead := range []int{0, 32} {
		t.Run(fmt.Sprint(ahead, " ahead"), func(t *testing.T) { followSlowly(t, ahead) })
	}
}

func followSlowly(t *testing.T, ahead int) {
	s, _ := serve(t, bustest.OpenDir(t))
	var log logged
	c, err := bus.Connect(t.Context(), bus.Config{Name: "k", Role: bus.RoleKubewatch, Server: s, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	const all = 3000
	for i := range all {
		if _, err := c.JS.PublishAsync("kubernetes.dev.shop.normal.pod.started", fmt.Appendf(nil, "%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	<-c.JS.PublishAsyncComplete()
	began, next := 0, 0
	ctx, done := context.WithCancel(t.Context())
	defer done()
	err = bustest.Follow(ctx, c, bus.FollowConfig{
		Stream: bus.StreamKubernetes, Ahead: ahead, Logger: quiet(), Started: func(uint64) { began++ },
	}, func(m bus.Message) error {
		if want := strconv.Itoa(next); string(m.Data) != want {
			return fmt.Errorf("%s, not %s", m.Data, want)
		}
		if next++; next == all {
			done()
		}
		if next%50 == 0 { // it takes its time: meanwhile comes all that may be under way
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
	if err != nil || began != 1 || next != all {
		t.Errorf("began %d times, came to %d: %v", began, next, err)
	}
	if text := log.String(); strings.Contains(text, "slow consumer") {
		t.Error(text)
	}
}

func TestStoredSaysWhatIsWrong(t *testing.T) {
	c := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, URL: serveForeign(t)})
	bustest.Eventually(t, "connection", c.Connected)
	if _, err := c.Read(t.Context(), bus.StreamCI, 1, 10); !errors.Is(err, nats.ErrNoResponders) || !strings.Contains(err.Error(), "read stream CI: the bus answered 503") {
		t.Errorf("without a stream: %v", err)
	}
	if err := c.Delete(t.Context(), bus.StreamCI, 1); err == nil || !strings.Contains(err.Error(), "stream not found") {
		t.Errorf("without a stream: %v", err)
	}
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	denied := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, Server: s})
	if _, err := denied.Read(t.Context(), bus.StreamAlerts, 1, 10); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("without permission: %v", err)
	}
	if _, err := denied.Contains(t.Context(), bus.StreamNotices, "notices.llm"); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("without permission: %v", err)
	}
	if err := denied.Delete(t.Context(), bus.StreamAlerts, 1); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("without permission: %v", err)
	}
	denied.Close()
	if _, err := denied.Read(t.Context(), bus.StreamCI, 1, 10); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("without a connection: %v", err)
	}
	if err := denied.Delete(t.Context(), bus.StreamCI, 1); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("without a connection: %v", err)
	}
}

// TestProvisionWidensTheStreamOfResults has a stream with one message a
// subject, which is how CI was once made, and in use.
func TestProvisionWidensTheStreamOfResults(t *testing.T) {
	c := connect(t, bus.Config{Name: "p", Role: bus.RoleIngest, URL: serveForeign(t)})
	bustest.Eventually(t, "connection", c.Connected)
	publish := func(data string) {
		t.Helper()
		if _, err := c.JS.Publish(t.Context(), "ci.result.custom.abc.build.failure", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	old, err := c.JS.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: bus.StreamCI, Subjects: []string{"ci.result.>"}, MaxMsgs: 10, MaxMsgsPerSubject: 1,
		MaxBytes: 16 << 20, AllowDirect: true, Duplicates: 2 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	publish("1")
	publish("2")
	for range 2 { // the second finds nothing to do
		if err := bus.Provision(t.Context(), c, bus.Layout{}, quiet()); err != nil {
			t.Fatal(err)
		}
	}
	publish("3")
	info, err := old.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Config.MaxMsgsPerSubject != -1 || info.Config.MaxMsgs != 20 || info.State.Msgs != 2 {
		t.Errorf("%d a subject, %d in all, %d stored", info.Config.MaxMsgsPerSubject, info.Config.MaxMsgs, info.State.Msgs)
	}
	msgs, err := c.Read(t.Context(), bus.StreamCI, 1, 10)
	if err != nil || len(msgs) != 2 || string(msgs[0].Data) != "2" || string(msgs[1].Data) != "3" {
		t.Errorf("%v %v", msgs, err)
	}
}

// TestRepublishedAlone: a dashboard can have what it asks for answered to where the
// others listen. That is told from what a stream has published again.
func TestRepublishedAlone(t *testing.T) {
	s, _ := serve(t, bustest.OpenDir(t))
	p, err := bus.NewPublisher(connect(t, bus.Config{Name: "d", Role: bus.RoleDetector, Server: s}), 8)
	if err != nil {
		t.Fatal(err)
	}
	listens := connect(t, bus.Config{Name: "b", Role: bus.RoleDashboard, Server: s})
	asks := connect(t, bus.Config{Name: "b", Role: bus.RoleDashboard, Server: s})
	live, err := listens.NC.SubscribeSync(bus.AllLiveAlerts)
	if err != nil || listens.NC.Flush() != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	heard, err := live.NextMsg(5 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := bus.Republished(heard); err != nil || m.Seq != 1 || m.Subject != "alerts.web.ci.error" {
		t.Errorf("%+v %v", m, err)
	}
	if err := asks.NC.PublishRequest("$JS.API.DIRECT.GET."+bus.StreamAlerts, "live.alerts.x.y.z", []byte(`{"seq":1}`)); err != nil {
		t.Fatal(err)
	}
	if heard, err = live.NextMsg(5 * time.Second); err != nil || heard.Subject != "live.alerts.x.y.z" {
		t.Fatalf("%+v %v", heard, err)
	}
	if m, err := bus.Republished(heard); err == nil {
		t.Errorf("an answer counts as an alert: %+v", m)
	}
}
