package mcpserver

import (
	"log/slog"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpserve/httpservetest"
)

// TestHTTPReference checks that the reference page lists every route.
func TestHTTPReference(t *testing.T) {
	h := newHTTPServer(t.Context(), Config{Bus: bus.Config{URL: "nats://127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler)}, HTTPConfig{})
	httpservetest.CheckReference(t, "../../../docs/reference/http.md", "Gateway", h.front.Routes())
}
