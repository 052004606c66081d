package e2etest

import (
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// System is a running bus and an agent connected to it.
type System struct {
	Bus   *harness.Bus
	Agent *harness.Agent
}

// Start runs tocsin up with more arguments on a new state directory, and a
// gateway on it. Both are stopped at the end of the test.
func Start(t *testing.T, args ...string) *System {
	t.Helper()
	b := Up(t, args...)
	return &System{Bus: b, Agent: Join(t, b, "e2e")}
}

// Up runs tocsin up on a new state directory and stops it at the end of the test.
func Up(t *testing.T, args ...string) *harness.Bus {
	t.Helper()
	return UpIn(t, t.TempDir(), args...)
}

// UpIn runs tocsin up on a state directory. The test may stop it, but not kill it.
func UpIn(t *testing.T, dir string, args ...string) *harness.Bus {
	t.Helper()
	b, err := harness.Up(t.Context(), Binary(t), dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop tocsin up: %v\n%s", err, b.Log)
		}
		CheckLog(t, b.Log)
	})
	return b
}

// Join starts a gateway for an agent of this name and closes it at the end of the test.
func Join(t *testing.T, b *harness.Bus, name string, args ...string) *harness.Agent {
	t.Helper()
	a, err := harness.StartAgent(t.Context(), Binary(t), b.StateDir, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("close tocsin gateway: %v\n%s", err, a.Log)
		}
		CheckLog(t, a.Log)
	})
	return a
}

// CheckLog fails the test if a process logged a data race or a panic.
func CheckLog(t *testing.T, log *harness.Log) {
	t.Helper()
	if text := log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
		t.Errorf("the log has a data race or a panic:\n%s", text)
	}
}

// WaitReady waits until ingest accepts events.
func (sys *System) WaitReady(t *testing.T) {
	t.Helper()
	var last harness.Answer
	ready := func() bool { last = Get(t, sys.Bus.IngestURL+"/readyz"); return last.Status == 200 }
	if !harness.Poll(t.Context(), 30*time.Second, ready) {
		t.Fatalf("/readyz of ingest answers %d after 30 s, want 200: %s", last.Status, last.Body)
	}
}

// Post posts JSON to ingest.
func (sys *System) Post(t *testing.T, path string, body any) harness.Answer {
	t.Helper()
	a, err := sys.Bus.Post(t.Context(), path, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// MustPost posts JSON to ingest, which has to accept it.
func (sys *System) MustPost(t *testing.T, path string, body any) {
	t.Helper()
	if a := sys.Post(t, path, body); a.Status != 200 {
		t.Fatalf("POST %s answers %d, want 200: %s", path, a.Status, a.Body)
	}
}

// PostCI posts a CI result.
func (sys *System) PostCI(t *testing.T, result map[string]any) {
	t.Helper()
	sys.MustPost(t, "/ci-result", result)
}

// PostEvents posts telemetry events in one request.
func (sys *System) PostEvents(t *testing.T, events ...map[string]any) {
	t.Helper()
	sys.MustPost(t, "/v1/events", events)
}

// PostVitals posts the largest contentful paint (ms) of a page of the app "web".
func (sys *System) PostVitals(t *testing.T, page string, lcp float64) {
	t.Helper()
	sys.PostEvents(t, map[string]any{"kind": "vitals", "app": "web", "url": "http://localhost:3000" + page, "vitals": map[string]any{"lcp_ms": lcp}})
}

// PostLogs posts n log lines of the app "web".
func (sys *System) PostLogs(t *testing.T, level string, n int, message func(int) string) {
	t.Helper()
	for i := range n {
		sys.PostEvents(t, map[string]any{"kind": "log", "app": "web", "log": map[string]any{"level": level, "message": message(i)}})
	}
}

// PostServerError posts a request that was answered with 500, which raises an alert.
func (sys *System) PostServerError(t *testing.T, app, path string) {
	t.Helper()
	sys.PostEvents(t, map[string]any{"kind": "network", "app": app, "network": map[string]any{"method": "GET", "url": path, "status": 500}})
}

// Call calls a tool of the agent's gateway and returns its text.
func (sys *System) Call(t *testing.T, tool string, args map[string]any) string {
	t.Helper()
	blocks, err := sys.Agent.Call(t.Context(), tool, args)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(blocks, "\n")
}

// Observe calls observe, which takes the pending alerts.
func (sys *System) Observe(t *testing.T, args map[string]any) harness.Observed {
	t.Helper()
	o, err := sys.Agent.Observe(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
