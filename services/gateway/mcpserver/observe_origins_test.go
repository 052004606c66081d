package mcpserver_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// TestStatusNamesRefusedPages: the origin and the setting, where ingest refused any.
func TestStatusNamesRefusedPages(t *testing.T) {
	r := newRig(t)
	c := r.dial(t, "")
	c.initialize(t, "2025-11-25")
	if got := c.call(t, "observe", `{"what":"status"}`).blocks[0]; strings.Contains(got, "refused_origins") {
		t.Errorf("without an ingest service: %s, want no refused_origins", got)
	}
	conn := r.Join(t, bus.RoleIngest)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- presence.Serve(ctx, conn, presence.Identify("ingest", "v1", slog.New(slog.DiscardHandler)), func() query.Health {
			return query.Health{OK: true, Ingest: &query.IngestHealth{RefusedOrigins: []query.RefusedOrigin{
				{Origin: "https://evil.example\u202e", Count: 7, Last: time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)},
			}}}
		})
	}()
	want := []string{`"setting":"TOCSIN_ALLOWED_ORIGINS"`, `https://evil.example`, `"count":7`, `"last":"2026-01-28T14:30:00Z"`}
	var got string
	if !testrig.Poll(func() bool {
		got = c.call(t, "observe", `{"what":"status"}`).blocks[0]
		return strings.Contains(got, "refused_origins")
	}) {
		t.Fatalf("status: %s, want refused_origins", got)
	}
	for _, part := range want {
		if !strings.Contains(strings.ReplaceAll(got, `\"`, `"`), part) {
			t.Errorf("status: %s, want %s in it", got, part)
		}
	}
	if strings.Contains(got, "\u202e") {
		t.Errorf("status = %q, want no control characters of outside text", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
