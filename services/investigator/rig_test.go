package investigator

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// maskHunter masks the secret of the tests.
func maskHunter(text string) string { return strings.ReplaceAll(text, "hunter2", "[MASKED]") }

// restConfig is the configuration of the tests of REST.
const restConfig = `
llm_providers:
  local: { type: openai, model: m, base_url: "http://127.0.0.1:1/v1", api_key_env: "" }
mcp_servers:
  own: { transport: { type: http, url: "http://127.0.0.1:1/" } }
  chosen: { transport: { type: http, url: "http://127.0.0.1:1/" }, selectable: true }
agents:
  triage: { mcp_servers: [own] }
agent_chains:
  crash: { alert_types: [crash], stages: [{ name: look, agents: [{ name: triage }] }] }
defaults: { llm_provider: local, alert_type: crash }
queue: { max_queued_sessions: 8, max_per_hour: 3 }
`

// restRig is a backend on a bus, behind a real handler.
type restRig struct {
	*backend
	t       *testing.T
	bus     *bustest.Bus
	session *bus.Session
	handler *handler
	config  atomic.Pointer[config.Config]
}

func parseConfig(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, _, err := config.Parse([]byte(text), "investigator.yaml", func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func newRESTRig(t *testing.T, change func(*handlerConfig)) *restRig {
	t.Helper()
	r := &restRig{t: t, bus: bustest.Start(t)}
	r.session = r.bus.Connect(bus.RoleInvestigator)
	r.config.Store(parseConfig(t, restConfig))
	r.backend = r.open()
	cfg := handlerConfig{
		addr: "127.0.0.1:7490", version: "v1", config: r.config.Load, registry: toolbox.NewRegistry(nil), warnings: &warnings{},
		metrics: prometheus.NewRegistry(), reachable: func() error { return nil }, logger: bustest.Quiet(),
	}
	if change != nil {
		change(&cfg)
	}
	r.handler = newHandler(cfg)
	r.handler.backend.Store(r.backend)
	return r
}

// open runs a backend until the end of the test.
func (r *restRig) open() *backend {
	r.t.Helper()
	alerts, err := newAlertStore(r.session)
	if err != nil {
		r.t.Fatal(err)
	}
	b, err := newBackend(backendConfig{
		session: r.session, alerts: alerts.Find, config: r.config.Load, logger: bustest.Quiet(),
		mask: maskHunter,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	b.revisions = newRevisions(r.t, r.session)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			r.t.Errorf("following the sessions ended with %v, want %v", err, context.Canceled)
		}
	})
	return b
}

// response is an answer of the handler.
type response struct {
	status int
	header http.Header
	body   string
}

func (a response) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

// send sends a request of this machine. The headers are names and values in turn.
func (r *restRig) send(method, path, body string, header ...string) response {
	r.t.Helper()
	req := httptest.NewRequest(method, "http://127.0.0.1:7490"+path, strings.NewReader(body))
	req.RemoteAddr = "127.0.0.1:1234"
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "From" {
			req.RemoteAddr = header[i+1]
			continue
		}
		if strings.HasPrefix(header[i], "=") {
			req.Header.Set(header[i][1:], header[i+1])
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	return response{w.Code, w.Header(), strings.TrimSpace(w.Body.String())}
}

func (r *restRig) get(path string, into any) {
	r.t.Helper()
	a := r.send("GET", path, "")
	if a.status != http.StatusOK {
		r.t.Fatalf("GET %s: %d %s, want 200", path, a.status, a.body)
	}
	a.decode(r.t, into)
}

// post submits an alert, and returns the id of its session.
func (r *restRig) post(body string, header ...string) string {
	r.t.Helper()
	a := r.send("POST", "/api/v1/alerts", body, header...)
	if a.status != http.StatusAccepted {
		r.t.Fatalf("POST /alerts %s: %d %s, want 202", body, a.status, a.body)
	}
	var answer Answer
	a.decode(r.t, &answer)
	return answer.SessionID
}

// store appends facts to a session, as a worker does.
func (r *restRig) store(id string, facts ...session.Fact) {
	r.t.Helper()
	err := r.log.change(r.t.Context(), id, func(*session.Session) ([]session.Fact, error) { return facts, nil })
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *restRig) claim(id string, epoch int) {
	r.t.Helper()
	r.store(id, session.Fact{Claimed: &session.Claimed{Worker: "w", Epoch: epoch}})
}

func (r *restRig) end(id string, status session.Status) {
	r.t.Helper()
	r.store(id, session.Fact{Ended: &session.Ended{Status: status, Error: "because"}})
}
