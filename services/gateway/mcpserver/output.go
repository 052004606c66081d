package mcpserver

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
)

// output takes JSON-RPC messages that a client did not request, each whole and with a
// newline at its end. Write waits until the client listens.
type output interface {
	io.Writer
	kubernetes.Writer
}

// lineWriter lets the SDK and the notifier share stdout. Each Write is whole lines with
// their newlines.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
	// failed reports whether a write has failed.
	failed atomic.Bool
}

// Write implements [output].
func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.w.Write(p)
	if err != nil {
		l.failed.Store(true)
	}
	return n, err
}

// TryWrite implements [kubernetes.Writer].
func (l *lineWriter) TryWrite(line []byte) error {
	_, err := l.Write(line)
	return err
}

// Await implements [kubernetes.Writer]: a client on stdout always listens.
func (*lineWriter) Await(context.Context) (lost <-chan struct{}, ok bool) { return nil, true }

// Interrupt implements [kubernetes.Writer]. It does nothing: a client that does not read
// stdout gets no answers either.
func (*lineWriter) Interrupt() {}

// Gone implements [kubernetes.Writer].
func (l *lineWriter) Gone() bool { return l.failed.Load() }

// Close does nothing: the caller owns stdout.
func (*lineWriter) Close() error { return nil }

// writeNotifications writes notifications until ctx ends. It takes one only while the client
// listens; until then it can still be withdrawn. After a failed write it logs the reason
// once, and discards the rest: the inbox has their alerts.
func writeNotifications(ctx context.Context, w output, lines <-chan string, log *slog.Logger) error {
	for {
		lost, ok := w.Await(ctx)
		if !ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-lost:
		case line := <-lines:
			if _, err := io.WriteString(w, line+"\n"); err != nil {
				if ctx.Err() == nil {
					log.Error("cannot write a notification to the client: no more are sent; observe still has their alerts", "error", err)
				}
				return discard(ctx, lines)
			}
		}
	}
}

// discard receives lines until ctx ends, so that they do not fill the queue.
func discard(ctx context.Context, lines <-chan string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-lines:
		}
	}
}
