package deploy

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestExternalNATSInAContainer runs ingest, detector and gateway as processes on a NATS
// server in a container, restarts the server, and expects every alert once.
func TestExternalNATSInAContainer(t *testing.T) {
	testcontainers.SkipIfProviderIsNotHealthy(t)
	ctx := t.Context()
	nats := natsContainer(t)
	url, err := nats.PortEndpoint(ctx, "4222/tcp", "nats")
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	detector := e2etest.Run(t, dir, "detector", "--nats-url="+url)
	addr := fmt.Sprintf("127.0.0.1:%d", e2etest.FreePort(t))
	ingest := e2etest.Run(t, dir, "ingest", "--nats-url="+url, "--ingest-addr="+addr)
	sys := &e2etest.System{Bus: &harness.Bus{Process: ingest, StateDir: dir}}
	sys.Bus.IngestURL = "http://" + addr
	sys.Agent, err = harness.StartAgent(ctx, e2etest.Binary(t), dir, "container", "--nats-url="+url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sys.Agent.Close(); err != nil {
			t.Errorf("gateway: %v\n%s", err, sys.Agent.Log)
		}
	})
	sys.WaitReady(t)
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "before"})
	if got := sys.TakeAlerts(t, 1); got[0].Category != alert.CI {
		t.Fatalf("got %+v, want Category %v", got, alert.CI)
	}

	stopWithin := 5 * time.Second
	if err := nats.Stop(ctx, &stopWithin); err != nil {
		t.Fatal(err)
	}
	if a := sys.Post(t, "/ci-result", map[string]any{"status": "failure", "commit": "away"}); a.Status != 503 || a.Header.Get("Retry-After") == "" {
		t.Fatalf("with the bus unreachable: %d %s, want Status 503 and a Get", a.Status, a.Body)
	}
	if o := sys.Observe(t, nil); o.Block != "" {
		t.Fatalf("with the bus unreachable: %s, want nothing", o.Block)
	}
	if err := nats.Start(ctx); err != nil {
		t.Fatal(err)
	}
	sys.WaitReady(t)
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "after"})
	got := sys.TakeAlerts(t, 1)
	if len(got) != 1 || got[0].Context["commit"] != "after" {
		t.Fatalf("got %+v, want 1 of them and Context[\"commit\"] \"after\"\n%s", got, detector.Log)
	}
}

// natsContainer builds a NATS server from its module into an image FROM scratch and
// runs it with JetStream on a fixed port, so that it keeps its address over a restart.
func natsContainer(t *testing.T) testcontainers.Container {
	t.Helper()
	dir := filepath.Dir(e2etest.NATSServer(t))
	dockerfile := "FROM scratch\nCOPY nats-server /nats-server\nENTRYPOINT [\"/nats-server\"]\n"
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600); err != nil {
		t.Fatal(err)
	}
	port, natsPort := e2etest.FreePort(t), network.MustParsePort("4222/tcp")
	c, err := testcontainers.GenericContainer(t.Context(), testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			FromDockerfile: testcontainers.FromDockerfile{Context: dir, KeepImage: false},
			Cmd:            []string{"-js", "-sd", "/data"},
			ExposedPorts:   []string{natsPort.String()},
			HostConfigModifier: func(h *container.HostConfig) {
				h.PortBindings = network.PortMap{natsPort: {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(port)}}}
			},
			WaitingFor: wait.ForLog("Server is ready").WithStartupTimeout(30 * time.Second),
		},
		Started: true,
	})
	testcontainers.CleanupContainer(t, c)
	if err != nil && strings.Contains(err.Error(), "reaper: ") {
		t.Skipf("Docker is here, the image of testcontainers' reaper is not (TESTCONTAINERS_RYUK_DISABLED=true goes without it): %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}
