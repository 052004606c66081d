package dashboard

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// BenchmarkEvent encodes one alert, which is done once for all readers.
func BenchmarkEvent(b *testing.B) {
	data, err := json.Marshal(alert.Alert{
		ID: "a", Severity: alert.Error, Category: alert.NetworkErrors, Title: "Server error: POST /api/users → 500",
		Detail: "POST http://localhost:3000/api/users answered 500 after 12 ms", Timestamp: time.Now(), Source: alert.SourceNetwork,
		App: "web", URL: "http://localhost:3000/api/users", DedupKey: "POST:/api/users:500", CorrelationID: "a",
		Context: map[string]any{"method": "POST", "url": "/api/users", "status": 500, "duration_ms": 12},
	})
	if err != nil {
		b.Fatal(err)
	}
	mask := redact.New()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := newEvent(bus.Message{Seq: 1, Data: data}, mask); err != nil {
			b.Fatal(err)
		}
	}
}
