package httpserve_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// TestServeStops: a request under way gets its answer, and a connection without a
// request delays nothing.
func TestServeStops(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- httpserve.Serve(ctx, l, &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(asked)
			<-answer
			w.WriteHeader(http.StatusTeapot)
		})}, slog.New(slog.DiscardHandler))
	}()
	silent, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	got := make(chan int, 1)
	go func() {
		resp, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			got <- 0
			return
		}
		_ = resp.Body.Close()
		got <- resp.StatusCode
	}()
	<-asked
	start := time.Now()
	stop()
	close(answer)
	if err := <-served; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if status := <-got; status != http.StatusTeapot {
		t.Errorf("status of the request under way = %d, want %d", status, http.StatusTeapot)
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("Serve took %s to stop, want less than 4 s: it waited for the silent connection", took)
	}
}
