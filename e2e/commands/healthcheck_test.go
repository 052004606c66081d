package commands

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// healthTimeout bounds how long a service may take to be ready.
const healthTimeout = 20 * time.Second

// healthcheck runs tocsin healthcheck and returns its exit code and output.
func healthcheck(t *testing.T, dir string, env []string, args ...string) (code int, output string) {
	t.Helper()
	p, err := harness.Start(e2etest.Binary(t), dir, env, append([]string{"healthcheck"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	code = p.ExitCode()
	if out := p.Stdout.String(); code == 0 {
		return code, out
	}
	return code, p.Log.String()
}

// TestHealthcheckOfUp checks tocsin up from its start to its end.
func TestHealthcheckOfUp(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	ready := harness.Poll(t.Context(), healthTimeout, func() bool { code, _ := healthcheck(t, b.StateDir, nil); return code == 0 })
	if code, output := healthcheck(t, b.StateDir, nil); !ready || code != 0 || output != "tocsin up is ready\n" {
		t.Fatalf("got %d %q, want ready, 0 and \"tocsin up is ready\\n\"\n%s", code, output, b.Log)
	}
	if code, output := healthcheck(t, b.StateDir, nil, "--live"); code != 0 || output != "tocsin up is alive\n" {
		t.Errorf("alive: %d %q, want 0 and \"tocsin up is alive\\n\"", code, output)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if code, output := healthcheck(t, b.StateDir, nil); code != 1 || output != "tocsin: tocsin up is not ready: no bus is running on this state directory\n" {
		t.Errorf("healthcheck after the end of the bus = exit %d: %q, want exit 1 with the reason", code, output)
	}
}

// TestHealthcheckOfServices checks each service alone: it is found at the address of
// the same settings, and reports what it waits for.
func TestHealthcheckOfServices(t *testing.T) {
	t.Parallel()
	for service, c := range map[string]struct {
		variable string
		args     []string
		waits    string
	}{
		"ingest":    {"TOCSIN_INGEST_ADDR", nil, "ingest is not ready: the bus is unreachable"},
		"detector":  {"TOCSIN_DETECTOR_HEALTH_ADDR", nil, "the detector is not ready: "},
		"dashboard": {"TOCSIN_DASHBOARD_ADDR", nil, "the dashboard is not ready: the bus is unreachable"},
		"gateway":   {"TOCSIN_GATEWAY_HTTP", []string{"--autostart=false"}, "the gateway is not ready: the bus is unreachable"},
	} {
		t.Run(service, func(t *testing.T) {
			dir := t.TempDir() // no bus runs there
			port := e2etest.FreePort(t)
			// A wildcard address is checked on loopback.
			env := []string{fmt.Sprintf("%s=0.0.0.0:%d", c.variable, port), "TOCSIN_TOKEN=secret"}
			if code, output := healthcheck(t, dir, env, service); c.waits != "" && code != 1 || !strings.Contains(output, "does not answer") {
				t.Errorf("healthcheck before the start = exit %d: %q, want exit 1: does not answer", code, output)
			}
			p, err := harness.Start(e2etest.Binary(t), dir, env, append([]string{service}, c.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := p.Stop(); err != nil {
					t.Errorf("stop the service: %v\n%s", err, p.Log)
				}
			}()
			alive := harness.Poll(t.Context(), healthTimeout, func() bool {
				code, _ := healthcheck(t, dir, env, service, "--live")
				return code == 0
			})
			if !alive {
				t.Fatalf("timed out: the service is not alive\n%s", p.Log)
			}
			if code, output := healthcheck(t, dir, env, service); code != 1 || !strings.HasPrefix(output, "tocsin: "+c.waits) || strings.Count(output, "\n") != 1 {
				t.Errorf("healthcheck without a bus = exit %d: %q, want exit 1 and the line %q", code, output, "tocsin: "+c.waits)
			}
			resp := e2etest.Send(t, "GET", "http://"+net.JoinHostPort("127.0.0.1", fmt.Sprint(port))+"/metrics", "", "Authorization", "Bearer secret")
			if resp.Status != 200 || !strings.Contains(resp.Body, "\ntocsin_"+service+"_") {
				t.Errorf("metrics: %d %.300s, want Status 200 and %q in Body", resp.Status, resp.Body, "\ntocsin_"+service+"_")
			}
		})
	}
}
