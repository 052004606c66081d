package deploy

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/containers"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestFaultsOfServersInContainers checks that an ingest service notices a server that is cut
// off, paused or killed, and reconnects. Ingest keeps its published port.
func TestFaultsOfServersInContainers(t *testing.T) {
	built, n := images(t), containerNet(t)
	nats := runIn(t, n, containers.Spec{Name: "nats", Image: built.NATS, Args: []string{"-js", "-sd", "/data"}, Volumes: []string{"/data"}})
	ingest := runIn(t, n, containers.Spec{
		Name: "ingest", Image: built.Ingest, Ports: []int{7400},
		Env: map[string]string{"TOCSIN_NATS_URL": "nats://nats:4222", "TOCSIN_TOKEN": "secret"},
	})
	ctx := t.Context()
	ready := func(what string, want int) {
		t.Helper()
		var got harness.Answer
		if !harness.Poll(ctx, 60*time.Second, func() bool { got = e2etest.Get(t, ingest.URL(7400)+"/readyz"); return got.Status == want }) {
			t.Fatalf("%s: /readyz = %d %s, want %d\n%s", what, got.Status, got.Body, want, ingest.Logs(ctx))
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ready("at first", 200)
	for _, fault := range []struct {
		name       string
		take, back func() error
	}{
		{"cut off", func() error { return nats.Cut(ctx) }, func() error { return nats.Join(ctx) }},
		{"paused", func() error { return nats.Pause(ctx) }, func() error { return nats.Resume(ctx) }},
		{"killed", func() error { return nats.Kill(ctx) }, func() error { return nats.Start(ctx) }},
	} {
		do(fault.take())
		ready(fault.name, 503)
		do(fault.back())
		ready("back from being "+fault.name, 200)
	}
	do(ingest.Cut(ctx))
	do(ingest.Join(ctx))
	ready("ingest itself", 200)
	endsWell(t, ingest)
	do(ingest.Start(ctx))
	ready("started again", 200)
}
