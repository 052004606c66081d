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

// serveForeign runs a server without streams, roles or keys.
func serveForeign(t *testing.T) string {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("timed out waiting for the server")
	}
	return ns.ClientURL()
}

func TestContains(t *testing.T) {
	s, _ := serve(t, bustest.OpenDir(t))
	c := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, Server: s})
	p, err := bus.NewPublisher(c, 8)
	if err != nil {
		t.Fatal(err)
	}
	taken, other := bus.DeliverySubject("github", "1"), bus.DeliverySubject("github", "2")
	for range 2 { // a second message of the subject changes nothing
		if _, err := p.Publish(t.Context(), &nats.Msg{Subject: taken}); err != nil {
			t.Fatal(err)
		}
		for subject, want := range map[string]bool{taken: true, other: false} {
			if has, err := c.Contains(t.Context(), bus.StreamDeliveries, subject); err != nil || has != want {
				t.Errorf("Contains(%s) = %t, %v, want %t", subject, has, err, want)
			}
		}
	}
	foreign := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, URL: serveForeign(t)})
	bustest.Eventually(t, "connection", foreign.Connected)
	if has, err := foreign.Contains(t.Context(), bus.StreamDeliveries, taken); err == nil || has {
		t.Errorf("Contains without the stream = %t, %v, want an error", has, err)
	}
}

func TestReadAndDelete(t *testing.T) {
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
				t.Errorf("Read: message %+v, want the subject, header, sequence, data and time as published", m)
			}
			got = append(got, fmt.Sprintf("%s+%d", m.Data, m.Pending))
		}
		return strings.Join(got, " ")
	}
	for limit, want := range map[int]string{10: "1+5 2+4 3+3 4+2 5+1 6+0", 2: "1+5 2+4"} {
		if got := read(limit); got != want {
			t.Errorf("Read with limit %d = %s, want %s", limit, got, want)
		}
	}
	for from, want := range map[uint64]int{0: 6, 1: 6, 5: 2, 6: 1, 7: 0} {
		msgs, err := c.Read(t.Context(), bus.StreamCI, from, 10)
		if err != nil || len(msgs) != want || want > 0 && msgs[want-1].Seq != 6 {
			t.Errorf("Read from %d = %v, %v, want %d messages up to 6", from, msgs, err, want)
		}
	}
	// Each twice: one in the middle, the first, and one that never existed.
	for _, seq := range []uint64{4, 4, 1, 1, 2, 1, 99} {
		if err := c.Delete(t.Context(), bus.StreamCI, seq); err != nil {
			t.Errorf("Delete(%d) = %v, want nil", seq, err)
		}
	}
	if got, want := read(10), "3+2 5+1 6+0"; got != want {
		t.Errorf("Read after Delete = %s, want %s", got, want)
	}
}

// logged collects a log that several goroutines write.
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

// TestFollowOfASlowHandle checks that no message on its way to a slow handler is dropped.
func TestFollowOfASlowHandle(t *testing.T) {
	t.Parallel()
	for _, ahead := range []int{0, 32} {
		t.Run(fmt.Sprint(ahead, " ahead"), func(t *testing.T) { followSlowly(t, ahead) })
	}
}

func followSlowly(t *testing.T, ahead int) {
	t.Parallel()
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
	starts, next := 0, 0
	ctx, done := context.WithCancel(t.Context())
	defer done()
	err = bustest.Follow(ctx, c, bus.FollowConfig{
		Stream: bus.StreamKubernetes, Ahead: ahead, Logger: quiet(), Started: func(uint64) { starts++ },
	}, func(m bus.Message) error {
		if want := strconv.Itoa(next); string(m.Data) != want {
			return fmt.Errorf("got message %s, want %s", m.Data, want)
		}
		if next++; next == all {
			done()
		}
		if next%50 == 0 { // a slow handler: meanwhile, everything that may be on its way arrives
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
	if err != nil || starts != 1 || next != all {
		t.Errorf("Follow = %v after %d messages and %d starts, want nil after %d and 1", err, next, starts, all)
	}
	if text := log.String(); strings.Contains(text, "slow consumer") {
		t.Errorf("log = %q, want no slow consumer", text)
	}
}

func TestReadErrors(t *testing.T) {
	c := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, URL: serveForeign(t)})
	bustest.Eventually(t, "connection", c.Connected)
	if _, err := c.Read(t.Context(), bus.StreamCI, 1, 10); !errors.Is(err, nats.ErrNoResponders) || !strings.Contains(err.Error(), "read stream CI: the bus answered 503") {
		t.Errorf("Read without a stream = %v, want ErrNoResponders with the answer 503", err)
	}
	if err := c.Delete(t.Context(), bus.StreamCI, 1); err == nil || !strings.Contains(err.Error(), "stream not found") {
		t.Errorf("Delete without a stream = %v, want stream not found", err)
	}
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	denied := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, Server: s})
	if _, err := denied.Read(t.Context(), bus.StreamAlerts, 1, 10); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("Read without permission = %v, want ErrDenied", err)
	}
	if _, err := denied.Contains(t.Context(), bus.StreamNotices, "notices.llm"); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("Contains without permission = %v, want ErrDenied", err)
	}
	if err := denied.Delete(t.Context(), bus.StreamAlerts, 1); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("Delete without permission = %v, want ErrDenied", err)
	}
	denied.Close()
	if _, err := denied.Read(t.Context(), bus.StreamCI, 1, 10); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("Read without a connection = %v, want ErrUnreachable", err)
	}
	if err := denied.Delete(t.Context(), bus.StreamCI, 1); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("Delete without a connection = %v, want ErrUnreachable", err)
	}
}

// TestProvisionWidensTheStreamOfResults has a stream with one message for each subject, which
// is how earlier versions created CI.
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
	if got, want := [...]int64{info.Config.MaxMsgsPerSubject, info.Config.MaxMsgs, int64(info.State.Msgs)}, [...]int64{-1, 20, 2}; got != want {
		t.Errorf("limit of a subject, limit of the stream, messages = %v, want %v", got, want)
	}
	msgs, err := c.Read(t.Context(), bus.StreamCI, 1, 10)
	if err != nil || len(msgs) != 2 || string(msgs[0].Data) != "2" || string(msgs[1].Data) != "3" {
		t.Errorf("Read = %v, %v, want messages 2 and 3", msgs, err)
	}
}

// TestRepublishedAlone checks that the answer to a dashboard's request, sent to the subject of
// live alerts, is not taken for a message that the stream republished.
func TestRepublishedAlone(t *testing.T) {
	s, _ := serve(t, bustest.OpenDir(t))
	p, err := bus.NewPublisher(connect(t, bus.Config{Name: "d", Role: bus.RoleDetector, Server: s}), 8)
	if err != nil {
		t.Fatal(err)
	}
	reader := connect(t, bus.Config{Name: "b", Role: bus.RoleDashboard, Server: s})
	attacker := connect(t, bus.Config{Name: "b", Role: bus.RoleDashboard, Server: s})
	live, err := reader.NC.SubscribeSync(bus.AllLiveAlerts)
	if err := errors.Join(err, reader.NC.Flush()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	received, err := live.NextMsg(5 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := bus.Republished(received); err != nil || m.Seq != 1 || m.Subject != "alerts.web.ci.error" {
		t.Errorf("Republished of an alert = %+v, %v, want message 1 of alerts.web.ci.error", m, err)
	}
	if err := attacker.NC.PublishRequest("$JS.API.DIRECT.GET."+bus.StreamAlerts, "live.alerts.x.y.z", []byte(`{"seq":1}`)); err != nil {
		t.Fatal(err)
	}
	if received, err = live.NextMsg(5 * time.Second); err != nil || received.Subject != "live.alerts.x.y.z" {
		t.Fatalf("answer = %+v, %v, want one on live.alerts.x.y.z", received, err)
	}
	if m, err := bus.Republished(received); err == nil {
		t.Errorf("Republished of an answer = %+v, want an error", m)
	}
}
