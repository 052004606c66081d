package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestNotifyLogsOneFailure offers many notifications to a writer that fails: all are
// taken, so that they do not pile up, and one line is logged.
func TestNotifyLogsOneFailure(t *testing.T) {
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	lines, done := make(chan string), make(chan error, 1)
	go func() {
		done <- writeNotifications(ctx, &lineWriter{w: brokenWriter{}}, lines, slog.New(slog.NewTextHandler(&log, nil)))
	}()
	for range 32 {
		lines <- "line"
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := strings.Count(log.String(), "\n"); got != 1 || !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "broken pipe") {
		t.Errorf("got %d lines, want one error with the reason: %s", got, log.String())
	}
}
