package commands

import (
	"fmt"
	"net/http"

	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// checkUsageError runs tocsin and expects exit status 2 and one line that contains
// want.
func checkUsageError(t *testing.T, env []string, want string, args ...string) {
	t.Helper()
	p, err := harness.Start(e2etest.Binary(t), t.TempDir(), env, args...)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(30 * time.Second):
		t.Error("it does not end")
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}
	if text := p.Log.String(); p.ExitCode() != 2 || p.Stdout.String() != "" || strings.Count(text, "\n") != 1 || !strings.Contains(text, want) {
		t.Errorf("%v %v: exit %d, want ExitCode 2, no output, one line and %q in text\nstdout: %s\nstderr: %s", env, args, p.ExitCode(), want, p.Stdout, text)
	}
}

// TestPublicListenersNeedAToken checks that each listener beyond loopback needs a
// token.
func TestPublicListenersNeedAToken(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"up", "--nats-addr=0.0.0.0:0"},
		{"up", "--nats-addr=:0"},
		{"up", "--nats-addr=[::]:0"},
		{"up", "--nats-addr=tocsin.example:0"},
		{"up", "--nats-ws-addr=0.0.0.0:0"},
		{"up", "--nats-ws-addr=:0"},
		{"up", "--ingest-addr=:0"},
		{"up", "--otlp-addr=:0"},
		{"up", "--dashboard-addr=:0"},
		{"up", "--dashboard-addr=0.0.0.0:0"},
		{"dashboard", "--dashboard-addr=:0"},
		{"dashboard", "--dashboard-addr=[::]:0"},
		{"ingest", "--otlp-addr=0.0.0.0:0"},
		{"detector", "--health-addr=0.0.0.0:0"},
		{"detector", "--health-addr=:0"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			checkUsageError(t, nil, "TOCSIN_TOKEN", args...)
			checkUsageError(t, []string{"TOCSIN_TOKEN= \t"}, "TOCSIN_TOKEN", args...)
			checkUsageError(t, nil, "TOCSIN_TOKEN", append(args, "--token=  ")...)
		})
	}
}

// TestInvalidAddresses checks that invalid addresses are refused before anything
// starts.
func TestInvalidAddresses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ want, command, flag string }{
		{"TOCSIN_NATS_ADDR", "up", "--nats-addr=foo"},
		{"TOCSIN_NATS_ADDR", "up", "--nats-addr=127.0.0.1:99999"},
		{"TOCSIN_NATS_WS_ADDR", "up", "--nats-ws-addr=foo"},
		{"TOCSIN_INGEST_ADDR", "up", "--ingest-addr=127.0.0.1:99999"},
		{"TOCSIN_OTLP_ADDR", "up", "--otlp-addr=foo"},
		{"TOCSIN_OTLP_ADDR", "ingest", "--otlp-addr=127.0.0.1:99999"},
		{"TOCSIN_DASHBOARD_ADDR", "up", "--dashboard-addr=foo"},
		{"TOCSIN_DASHBOARD_ADDR", "dashboard", "--dashboard-addr=127.0.0.1:99999"},
		{"TOCSIN_DETECTOR_HEALTH_ADDR", "detector", "--health-addr=foo"},
	} {
		checkUsageError(t, nil, tt.want, tt.command, tt.flag)
	}
}

// TestPublicListeners checks that a token is enough to listen beyond loopback, and that
// the announced addresses can be connected to.
func TestPublicListeners(t *testing.T) {
	t.Parallel()
	p, err := harness.Start(e2etest.Binary(t), t.TempDir(), []string{"TOCSIN_TOKEN= secret "}, "up",
		"--nats-addr=0.0.0.0:0", "--nats-ws-addr=[::]:0", "--ingest-addr=127.0.0.1:0", "--state-dir="+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop tocsin up: %v\n%s", err, p.Log)
		}
	})
	if !harness.Poll(t.Context(), 30*time.Second, func() bool { return strings.Contains(p.Stdout.String(), "websocket") }) {
		t.Fatalf("timed out: tocsin up does not print its websocket:\n%s%s", p.Stdout, p.Log)
	}
	if out := p.Stdout.String(); strings.Contains(out, "0.0.0.0") || strings.Contains(out, "[::]") {
		t.Errorf("got %s, want no \"0.0.0.0\" in it and no \"[::]\" in it", out)
	}
	_, dir, _ := strings.Cut(p.Stdout.String(), "  state      ")
	r, err := statedir.At(strings.TrimSpace(dir)).Running()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.NATSURL, "nats://127.0.0.1:") || !strings.HasPrefix(r.NATSWSURL, "ws://127.0.0.1:") {
		t.Errorf("got %+v, want NATSURL that begins with \"nats://127.0.0.1:\" and NATSWSURL that begins with \"ws://127.0.0.1:\"", r)
	}
	if code, stdout, stderr := e2etest.Tocsin(t, strings.TrimSpace(dir), "tail", "--nats-url="+r.NATSURL, "--last=0"); code != 1 {
		t.Errorf("tail without a key = exit %d: %s%s, want exit 1", code, stdout, stderr)
	}
	code, stdout, stderr := e2etest.Tocsin(t, strings.TrimSpace(dir), "ci", "--status=success", "--token=secret")
	if code != 0 {
		t.Errorf("exit %d: %s%s, want code 0", code, stdout, stderr)
	}
}

// TestInvalidNATSURL checks every command that takes one.
func TestInvalidNATSURL(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"up", "ingest", "detector", "dashboard", "gateway", "tail", "doctor"} {
		for _, url := range []string{"::::", "http://[bad"} {
			checkUsageError(t, nil, "--nats-url", command, "--nats-url="+url)
			checkUsageError(t, []string{"TOCSIN_NATS_URL=" + url}, "--nats-url", command)
		}
	}
}

// TestPublicListenersNeedATokenToRead checks that every listener that other machines
// can reach asks for the token, except for its health.
func TestPublicListenersNeedATokenToRead(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t, "--token=s3cret", "--ingest-addr=0.0.0.0:0", "--dashboard-addr=0.0.0.0:0", "--otlp-addr=0.0.0.0:0")
	detector, gateway := fmt.Sprintf("127.0.0.1:%d", e2etest.FreePort(t)), fmt.Sprintf("127.0.0.1:%d", e2etest.FreePort(t))
	env := []string{"TOCSIN_TOKEN=s3cret", "TOCSIN_DETECTOR_HEALTH_ADDR=" + strings.Replace(detector, "127.0.0.1", "0.0.0.0", 1),
		"TOCSIN_GATEWAY_HTTP=" + strings.Replace(gateway, "127.0.0.1", "0.0.0.0", 1)}
	for _, args := range [][]string{{"detector"}, {"gateway", "--autostart=false"}} {
		p, err := harness.Start(e2etest.Binary(t), b.StateDir, env, args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Stop(); err != nil {
				t.Errorf("stop the service: %v\n%s", err, p.Log)
			}
		})
		if !harness.Poll(t.Context(), healthTimeout, func() bool { code, _ := healthcheck(t, b.StateDir, env, args[0]); return code == 0 }) {
			t.Fatalf("timed out: %v is not ready: %s", args, p.Log)
		}
	}
	for _, at := range []string{b.IngestURL, b.DashboardURL, "http://" + detector, "http://" + gateway} {
		for _, path := range []string{"/healthz", "/readyz"} {
			if a := e2etest.Send(t, "GET", at+path, ""); a.Status != http.StatusOK {
				t.Errorf("%s%s: %d %s, want 200", at, path, a.Status, a.Body)
			}
		}
		for header, want := range map[string]int{"": 401, "Bearer guessed": 401, "Bearer s3cret": 200} {
			if a := e2etest.Send(t, "GET", at+"/metrics", "", "Authorization", header); a.Status != want {
				t.Errorf("%s/metrics with %q: %d %s, want %d", at, header, a.Status, a.Body, want)
			}
		}
	}
	for _, path := range []string{"/api/session", "/api/alerts", "/api/events", "/api/status", "/api/health", "/events/stream"} {
		if a := e2etest.Send(t, "GET", b.DashboardURL+path, ""); a.Status != http.StatusUnauthorized || !strings.Contains(a.Body, "a token is required") {
			t.Errorf("%s: %d %s, want 401", path, a.Status, a.Body)
		}
	}
	if a := e2etest.Send(t, "POST", "http://"+gateway+"/mcp", `{}`, "Content-Type", "application/json", "Authorization", "Bearer guessed"); a.Status != http.StatusUnauthorized || !strings.Contains(a.Body, "the token is not valid") {
		t.Errorf("MCP with a wrong token: %d %s, want 401", a.Status, a.Body)
	}
	if code, stdout, stderr := e2etest.Tocsin(t, b.StateDir, "doctor"); code != 0 {
		t.Errorf("doctor: exit %d, want 0\n%s%s", code, stdout, stderr)
	}
}
