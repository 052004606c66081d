package alerts

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestFloodOfOneWarningIsAFewLines has the role with the fewest rights make the server
// republish all stored alerts as live ones. A log line for each would fill the disk.
func TestFloodOfOneWarningIsAFewLines(t *testing.T) {
	t.Parallel()
	const alerts, requests, few = 300, 3, 10
	sys := e2etest.Start(t)
	for i := range alerts {
		sys.PostCI(t, map[string]any{"status": "failure", "commit": fmt.Sprint("c", i)})
	}
	sys.WaitReceived(t, alerts)
	c, err := bus.Connect(t.Context(), bus.Config{Name: "flood", Role: bus.RoleDashboard, Dir: statedir.At(sys.Bus.StateDir), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !harness.Poll(t.Context(), 10*time.Second, c.Connected) {
		t.Fatal("timed out: no connection to the bus")
	}
	heard := make(chan struct{}, requests*alerts+requests)
	if _, err := c.NC.Subscribe("live.alerts.evil.x.y", func(*nats.Msg) { heard <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	for range requests {
		if err := c.NC.PublishRequest("$JS.API.DIRECT.GET.ALERTS", "live.alerts.evil.x.y", []byte(`{"batch":1000000,"seq":1,"next_by_subj":"alerts.>"}`)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range requests * alerts {
		select {
		case <-heard:
		case <-time.After(20 * time.Second):
			t.Fatalf("timed out: %d messages of the flood arrived, want %d", n, requests*alerts)
		}
	}
	// This alert is read after the flood.
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "after"})
	page := e2etest.Get(t, sys.Bus.DashboardURL+"/api/alerts")
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		page = e2etest.Get(t, sys.Bus.DashboardURL+"/api/alerts")
		return strings.Contains(page.Body, "after")
	}) {
		t.Fatalf("timed out: the page's alerts = %d %.300s, want the alert after the flood", page.Status, page.Body)
	}
	skipped := func() int { return strings.Count(sys.Bus.Log.String(), "ignored a message that is not") }
	if got := skipped(); got == 0 || got > few {
		t.Errorf("got %d lines about %d messages, want 1 to %d", got, requests*alerts, few)
	}
	if err := sys.Bus.Stop(); err != nil {
		t.Error(err)
	}
	if log := sys.Bus.Log.String(); skipped() > 2*few || !strings.Contains(log, "repeated=") && !strings.Contains(log, "similar=") {
		t.Errorf("log =\n%s\nwant the skipped messages counted, at most %d", log, 2*few)
	}
}
