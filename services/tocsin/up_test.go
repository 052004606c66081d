package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/service"
)

// TestIdleTimeBeginsAfterTheStart checks that even a bus with a very short idle time announces
// itself before it stops.
func TestIdleTimeBeginsAfterTheStart(t *testing.T) {
	line, err := parsed(t, "up", "--idle-exit=1ms", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0",
		"--ingest-addr=127.0.0.1:0", "--otlp-addr=127.0.0.1:0", "--dashboard-addr=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	env := service.Env{StateDir: t.TempDir(), Stdout: &out, Logger: slog.New(slog.DiscardHandler)}
	if err := line.Up.Run(t.Context(), env); err != nil {
		t.Errorf("up = %v, want nil", err)
	}
	if got, want := out.String(), "tocsin is up"; !strings.HasPrefix(got, want) {
		t.Errorf("output = %q, want it to begin with %q", got, want)
	}
}
