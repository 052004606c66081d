package network_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/network"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func TestSeverity(t *testing.T) {
	const none = alert.Severity("")
	for status, want := range map[int]alert.Severity{
		0: alert.Error, 100: none, 200: none, 304: none, 400: none, 401: alert.Warning, 402: none, 403: alert.Warning,
		404: none, 418: none, 429: alert.Warning, 499: none, 500: alert.Error, 503: alert.Error, 599: alert.Error, 600: none,
	} {
		got, ok := network.Severity(status)
		if got != want || ok != (want != none) {
			t.Errorf("Severity(%d) = %q, %v, want %q, %v", status, got, ok, want, want != none)
		}
		if got, want := network.Failed(status), want == alert.Error; got != want {
			t.Errorf("Failed(%d) = %v, want %v", status, got, want)
		}
	}
}

func TestAlert(t *testing.T) {
	tests := []struct {
		name               string
		request            telemetry.Network
		title, detail, key string
		url                string // in the context
	}{
		{"a server error", telemetry.Network{Method: "POST", URL: "http://localhost:3000/api/users", Status: 500, DurationMS: 234},
			"Server error: POST /api/users → 500", "Request failed with Internal Server Error", "POST:/api/users:500", "/api/users"},
		{"no answer", telemetry.Network{Method: "GET", URL: "/x", Error: "net::ERR_CONNECTION_REFUSED"},
			"Request failed: GET /x", "Request failed: net::ERR_CONNECTION_REFUSED", "GET:/x:0", "/x"},
		{"no answer and no error", telemetry.Network{Method: "GET", URL: "/x"},
			"Request failed: GET /x", "Request failed without an answer", "GET:/x:0", "/x"},
		{"ids and query", telemetry.Network{Method: "put", URL: "https://api.example/users/42?token=[REDACTED]#a", Status: 403, Error: "not yours"},
			"Server error: PUT /users/:id → 403", "Request failed with Forbidden: not yours", "PUT:/users/:id:403", "/users/42?token=[REDACTED]"},
		{"a status without a name", telemetry.Network{Method: "GET", URL: "/x", Status: 599},
			"Server error: GET /x → 599", "Request failed with status 599", "GET:/x:599", "/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			page := template.Page(tt.request.URL)
			found := network.NewRule(nil).Observe(&rule.Event{Event: &telemetry.Event{Network: &tt.request}, Template: []byte(page)}, time.Time{})
			if len(found) != 1 {
				t.Fatalf("%d findings, want 1", len(found))
			}
			if got := string(found[0].Key); got != tt.key {
				t.Errorf("dedup key = %q, want %q", got, tt.key)
			}
			a := found[0].Make()
			if a.Title != tt.title {
				t.Errorf("title = %q, want %q", a.Title, tt.title)
			}
			if a.Detail != tt.detail {
				t.Errorf("detail = %q, want %q", a.Detail, tt.detail)
			}
			if a.URL != tt.request.URL {
				t.Errorf("URL = %q, want %q", a.URL, tt.request.URL)
			}
			want := map[string]any{"url": tt.url, "status": tt.request.Status, "duration_ms": tt.request.DurationMS, "method": a.Context["method"], alert.EndpointKey: fmt.Sprint(a.Context["method"], " ", page)}
			if diff := cmp.Diff(want, a.Context); diff != "" {
				t.Errorf("context (-want +got):\n%s", diff)
			}
			if a.Category != alert.NetworkErrors || a.Source != alert.SourceNetwork {
				t.Errorf("category, source = %q, %q, want %q, %q", a.Category, a.Source, alert.NetworkErrors, alert.SourceNetwork)
			}
		})
	}
}

func BenchmarkAlert(b *testing.B) {
	b.ReportAllocs()
	request := &telemetry.Network{Method: "POST", URL: "http://localhost:3000/api/users", Status: 500, DurationMS: 234}
	for b.Loop() {
		network.Alert(request, "/api/users")
	}
}
