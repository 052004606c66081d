package presence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience bounds every wait of these tests, moment is how long is asked.
	patience = 20 * time.Second
	moment   = 300 * time.Millisecond
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openDir(t *testing.T) statedir.Dir {
	t.Helper()
	dir, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// serve runs a bus on dir until the returned function is called.
func serve(t *testing.T, dir statedir.Dir) (stop func()) {
	t.Helper()
	lock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, Addr: "127.0.0.1:0", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Announce(statedir.Runtime{PID: os.Getpid(), NATSURL: s.URL()}); err != nil {
		t.Fatal(err)
	}
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		s.Close()
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func connect(t *testing.T, dir statedir.Dir, role bus.Role) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(t.Context(), bus.ConnConfig{Name: "presence", Role: role, Dir: dir, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %s", what, patience)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// begin serves in the background, and sees to it that it ends well.
func begin(t *testing.T, c *bus.Conn, cfg presence.Config, state func() query.Health) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- presence.Serve(ctx, c, cfg, state) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("it does not end")
		}
	})
}

func names(all []query.Health) string {
	var list []string
	for _, h := range all {
		list = append(list, h.Service+" "+h.ID)
	}
	return strings.Join(list, ", ")
}

// collect asks until so many answer.
func collect(t *testing.T, c *bus.Conn, n int) []query.Health {
	t.Helper()
	var all []query.Health
	eventually(t, fmt.Sprintf("answers of %d services", n), func() bool {
		var err error
		if all, err = presence.Collect(t.Context(), c, moment); err != nil && !errors.Is(err, bus.ErrAway) {
			t.Fatal(err)
		}
		return len(all) == n
	})
	return all
}

// TestEachServiceAnswersForItself: in the roles that services have on the bus, also
// two of one kind, and who asks is among them.
func TestEachServiceAnswersForItself(t *testing.T) {
	dir := openDir(t)
	serve(t, dir)
	desk := connect(t, dir, bus.RoleGateway)
	eventually(t, "connection", desk.Connected)
	if all, err := presence.Collect(t.Context(), desk, moment); err != nil || len(all) != 0 {
		t.Fatalf("of nobody: %v %v", all, err)
	}
	began := time.Now().Add(-time.Hour)
	for _, s := range []struct {
		id   string
		conn *bus.Conn
		name string
		say  query.Health
	}{
		{"i2", connect(t, dir, bus.RoleIngest), "ingest", query.Health{Reason: "the bus is away", Ingest: &query.IngestHealth{Pressure: "hard", Circuit: "open"}}},
		{"i1", connect(t, dir, bus.RoleIngest), "ingest", query.Health{OK: true, Ingest: &query.IngestHealth{Pressure: "normal", Circuit: "closed", Accepted: 7}}},
		{"d1", connect(t, dir, bus.RoleDetector), "detector", query.Health{OK: true, Detector: &query.DetectorHealth{Partitions: []int{0}, Of: 1}}},
		{"g1", desk, "gateway", query.Health{OK: true, Gateway: &query.GatewayHealth{Client: "test"}}},
		{"b1", connect(t, dir, bus.RoleGateway), "dashboard", query.Health{OK: true, Dashboard: &query.DashboardHealth{Readers: 2}}},
	} {
		begin(t, s.conn, presence.Config{Service: s.name, ID: s.id, Version: "v1-dirty", Started: began, Logger: quiet()}, func() query.Health { return s.say })
	}
	all := collect(t, desk, 5)
	if got, want := names(all), "dashboard b1, detector d1, gateway g1, ingest i1, ingest i2"; got != want {
		t.Fatalf("%s, not %s", got, want)
	}
	host, _ := os.Hostname()
	for _, h := range all {
		if h.Host != host || h.PID != os.Getpid() || h.Version != "v1-dirty" || !h.Started.Equal(began) || h.Started.Location() != time.UTC {
			t.Errorf("%+v", h)
		}
	}
	if i := all[3]; !i.OK || i.Ingest == nil || i.Ingest.Accepted != 7 || i.Detector != nil {
		t.Errorf("%+v", i)
	}
	if i := all[4]; i.OK || i.Reason != "the bus is away" || i.Ingest.Pressure != "hard" {
		t.Errorf("%+v", i)
	}
	// What nats micro ls shows.
	reply := desk.NC.NewInbox()
	pongs, err := desk.NC.SubscribeSync(reply)
	if err != nil {
		t.Fatal(err)
	}
	if err := desk.NC.PublishRequest("$SRV.PING", reply, nil); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for range 5 {
		m, err := pongs.NextMsg(patience)
		if err != nil {
			t.Fatalf("%v: only %v", err, seen)
		}
		var p micro.Ping
		if err := json.Unmarshal(m.Data, &p); err != nil {
			t.Fatal(err)
		}
		seen[p.Name]++
		if p.Metadata["version"] != "v1-dirty" {
			t.Errorf("%+v", p)
		}
	}
	if seen["tocsin-ingest"] != 2 || seen["tocsin-detector"] != 1 || seen["tocsin-gateway"] != 1 || seen["tocsin-dashboard"] != 1 {
		t.Errorf("%v", seen)
	}
}

// TestAnswersAgain: who began before there was a bus answers once there is, and
// again after it came back at another address.
func TestAnswersAgain(t *testing.T) {
	dir := openDir(t)
	intake, desk := connect(t, dir, bus.RoleIngest), connect(t, dir, bus.RoleGateway)
	cfg := presence.Identify("ingest", "v1", quiet())
	begin(t, intake, cfg, func() query.Health { return query.Health{OK: true} })
	if _, err := presence.Collect(t.Context(), desk, moment); !errors.Is(err, bus.ErrAway) {
		t.Fatalf("without a bus: %v", err)
	}
	for range 2 {
		stop := serve(t, dir)
		all := collect(t, desk, 1)
		if all[0].ID != cfg.ID || !all[0].OK {
			t.Fatalf("%+v", all)
		}
		stop()
		eventually(t, "end of the bus", func() bool { return !desk.Connected() && !intake.Connected() })
	}
}

// TestCollectEnds with who asks, and not before the time is up: a slow service is
// waited for.
func TestCollectEnds(t *testing.T) {
	dir := openDir(t)
	serve(t, dir)
	intake, desk := connect(t, dir, bus.RoleIngest), connect(t, dir, bus.RoleGateway)
	eventually(t, "connections", func() bool { return desk.Connected() && intake.Connected() })
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	begin(t, intake, presence.Identify("ingest", "v1", quiet()), func() query.Health {
		asked <- struct{}{}
		<-answer
		return query.Health{OK: true}
	})
	eventually(t, "service", func() bool { return intake.NC.NumSubscriptions() > 9 && intake.NC.Flush() == nil })
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := presence.Collect(ctx, desk, patience)
		failed <- err
	}()
	<-asked
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(answer)
	collect(t, desk, 1)
}

// TestForeignAnswers: what is no answer of ours is left out.
func TestForeignAnswers(t *testing.T) {
	dir := openDir(t)
	serve(t, dir)
	desk := connect(t, dir, bus.RoleGateway)
	for _, text := range []string{"no JSON", "{}", "null", ""} {
		foreign := connect(t, dir, bus.RoleDetector)
		eventually(t, "connection", foreign.Connected)
		if _, err := foreign.NC.Subscribe(query.SubjectHealth, respond(text)); err != nil {
			t.Fatal(err)
		}
	}
	begin(t, connect(t, dir, bus.RoleDetector), presence.Identify("detector", "v1", quiet()), func() query.Health { return query.Health{OK: true} })
	if all := collect(t, desk, 1); all[0].Service != "detector" {
		t.Errorf("%+v", all)
	}
}

func respond(text string) nats.MsgHandler {
	return func(m *nats.Msg) { _ = m.Respond([]byte(text)) }
}

// TestClosedForGood: a connection that was closed is said to be.
func TestClosedForGood(t *testing.T) {
	dir := openDir(t)
	serve(t, dir)
	c := connect(t, dir, bus.RoleIngest)
	eventually(t, "connection", c.Connected)
	done := make(chan error, 1)
	cfg := presence.Identify("ingest", "v1", quiet())
	ready := func() query.Health { return query.Health{OK: true} }
	go func() { done <- presence.Serve(t.Context(), c, cfg, ready) }()
	collect(t, connect(t, dir, bus.RoleGateway), 1)
	c.Close()
	select {
	case err := <-done:
		if !errors.Is(err, presence.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if err := presence.Serve(t.Context(), c, cfg, ready); err == nil {
		t.Error("it serves on a closed connection")
	}
}

// TestOf asks one service alone: what comes back is what its instances say, at once
// where their number is known, and at once where there are none.
func TestOf(t *testing.T) {
	dir := openDir(t)
	serve(t, dir)
	desk := connect(t, dir, bus.RoleGateway)
	eventually(t, "connection", desk.Connected)
	long := presence.Question{Service: "ingest", First: patience, Next: patience}
	ask := func(q presence.Question) ([]query.Health, bool) {
		t.Helper()
		all, answered, err := presence.Of(t.Context(), desk, q)
		if err != nil {
			t.Fatal(err)
		}
		return all, answered
	}
	if all, answered := ask(long); len(all) != 0 || answered {
		t.Errorf("nobody is there: got %+v, %t", all, answered)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	for service, role := range map[string]bus.Role{"ingest": bus.RoleIngest, "gateway": bus.RoleGateway} {
		for i := range 2 {
			c := connect(t, dir, role)
			eventually(t, "connection", c.Connected)
			serving.Go(func() {
				cfg := presence.Config{Service: service, ID: fmt.Sprint(i), Version: "1.2.3", Logger: quiet()}
				err := presence.Serve(ctx, c, cfg, func() query.Health { return query.Health{OK: i == 0, Reason: "reason " + cfg.ID} })
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	both := long
	both.Expected = 2
	var all []query.Health
	eventually(t, "two answers", func() bool {
		all, _ = ask(presence.Question{Service: "ingest", First: moment, Next: moment})
		return len(all) == 2
	})
	all, answered := ask(both)
	if len(all) != 2 || !answered || all[0].Service != "ingest" || all[0].ID != "0" || !all[0].OK || all[1].OK || all[1].Reason != "reason 1" || all[1].PID != os.Getpid() {
		t.Errorf("got %+v, %t, want both intakes", all, answered)
	}
	one := long
	one.Expected = 1
	if all, _ := ask(one); len(all) != 1 {
		t.Errorf("one is expected: got %+v", all)
	}
}
