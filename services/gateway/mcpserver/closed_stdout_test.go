package mcpserver_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// journal collects what a gateway logs at level error.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Split(strings.TrimSpace(j.text.String()), "\n")
}

// TestClosedStdoutIsLogged closes stdout of a gateway with notifications enabled: it logs
// the notification that it could not write, stays, and ends with an error at the next
// answer.
func TestClosedStdoutIsLogged(t *testing.T) {
	t.Parallel() // it waits for the throttle
	r := newRig(t)
	stdin, in := io.Pipe()
	out, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log := &journal{}
	done := make(chan error, 1)
	go func() {
		done <- mcpserver.ServeStdio(context.WithoutCancel(t.Context()), mcpserver.Config{
			Bus: bus.Config{Dir: r.Dir}, Client: "slow", Dir: "/work", Stdin: stdin, Stdout: stdout, Version: "1.2.3",
			Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError})),
		})
	}()
	c := &client{in: in, lines: make(chan string, 1000), done: done}
	read := make(chan struct{})
	go func() {
		defer close(read)
		scan(out, c.lines)
	}()
	c.initialize(t, "2025-11-25")
	if got := c.call(t, "configure_streaming", `{"action":"enable","throttle_seconds":1}`); got.isError {
		t.Fatalf("got %v, want no error", got.blocks)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	<-read
	r.Publish(t, r.Alert(alert.Error))
	if !testrig.Poll(func() bool {
		return strings.Contains(strings.Join(log.lines(), "\n"), "cannot write a notification to the client")
	}) {
		t.Fatalf("got log %q, want a line about the notification", log.lines())
	}
	c.send(t, "tools/list", `{}`)
	select {
	case err := <-done:
		if err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("got %v at the next answer, want the error of the write", err)
		}
	case <-time.After(patience):
		t.Error("the gateway does not end at the next answer")
	}
	if got := log.lines(); len(got) != 1 {
		t.Errorf("got %d lines, want 1: %q", len(got), got)
	}
	_, _ = in.Close(), stdout.Close()
}
