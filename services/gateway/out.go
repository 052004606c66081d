package gateway

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
)

// outlet takes messages of JSON-RPC on their way to a client, each whole and
// with a newline at its end.
type outlet interface {
	io.Writer
	// gone says that nobody reads what is written any more.
	gone() bool
}

// lineWriter lets the SDK and the notifier share stdout: each of them writes
// whole lines, newline included, in one Write.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
	// failed says that a write has failed.
	failed atomic.Bool
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.w.Write(p)
	if err != nil {
		l.failed.Store(true)
	}
	return n, err
}

func (l *lineWriter) gone() bool { return l.failed.Load() }

// Close does nothing: stdout is not ours to close.
func (*lineWriter) Close() error { return nil }

// notify writes notifications until ctx ends.
func notify(ctx context.Context, w io.Writer, lines <-chan string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case line := <-lines:
			if _, err := io.WriteString(w, line+"\n"); err != nil {
				return nil //nolint:nilerr // nobody reads any more: the session ends as well, and says so
			}
		}
	}
}
