package commands

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestTailMasks checks that the terminal gets neither a secret nor a control character
// that a detector of another version left in an alert.
func TestTailMasks(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	conn, err := bus.Connect(t.Context(), bus.Config{
		Name: "careless detector", Role: bus.RoleDetector, Dir: statedir.At(b.StateDir), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !harness.Poll(t.Context(), 10*time.Second, conn.Connected) {
		t.Fatal("timed out: no connection to the bus")
	}
	secret := "ghp_" + strings.Repeat("a1B2c3", 6)
	data, err := json.Marshal(alert.Alert{
		ID: "one", Severity: alert.Error, Category: alert.CI, Title: "built with " + secret, Detail: "token " + secret + " \u009b31m end",
		Timestamp: time.Now(), Source: "ci_webhook", App: "web", DedupKey: "k", Context: map[string]any{"summary": secret},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := bus.NewPublisher(conn, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: data}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"tail"}, {"tail", "--json"}} {
		tail := e2etest.Run(t, b.StateDir, args...)
		if !harness.Poll(t.Context(), 20*time.Second, func() bool { return strings.Contains(tail.Stdout.String(), " end") }) {
			t.Fatalf("timed out: %v prints\n%s%s\nwant a line with \" end\"", args, tail.Stdout, tail.Log)
		}
		out := tail.Stdout.String()
		if strings.Contains(out, secret) || !strings.Contains(out, "[REDACTED") || strings.Contains(out, "\u009b") {
			t.Errorf("%v: got %q, want no %q in it, \"[REDACTED\" in it and no \"\\u009b\" in it", args, out, secret)
		}
		if line := strings.TrimSpace(out); len(args) == 2 && !json.Valid([]byte(line)) {
			t.Errorf("output = %s, want JSON", line)
		}
	}
}
