package security_test

import (
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/security"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func TestAlert(t *testing.T) {
	const page = "http://localhost:3000/cart"
	tests := []struct {
		name                    string
		page                    string
		event                   telemetry.Security
		title, detail, key, url string
	}{
		{"blocked", page, telemetry.Security{Type: "csp", Message: "script-src", BlockedURL: "https://cdn.example/lib/12.js?v=3"},
			"Security: csp blocked cdn.example/lib/:id.js", "script-src", "security:web:csp:cdn.example/lib/:id.js", page},
		{"blocked, no message, no page", "", telemetry.Security{Type: "csp", BlockedURL: "inline"},
			"Security: csp blocked inline", "Blocked inline", "security:web:csp:inline", "inline"},
		{"only a message", page, telemetry.Security{Type: "cors", Message: `No header for "x" in 12`},
			"Security: cors No header for <str> in <n>", `No header for "x" in 12`, "security:web:cors:No header for <str> in <n>", page},
		{"only a type", page, telemetry.Security{Type: "mixed_content"},
			"Security: mixed_content", "", "security:web:mixed_content:", page},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			event := &telemetry.Event{URL: tt.page, Security: &tt.event}
			key := string(security.AppendKey(nil, "web", &tt.event))
			a := security.Alert(event, key)
			if a.Title != tt.title || a.Detail != tt.detail || a.DedupKey != tt.key || a.URL != tt.url {
				t.Errorf("got %q\n%q\n%q\n%q", a.Title, a.Detail, a.DedupKey, a.URL)
			}
			if a.Severity != alert.Warning || a.Category != alert.Security || a.Source != alert.SourceSecurity || a.Context["type"] != tt.event.Type {
				t.Errorf("got %+v", a)
			}
		})
	}
}
