package presence_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience bounds every wait; moment is how long answers are collected.
	patience = 20 * time.Second
	moment   = 300 * time.Millisecond
)

func connect(t *testing.T, b *bustest.Bus, role bus.Role) *bus.Session {
	t.Helper()
	c, err := bus.Connect(t.Context(), b.Config(role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// begin serves in the background, and checks that it ends without an error.
func begin(t *testing.T, c *bus.Session, cfg presence.Config, state func() query.Health) {
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
			t.Error("Serve does not return")
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

// collect requests the health until so many answer.
func collect(t *testing.T, c *bus.Session, n int) []query.Health {
	t.Helper()
	var all []query.Health
	bustest.Eventually(t, fmt.Sprintf("answers of %d services", n), func() bool {
		var err error
		if all, err = presence.Collect(t.Context(), c, moment); err != nil && !errors.Is(err, bus.ErrUnreachable) {
			t.Fatal(err)
		}
		return len(all) == n
	})
	return all
}

// TestEachServiceAnswersForItself: every service answers in its role, two instances of one and
// the requester included.
func TestEachServiceAnswersForItself(t *testing.T) {
	b := bustest.Start(t)
	desk := connect(t, b, bus.RoleGateway)
	bustest.Eventually(t, "connection", desk.Connected)
	if all, err := presence.Collect(t.Context(), desk, moment); err != nil || len(all) != 0 {
		t.Fatalf("Collect without services = %v, %v, want no answers and no error", all, err)
	}
	began := time.Now().Add(-time.Hour)
	for _, s := range []struct {
		id   string
		conn *bus.Session
		name string
		say  query.Health
	}{
		{"i2", connect(t, b, bus.RoleIngest), "ingest", query.Health{Reason: "the bus is unreachable", Ingest: &query.IngestHealth{Pressure: "hard", Circuit: "open"}}},
		{"i1", connect(t, b, bus.RoleIngest), "ingest", query.Health{OK: true, Ingest: &query.IngestHealth{Pressure: "normal", Circuit: "closed", Accepted: 7}}},
		{"d1", connect(t, b, bus.RoleDetector), "detector", query.Health{OK: true, Detector: &query.DetectorHealth{Partitions: []int{0}, PartitionCount: 1}}},
		{"g1", desk, "gateway", query.Health{OK: true, Gateway: &query.GatewayHealth{Client: "test"}}},
		{"b1", connect(t, b, bus.RoleGateway), "dashboard", query.Health{OK: true, Dashboard: &query.DashboardHealth{Readers: 2}}},
	} {
		begin(t, s.conn, presence.Config{Service: s.name, ID: s.id, Version: "v1-dirty", Started: began, Logger: bustest.Quiet()}, func() query.Health { return s.say })
	}
	all := collect(t, desk, 5)
	if got, want := names(all), "dashboard b1, detector d1, gateway g1, ingest i1, ingest i2"; got != want {
		t.Fatalf("%s, not %s", got, want)
	}
	host, _ := os.Hostname()
	for _, h := range all {
		if h.Host != host || h.PID != os.Getpid() || h.Version != "v1-dirty" || !h.Started.Equal(began) || h.Started.Location() != time.UTC {
			t.Errorf("health = %+v, want host %s, PID %d, version v1-dirty and started %s in UTC", h, host, os.Getpid(), began)
		}
	}
	if i := all[3]; !i.OK || i.Ingest == nil || i.Ingest.Accepted != 7 || i.Detector != nil {
		t.Errorf("health of the first ingest = %+v, want ok with 7 events accepted and only its own part", i)
	}
	if i := all[4]; i.OK || i.Reason != "the bus is unreachable" || i.Ingest.Pressure != "hard" {
		t.Errorf("health of the second ingest = %+v, want not ok, the reason that the bus is unreachable, and hard pressure", i)
	}
	// The list of nats micro ls.
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
			t.Fatalf("wait for an answer to a ping: %v: got %v", err, seen)
		}
		var p micro.Ping
		if err := json.Unmarshal(m.Data, &p); err != nil {
			t.Fatal(err)
		}
		seen[p.Name]++
		if p.Metadata["version"] != "v1-dirty" {
			t.Errorf("ping = %+v, want version v1-dirty in its metadata", p)
		}
	}
	if seen["tocsin-ingest"] != 2 || seen["tocsin-detector"] != 1 || seen["tocsin-gateway"] != 1 || seen["tocsin-dashboard"] != 1 {
		t.Errorf("services = %v, want 2 ingest, 1 detector, 1 gateway and 1 dashboard", seen)
	}
}

// TestAnswersAgain: a service that started before the bus answers once that runs, and again
// after the bus restarted at another address.
func TestAnswersAgain(t *testing.T) {
	b := bustest.Start(t)
	b.Stop() // before there is a bus
	ingest, desk := connect(t, b, bus.RoleIngest), connect(t, b, bus.RoleGateway)
	cfg := presence.Identify("ingest", "v1", bustest.Quiet())
	begin(t, ingest, cfg, func() query.Health { return query.Health{OK: true} })
	if _, err := presence.Collect(t.Context(), desk, moment); !errors.Is(err, bus.ErrUnreachable) {
		t.Fatalf("without a bus: %v", err)
	}
	for range 2 {
		b.Start()
		all := collect(t, desk, 1)
		if all[0].ID != cfg.ID || !all[0].OK {
			t.Fatalf("Collect = %+v, want the service %s, ok", all, cfg.ID)
		}
		b.Stop()
		bustest.Eventually(t, "end of the bus", func() bool { return !desk.Connected() && !ingest.Connected() })
	}
}

// TestCollectEnds: Collect returns with its context, and waits for a slow service before.
func TestCollectEnds(t *testing.T) {
	b := bustest.Start(t)
	ingest, desk := connect(t, b, bus.RoleIngest), connect(t, b, bus.RoleGateway)
	bustest.Eventually(t, "connections", func() bool { return desk.Connected() && ingest.Connected() })
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	begin(t, ingest, presence.Identify("ingest", "v1", bustest.Quiet()), func() query.Health {
		asked <- struct{}{}
		<-answer
		return query.Health{OK: true}
	})
	bustest.Eventually(t, "service", func() bool { return ingest.NC.NumSubscriptions() > 9 && ingest.NC.Flush() == nil })
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := presence.Collect(ctx, desk, patience)
		failed <- err
	}()
	<-asked
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("Collect of a cancelled call = %v, want %v", err, context.Canceled)
	}
	close(answer)
	collect(t, desk, 1)
}

// TestForeignAnswers: an answer that is none of a service is left out.
func TestForeignAnswers(t *testing.T) {
	b := bustest.Start(t)
	desk := connect(t, b, bus.RoleGateway)
	for _, text := range []string{"no JSON", "{}", "null", ""} {
		foreign := connect(t, b, bus.RoleDetector)
		bustest.Eventually(t, "connection", foreign.Connected)
		if _, err := foreign.NC.Subscribe(query.SubjectHealth, respond(text)); err != nil {
			t.Fatal(err)
		}
	}
	begin(t, connect(t, b, bus.RoleDetector), presence.Identify("detector", "v1", bustest.Quiet()), func() query.Health { return query.Health{OK: true} })
	if all := collect(t, desk, 1); all[0].Service != "detector" {
		t.Errorf("Collect = %+v, want the detector", all)
	}
}

func respond(text string) nats.MsgHandler {
	return func(m *nats.Msg) { _ = m.Respond([]byte(text)) }
}

// TestClosedForGood: Serve on a closed session returns ErrClosed.
func TestClosedForGood(t *testing.T) {
	b := bustest.Start(t)
	c := connect(t, b, bus.RoleIngest)
	bustest.Eventually(t, "connection", c.Connected)
	done := make(chan error, 1)
	cfg := presence.Identify("ingest", "v1", bustest.Quiet())
	ready := func() query.Health { return query.Health{OK: true} }
	go func() { done <- presence.Serve(t.Context(), c, cfg, ready) }()
	collect(t, connect(t, b, bus.RoleGateway), 1)
	c.Close()
	select {
	case err := <-done:
		if !errors.Is(err, bus.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if err := presence.Serve(t.Context(), c, cfg, ready); err == nil {
		t.Error("Serve on a closed session = nil, want an error")
	}
}

// TestCollectService: one service alone is asked, and the answer comes at once where the number of
// instances is known, or none runs.
func TestCollectService(t *testing.T) {
	b := bustest.Start(t)
	desk := connect(t, b, bus.RoleGateway)
	bustest.Eventually(t, "connection", desk.Connected)
	long := presence.Request{Service: "ingest", First: patience, Next: patience}
	ask := func(q presence.Request) ([]query.Health, bool) {
		t.Helper()
		all, answered, err := presence.CollectService(t.Context(), desk, q)
		if err != nil {
			t.Fatal(err)
		}
		return all, answered
	}
	if all, answered := ask(long); len(all) != 0 || answered {
		t.Errorf("CollectService without instances = %+v, %t, want none, false", all, answered)
	}

	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	for service, role := range map[string]bus.Role{"ingest": bus.RoleIngest, "gateway": bus.RoleGateway} {
		for i := range 2 {
			c := connect(t, b, role)
			bustest.Eventually(t, "connection", c.Connected)
			serving.Go(func() {
				cfg := presence.Config{Service: service, ID: fmt.Sprint(i), Version: "1.2.3", Logger: bustest.Quiet()}
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
	bustest.Eventually(t, "two answers", func() bool {
		all, _ = ask(presence.Request{Service: "ingest", First: moment, Next: moment})
		return len(all) == 2
	})
	all, answered := ask(both)
	if len(all) != 2 || !answered || all[0].Service != "ingest" || all[0].ID != "0" || !all[0].OK || all[1].OK || all[1].Reason != "reason 1" || all[1].PID != os.Getpid() {
		t.Errorf("got %+v, %t, want both ingest services", all, answered)
	}
	one := long
	one.Expected = 1
	if all, _ := ask(one); len(all) != 1 {
		t.Errorf("CollectService that expects 1 answer = %+v, want 1", all)
	}
}
