// Package cluster tests faults of the parts of a cluster under load: no event is lost
// and no alert delivered twice.
package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness/containers"
	"github.com/tocsin-bus/tocsin/e2e/harness/traffic"
)

const (
	// takenOverIn bounds how long the partitions of a dead detector may have no owner.
	takenOverIn = 5 * time.Second
	// downFor bounds how long a killed process stays down, see missesAlert.
	downFor = 3 * time.Second
	// cutFor is how long a server has no network. The others must count it as gone: they
	// ping it every 2 s, and close the connection after two pings without an answer.
	cutFor = 10 * time.Second
	// pausedFor is how long a process is paused. It must be longer than any lease, ping or
	// timeout of a request, and as long as the server keeps an idle consumer.
	pausedFor = 30 * time.Second
)

// TestCluster runs three NATS servers, two ingest services, two detectors, a gateway and a
// dashboard. Each fault has ended, and everything has arrived, before the next.
func TestCluster(t *testing.T) {
	r := start(t)
	r.shared(t)
	if a := r.post(t, r.Dashboard.URL(containers.PortDashboard)+"/api/silences", `{"app":"`+silencedApp+`","minutes":60,"reason":"a deploy"}`); a.Status != http.StatusOK {
		t.Fatalf("silence: %d %s, want Status 200", a.Status, a.Body)
	}
	stop := make(chan struct{})
	sending, giveUp := context.WithCancel(context.WithoutCancel(t.Context()))
	var load sync.WaitGroup
	load.Go(func() { r.traffic.Run(sending, stop) })
	over := sync.OnceFunc(func() { close(stop) })
	t.Cleanup(func() { over(); giveUp(); load.Wait() })

	type fault struct {
		name string
		do   func(*testing.T)
	}
	var faults []fault
	add := func(name string, do func(*testing.T)) { faults = append(faults, fault{name, do}) }
	for _, c := range append(append([]*containers.Container{}, r.NATS...), append(r.Ingest, r.Dashboard)...) {
		add("kill "+c.Name, func(t *testing.T) { r.kill(t, c) })
	}
	add("kill gateway", func(t *testing.T) {
		if err := r.agent.pauseWhile(t.Context(), func() { r.kill(t, r.Gateway) }); err != nil {
			t.Fatal(err)
		}
	})
	for i := range r.Detector {
		add("kill "+r.Detector[i].Name, func(t *testing.T) { r.killDetector(t, i) })
	}
	add("kill both detectors", r.killDetectors)
	add("cut off the server with the telemetry", r.cut)
	add("pause an ingest service and a detector", r.pauseServices)
	add("pause a server", r.pauseServer)
	add("restart everything in turn", r.roll)

	for _, f := range faults {
		if !t.Run(f.name, func(t *testing.T) {
			begin := time.Now()
			f.do(t)
			r.settled(t)
			t.Logf("%s: %.1f s, at most %.1f s of them without an accepted event", f.name, time.Since(begin).Seconds(), r.traffic.Longest(begin).Seconds())
		}) {
			return // the next faults would prove nothing
		}
	}
	over()
	load.Wait()
	r.settled(t)
	t.Run("account", r.account)
	t.Run("results", r.results)
	t.Run("page", r.page)
}

// must ends the test if Docker reports an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass lets time pass under load. It is for outages whose length is what is tested.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// missesAlert waits until an alert was raised about something that was accepted after
// since: a process that is down since then has missed it. It gives up after downFor,
// because nothing is accepted while the server with the telemetry is down.
func (r *rig) missesAlert(t *testing.T, since time.Time) {
	t.Helper()
	poll(t, downFor, func() bool {
		all, _ := r.alerts.list()
		raised := map[string]bool{}
		for i := range all {
			raised[nameOf(&all[i].Alert)] = true
		}
		return slices.ContainsFunc(r.traffic.Sent(), func(s traffic.Sent) bool { return s.Accepted.After(since) && raised[s.Name] })
	})
}

// kill kills a container and starts it again.
func (r *rig) kill(t *testing.T, c *containers.Container) {
	t.Helper()
	must(t, c.Kill(t.Context()))
	r.missesAlert(t, time.Now())
	must(t, c.Start(t.Context()))
	begin := time.Now()
	r.readyAt(t, c)
	t.Logf("%s is ready %.1f s after its start", c.Name, time.Since(begin).Seconds())
}

// takenOver waits until a detector owns all partitions.
func (r *rig) takenOver(t *testing.T, by *containers.Container, since time.Time) {
	t.Helper()
	if !poll(t, takenOverIn, func() bool { return r.owned(t.Context(), by) == partitions }) {
		t.Errorf("%s owns %d partitions %s after the other one ended, want %d", by.Name, r.owned(t.Context(), by), time.Since(since), partitions)
	}
	t.Logf("%s has taken over %.1f s after the other one ended", by.Name, time.Since(since).Seconds())
}

// killDetector kills a detector, which owns half of the partitions.
func (r *rig) killDetector(t *testing.T, i int) {
	t.Helper()
	r.shared(t)
	begin := time.Now()
	must(t, r.Detector[i].Kill(t.Context()))
	r.takenOver(t, r.Detector[1-i], begin)
	must(t, r.Detector[i].Start(t.Context()))
}

// killDetectors kills both detectors, so that their state is as old as the last
// snapshot.
func (r *rig) killDetectors(t *testing.T) {
	t.Helper()
	for _, d := range r.Detector {
		must(t, d.Kill(t.Context()))
	}
	// They find a backlog: as much as one round of all apps was accepted meanwhile.
	dead, accepted := time.Now(), 0
	if !poll(t, readyIn, func() bool {
		accepted = 0
		for _, s := range r.traffic.Sent() {
			if s.Accepted.After(dead) {
				accepted++
			}
		}
		return accepted >= len(apps())
	}) {
		t.Fatalf("%d events were accepted within %s without a detector, want %d", accepted, readyIn, len(apps()))
	}
	for _, d := range r.Detector {
		must(t, d.Start(t.Context()))
	}
}

// cut takes the server that has the telemetry off the network, and connects it again.
func (r *rig) cut(t *testing.T) {
	t.Helper()
	c := r.home(t)
	must(t, c.Cut(t.Context()))
	pass(t, cutFor)
	must(t, c.Join(t.Context()))
}

// pauseServices pauses an ingest service and a detector for a while: senders use the other
// ingest service, and the other detector takes over. Then both go on, and do not know that time
// has passed.
func (r *rig) pauseServices(t *testing.T) {
	t.Helper()
	r.shared(t)
	begin := time.Now()
	must(t, r.Detector[0].Pause(t.Context()))
	must(t, r.Ingest[0].Pause(t.Context()))
	r.takenOver(t, r.Detector[1], begin)
	pass(t, time.Until(begin.Add(pausedFor)))
	must(t, r.Ingest[0].Resume(t.Context()))
	must(t, r.Detector[0].Resume(t.Context()))
}

// pauseServer pauses a server that does not have the telemetry.
func (r *rig) pauseServer(t *testing.T) {
	t.Helper()
	home := r.home(t)
	c := r.NATS[0]
	if c == home {
		c = r.NATS[1]
	}
	must(t, c.Pause(t.Context()))
	pass(t, pausedFor)
	must(t, c.Resume(t.Context()))
}

// roll restarts everything in order, each once the one before is ready again.
func (r *rig) roll(t *testing.T) {
	t.Helper()
	for _, c := range r.All() {
		again := func() {
			code, err := c.Stop(t.Context())
			must(t, err)
			if code != 0 && !slices.Contains(r.NATS, c) {
				t.Errorf("exit code of %s = %d, want 0", c.Name, code)
			}
			must(t, c.Start(t.Context()))
			begin := time.Now()
			r.readyAt(t, c)
			if took := time.Since(begin); took > notableDelay {
				t.Logf("%s is ready %.1f s after its start", c.Name, took.Seconds())
			}
		}
		if c != r.Gateway {
			again()
			continue
		}
		if err := r.agent.pauseWhile(t.Context(), again); err != nil {
			t.Fatal(fmt.Errorf("a session after the restart: %w", err))
		}
	}
}
