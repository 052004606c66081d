package mcpserver_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// page requests a path other than MCP's.
func page(t *testing.T, url, path string, header ...string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(url, "/mcp")+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, strings.TrimSpace(string(data))
}

// TestHealthPages: an orchestrator and Prometheus need no token, a page of another site
// sees nothing, and readiness follows the bus.
func TestHealthPages(t *testing.T) {
	r := newRig(t)
	r.Down()
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{Token: "secret"})
	if status, body := page(t, url, "/healthz"); status != 200 || body != `{"ok":true}` {
		t.Errorf("/healthz = %d %s, want 200 and ok", status, body)
	}
	if status, body := page(t, url, "/readyz"); status != 503 || body != `{"ok":false,"error":"the bus is unreachable"}` {
		t.Errorf("/readyz without a bus = %d %s, want 503 with the reason", status, body)
	}
	ready := func(want int) {
		t.Helper()
		var status int
		var body string
		if !testrig.Poll(func() bool { status, body = page(t, url, "/readyz"); return status == want }) {
			t.Fatalf("not %d but %d: %s", want, status, body)
		}
	}
	r.Up(t)
	ready(200)
	for _, path := range []string{"/readyz", "/metrics"} {
		if status, _ := page(t, url, path, "Origin", "http://evil.example"); status != 403 {
			t.Errorf("%s for a page of another site = %d, want 403", path, status)
		}
	}
	r.Down()
	ready(503)
	if _, body := page(t, url, "/metrics"); !strings.Contains(body, "tocsin_gateway_bus_connected 0\n") {
		t.Errorf("/metrics without a bus =\n%s\nwant bus_connected 0", body)
	}
	r.Up(t)
	ready(200)
}

func TestHTTPMetrics(t *testing.T) {
	r := newRig(t)
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{})
	s, _ := join(t, url)
	tool(t, s, "observe", nil)
	r.Publish(t, r.Alert(alert.Error))
	has := func(lines ...string) {
		t.Helper()
		var body string
		if !testrig.Poll(func() bool {
			_, body = page(t, url, "/metrics")
			for _, line := range lines {
				if !strings.Contains("\n"+body+"\n", "\n"+line+"\n") {
					return false
				}
			}
			return true
		}) {
			t.Fatalf("/metrics =\n%s\nwant the lines %q", body, lines)
		}
	}
	has("tocsin_gateway_clients 1", "tocsin_gateway_clients_total 1", "tocsin_gateway_inbox_alerts 1",
		"tocsin_gateway_clients_limit 64", "tocsin_gateway_refused_total 0", "tocsin_gateway_bus_connected 1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	has("tocsin_gateway_clients 0", "tocsin_gateway_clients_total 1", "tocsin_gateway_inbox_alerts 0")
}
