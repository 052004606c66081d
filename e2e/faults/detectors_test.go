package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

const (
	// crowdApps send at once, each another open circuit every crowdPause. No storm
	// limit applies to circuits.
	crowdApps  = 12
	crowdPause = 25 * time.Millisecond
	// crowdParts is the number of partitions.
	crowdParts = 8
	// crowdWhilePaused is how many events are accepted while a detector is paused: what
	// it could repeat when it continues.
	crowdWhilePaused = 2400
	// takeoverWithin is twice the promised time, because other tests keep the machine
	// busy.
	takeoverWithin = 10 * time.Second
)

// detectorProcess is one of several detectors.
type detectorProcess struct {
	part
	health string
}

func newDetector(t *testing.T, dir, nats string) *detectorProcess {
	t.Helper()
	d := &detectorProcess{health: fmt.Sprintf("127.0.0.1:%d", e2etest.FreePort(t))}
	d.part = part{name: "detector", bin: e2etest.Binary(t), args: []string{
		"detector", "--nats-url=" + nats, "--health-addr=" + d.health, fmt.Sprintf("--partitions=%d", crowdParts),
	}}
	d.start(t, dir)
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Errorf("detector: %v\n%s", err, d.Log)
		}
		e2etest.CheckLog(t, d.Log)
	})
	return d
}

// owned returns how many partitions it owns, -1 if it does not answer.
func (d *detectorProcess) owned(t *testing.T) int {
	t.Helper()
	n := -1
	for line := range strings.Lines(e2etest.Get(t, "http://"+d.health+"/metrics").Body) {
		_, _ = fmt.Sscanf(line, "tocsin_detector_partitions_owned %d", &n)
	}
	return n
}

// ready returns a condition: it owns n partitions and has caught up.
func (d *detectorProcess) ready(t *testing.T, n int) func() bool {
	return func() bool { return d.owned(t) == n && e2etest.Get(t, "http://"+d.health+"/readyz").Status == 200 }
}

// TestDetectorsTakeOver runs two detectors on 8 partitions, and kills and pauses one
// under load. Every accepted circuit raises one alert. The log has how long each
// takeover took.
func TestDetectorsTakeOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nats := fmt.Sprintf("nats://127.0.0.1:%d", e2etest.FreePort(t))
	ingestAddr := fmt.Sprintf("127.0.0.1:%d", e2etest.FreePort(t))
	server := &part{name: "nats-server", bin: e2etest.NATSServer(t), args: []string{"-js", "-sd", filepath.Join(dir, "nats"), "-a", "127.0.0.1", "-p", nats[len("nats://127.0.0.1:"):]}}
	server.start(t, dir)
	t.Cleanup(func() { _ = server.Stop() })
	one := newDetector(t, dir, nats)
	poll(t, "owner", one.ready(t, crowdParts))
	two := newDetector(t, dir, nats)
	ingest := &part{name: "ingest", bin: e2etest.Binary(t), args: []string{"ingest", "--nats-url=" + nats, "--ingest-addr=" + ingestAddr, fmt.Sprintf("--partitions=%d", crowdParts)}}
	ingest.start(t, dir)
	t.Cleanup(func() {
		if err := ingest.Stop(); err != nil {
			t.Errorf("ingest: %v\n%s", err, ingest.Log)
		}
	})
	sys := &e2etest.System{Bus: &harness.Bus{Process: ingest.Process, StateDir: dir}}
	sys.Bus.IngestURL = "http://" + ingestAddr
	sys.WaitReady(t)

	accepted := map[string]bool{}
	var posted atomic.Int64
	stop, stopped := make(chan struct{}), sync.WaitGroup{}
	stopped.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(crowdPause):
			}
			var events []map[string]any
			for app := range crowdApps {
				events = append(events, map[string]any{
					"kind": "circuit", "app": fmt.Sprintf("crowd%d", app), "circuit": map[string]any{"name": e2etest.Letters(i), "state": "open"},
				})
			}
			a, err := sys.Bus.Post(t.Context(), "/v1/events", events)
			if err != nil || a.Status != 200 {
				t.Errorf("post a circuit: got status %d, %v, want 200", a.Status, err)
				return
			}
			for app := range crowdApps {
				accepted[fmt.Sprintf("crowd%d Circuit %s is open", app, e2etest.Letters(i))] = true
			}
			posted.Add(crowdApps)
		}
	})
	shared := func() bool { return one.ready(t, crowdParts/2)() && two.ready(t, crowdParts/2)() }
	poll(t, "sharing", shared)

	began := time.Now()
	if err := one.Kill(); err != nil {
		t.Fatal(err)
	}
	took(t, "SIGKILL", began, two.ready(t, crowdParts))
	one.start(t, dir)
	poll(t, "sharing", shared)

	began = time.Now()
	signal(t, two, syscall.SIGSTOP)
	took(t, "SIGSTOP", began, one.ready(t, crowdParts))
	before := posted.Load()
	poll(t, "load during the pause", func() bool { return posted.Load()-before >= crowdWhilePaused })
	signal(t, two, syscall.SIGCONT)
	poll(t, "sharing", shared)

	began = time.Now()
	if err := two.Stop(); err != nil {
		t.Fatal(err)
	}
	took(t, "SIGTERM", began, one.ready(t, crowdParts))
	close(stop)
	stopped.Wait()

	delivered := crowdDelivered(t, nats, len(accepted))
	for _, what := range slices.Sorted(maps.Keys(accepted)) {
		if delivered[what] != 1 {
			t.Errorf("delivered %d times: %s, want once", delivered[what], what)
		}
	}
	t.Logf("%d open circuits, each delivered once", len(accepted))
	if t.Failed() {
		t.Logf("one:\n%s\ntwo:\n%s", one.Log, two.Log)
	}
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !harness.Poll(t.Context(), time.Minute, ok) {
		t.Fatalf("timed out waiting for %s", what)
	}
}

func took(t *testing.T, what string, began time.Time, ok func() bool) {
	t.Helper()
	poll(t, "takeover after "+what, ok)
	d := time.Since(began)
	t.Logf("%s: all partitions are owned and caught up after %.1f s", what, d.Seconds())
	if d > takeoverWithin {
		t.Errorf("%s: the takeover took %v, want at most %v", what, d, takeoverWithin)
	}
}

func signal(t *testing.T, d *detectorProcess, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(d.PID(), s); err != nil {
		t.Fatal(err)
	}
}

// crowdDelivered counts the alerts about circuits by app and title, once there are n,
// or when the time is up.
func crowdDelivered(t *testing.T, nats string, n int) map[string]int {
	t.Helper()
	c, err := bus.Connect(t.Context(), bus.Config{Name: t.Name(), Role: bus.RoleGateway, URL: nats, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	delivered := map[string]int{}
	err = bustest.Follow(ctx, c, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: slog.New(slog.DiscardHandler)}, func(m bus.Message) error {
		var a alert.Alert
		if err := json.Unmarshal(m.Data, &a); err != nil {
			return fmt.Errorf("alert %d: %w", m.Seq, err)
		}
		if a.Category == alert.Threshold {
			delivered[a.App+" "+a.Title]++
		}
		if len(delivered) >= n && m.Pending == 0 {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return delivered
}
