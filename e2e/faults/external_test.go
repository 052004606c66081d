package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// externalPosts is how many posts are made while each server of the cluster restarts.
const externalPosts = 60

// TestExternalClusterWithRoles follows deploy/nats/README.md: keys by tocsin keys,
// servers with its configuration and TLS, tocsin provision, and each service with its
// own role's key. Then each server is restarted in turn, and every accepted result
// raises one alert.
func TestExternalClusterWithRoles(t *testing.T) {
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	if code, stdout, stderr := e2etest.Tocsin(t, dir, "keys", keys); code != 0 {
		t.Fatalf("keys: exit %d: %s%s, want code 0", code, stdout, stderr)
	}
	for _, file := range []string{"keys.env", "routes.env"} {
		data, err := os.ReadFile(filepath.Join(keys, file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			t.Setenv(name, value)
		}
	}
	certificates := bustest.TLS(t)
	certificates.ForServers(t)
	rig := bustest.Serve(t, keys, bustest.Configured(t, e2etest.Path(t, "deploy/nats/cluster-tls.conf"), 3)...)
	as := func(role bus.Role, args ...string) []string {
		return append(args, "--nats-url="+rig.URL(), "--nats-creds="+rig.Creds(role), "--nats-ca="+certificates.CA)
	}

	// Services that start before the bus is prepared log what to do, and wait.
	ingestAddr := fmt.Sprintf("127.0.0.1:%d", e2etest.FreePort(t))
	parts := []*part{
		{name: "ingest", bin: e2etest.Binary(t), args: as(bus.RoleIngest, "ingest", "--ingest-addr="+ingestAddr, "--otlp-addr=")},
		{name: "detector", bin: e2etest.Binary(t), args: as(bus.RoleDetector, "detector", "--health-addr=")},
		{name: "another detector", bin: e2etest.Binary(t), args: as(bus.RoleDetector, "detector", "--health-addr=")},
	}
	for _, p := range parts {
		p.start(t, dir)
		t.Cleanup(func() {
			if err := p.Stop(); err != nil {
				t.Errorf("%s: %v\n%s", p.name, err, p.Log)
			}
			e2etest.CheckLog(t, p.Log)
		})
	}
	for _, p := range parts {
		poll(t, "advice in the log of "+p.name, func() bool { return strings.Contains(p.Log.String(), "run tocsin provision") })
	}
	poll(t, "ingest that is not ready", func() bool {
		a := e2etest.Get(t, "http://"+ingestAddr+"/readyz")
		return a.Status == 503 && strings.Contains(a.Body, "tocsin provision")
	})
	if code, _, stderr := e2etest.Tocsin(t, dir, as(bus.RoleIngest, "provision")...); code != 1 || !strings.Contains(stderr, "of the provisioner") {
		t.Errorf("provision with ingest's key: exit %d: %s, want 1 and \"of the provisioner\" in it", code, stderr)
	}
	if code, stdout, stderr := e2etest.Tocsin(t, dir, as(bus.RoleProvisioner, "provision", "--partitions=4")...); code != 0 || !strings.Contains(stdout, "create it with 3 replicas") {
		t.Fatalf("provision: exit %d: %s%s, want code 0 and \"create it with 3 replicas\" in stdout", code, stdout, stderr)
	}
	sys := &e2etest.System{Bus: &harness.Bus{Process: parts[0].Process, StateDir: dir}}
	sys.Bus.IngestURL = "http://" + ingestAddr
	sys.WaitReady(t)
	doctor := func() string {
		_, stdout, _ := e2etest.Tocsin(t, dir, as(bus.RoleGateway, "doctor")...)
		return stdout
	}
	poll(t, "detector, as doctor sees it", func() bool { return strings.Contains(doctor(), "ok   detector") })
	if output, want := doctor(), "telemetry has 4 partitions, cluster tocsin"; !strings.Contains(output, want) {
		t.Errorf("tocsin doctor: got\n%s\nwant %q in it", output, want)
	}
	tail := &part{name: "tail", bin: e2etest.Binary(t), args: as(bus.RoleGateway, "tail", "--json")}
	tail.start(t, dir)
	t.Cleanup(func() {
		if err := tail.Stop(); err != nil {
			t.Errorf("tail: %v\n%s", err, tail.Log)
		}
	})

	// A refused post is sent again, as a pipeline does. Telemetry has one copy: while
	// the server that has it is down, nothing is accepted.
	for i := range externalPosts {
		path, body := crashPost(i)
		taken := func() bool {
			a, err := sys.Bus.Post(t.Context(), path, body)
			return err == nil && a.Status == 200
		}
		if each := externalPosts / rig.Len(); i%each == each/2 {
			rig.Stop(i / each)
			t.Logf("while server %d was down, a post was taken: %t", i/each+1, harness.Poll(t.Context(), 3*time.Second, taken))
			rig.Start(i / each)
			rig.Ready()
		}
		poll(t, fmt.Sprintf("answer to post %d", i), taken)
		if i == 0 { // before the restarts: a terminal does not wait for servers
			poll(t, "first alert", func() bool { return strings.Contains(tail.Stdout.String(), e2etest.UniqueWord(0)) })
		}
	}
	// A post that was repeated because no answer came revises its alert, or adds to its
	// count.
	delivered := func() map[string]int {
		times := map[string]int{}
		for i := range externalPosts {
			times[e2etest.UniqueWord(i)] = 0
		}
		for line := range strings.Lines(tail.Stdout.String()) {
			var a alert.Alert
			if json.Unmarshal([]byte(line), &a) != nil || a.Revises != "" {
				continue // half a line, or the first is missing
			}
			for i := range externalPosts {
				if strings.Contains(line, e2etest.UniqueWord(i)) {
					times[e2etest.UniqueWord(i)]++
				}
			}
		}
		return times
	}
	poll(t, "alert for each", func() bool {
		for _, n := range delivered() {
			if n == 0 {
				return false
			}
		}
		return true
	})
	for what, n := range delivered() {
		if n != 1 {
			t.Errorf("alerts about %s: got %d, want 1", what, n)
		}
	}
	agent, err := harness.StartAgent(t.Context(), e2etest.Binary(t), dir, "e2e", as(bus.RoleGateway)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := agent.Close(); err != nil {
			t.Errorf("tocsin gateway: %v\n%s", err, agent.Log)
		}
	})
	sys.Agent = agent
	began := time.Now()
	if got := sys.Call(t, "observe", map[string]any{"what": "errors", "limit": 10}); !strings.Contains(got, "error") {
		t.Errorf("an agent sees %s, want \"error\" in it", got)
	}
	t.Logf("observe over all partitions took %s", time.Since(began))
}
