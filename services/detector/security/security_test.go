package security_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
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
			found := security.NewRule(nil).Observe(&rule.Event{Event: event, App: "web"}, time.Time{})
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
			if a.URL != tt.url {
				t.Errorf("URL = %q, want %q", a.URL, tt.url)
			}
			got := []any{a.Severity, a.Category, a.Source, a.Context["type"]}
			if diff := cmp.Diff([]any{alert.Warning, alert.Security, alert.SourceSecurity, tt.event.Type}, got); diff != "" {
				t.Errorf("severity, category, source and type (-want +got):\n%s", diff)
			}
		})
	}
}
