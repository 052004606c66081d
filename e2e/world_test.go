package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// binary is the tocsin under test, built once with the race detector.
var binary string

func TestMain(m *testing.M) { os.Exit(withBinary(m)) }

func withBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tocsin-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binary, err = harness.Build(context.Background(), dir, true); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// world is a bus and an agent on it.
type world struct {
	bus   *harness.Bus
	agent *harness.Agent
}

// start runs a bus, with further arguments, and a gateway on a fresh state
// directory, and sees to it that both end well.
func start(t *testing.T, args ...string) *world {
	t.Helper()
	b := up(t, args...)
	return &world{bus: b, agent: join(t, b, "e2e")}
}

// up runs a bus on a fresh state directory.
func up(t *testing.T, args ...string) *harness.Bus {
	t.Helper()
	b, err := harness.Up(t.Context(), binary, t.TempDir(), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("tocsin up: %v\n%s", err, b.Log)
		}
		noRace(t, b.Log)
	})
	return b
}

// join adds an agent.
func join(t *testing.T, b *harness.Bus, name string, args ...string) *harness.Agent {
	t.Helper()
	a, err := harness.StartAgent(t.Context(), binary, b.StateDir, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("tocsin gateway: %v\n%s", err, a.Log)
		}
		noRace(t, a.Log)
	})
	return a
}

func noRace(t *testing.T, log *harness.Log) {
	t.Helper()
	if text := log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
		t.Errorf("%s", text)
	}
}

func (w *world) post(t *testing.T, path string, body any) harness.Answer {
	t.Helper()
	a, err := w.bus.Post(t.Context(), path, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (w *world) must(t *testing.T, path string, body any) {
	t.Helper()
	if a := w.post(t, path, body); a.Status != 200 {
		t.Fatalf("%s: %d %s", path, a.Status, a.Body)
	}
}

func (w *world) ci(t *testing.T, result map[string]any) { t.Helper(); w.must(t, "/ci-result", result) }

func (w *world) events(t *testing.T, events ...map[string]any) {
	t.Helper()
	w.must(t, "/v1/events", events)
}

func (w *world) vitals(t *testing.T, page string, lcp float64) {
	t.Helper()
	w.events(t, map[string]any{"kind": "vitals", "app": "web", "url": "http://localhost:3000" + page, "vitals": map[string]any{"lcp_ms": lcp}})
}

func (w *world) logs(t *testing.T, level string, n int, message func(int) string) {
	t.Helper()
	for i := range n {
		w.events(t, map[string]any{"kind": "log", "app": "web", "log": map[string]any{"level": level, "message": message(i)}})
	}
}

func (w *world) call(t *testing.T, tool string, args map[string]any) string {
	t.Helper()
	blocks, err := w.agent.Call(t.Context(), tool, args)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(blocks, "\n")
}

func (w *world) observe(t *testing.T, args map[string]any) harness.Observed {
	t.Helper()
	o, err := w.agent.Observe(t.Context(), args)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// settle waits until the bus holds n alerts and a gateway of its own has them
// pending or told: history is read without draining this world's agent.
func (w *world) settle(t *testing.T, n int) {
	t.Helper()
	seen := 0
	ok := harness.Poll(t.Context(), 20*time.Second, func() bool {
		blocks, err := w.agent.Call(t.Context(), "configure", map[string]any{"action": "health"})
		if err != nil {
			t.Fatal(err)
		}
		seen = received(t, blocks[0])
		return seen >= n
	})
	if !ok {
		t.Fatalf("the gateway received %d alerts, not %d\n%s", seen, n, w.bus.Log)
	}
}

// received is how many alerts a gateway says that it received.
func received(t *testing.T, health string) int {
	t.Helper()
	var h struct {
		Inbox struct{ Received int } `json:"inbox"`
	}
	if err := json.Unmarshal([]byte(health), &h); err != nil {
		t.Fatalf("health: %v: %s", err, health)
	}
	return h.Inbox.Received
}

// alerts waits for n alerts and observes them.
func (w *world) alerts(t *testing.T, n int) []alert.Alert {
	t.Helper()
	all, err := w.agent.Wait(t.Context(), n, 20*time.Second)
	if err != nil {
		t.Fatalf("%v\n%s", err, w.bus.Log)
	}
	return all
}

func (w *world) next(t *testing.T, within time.Duration) harness.Notification {
	t.Helper()
	n, err := w.agent.Next(t.Context(), within)
	if err != nil {
		t.Fatalf("%v\n%s", err, w.bus.Log)
	}
	return n
}

func get(t *testing.T, url string) harness.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	a, err := harness.Do(req)
	if err != nil {
		return harness.Answer{Body: err.Error()} // not up yet: the caller polls
	}
	return a
}

// freePort is a port that was free a moment ago: for listeners that must keep
// their address over a restart.
func freePort(t *testing.T) int {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}
