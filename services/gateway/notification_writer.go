package gateway

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
)

// outlet takes messages of JSON-RPC on their way to a client, each whole and
// with a newline at its end.
type outlet interface {
	io.Writer
	// offer writes a line at once, or fails: also where nobody reads for now.
	offer(line []byte) error
	// hurry ends a write that is under way, where that is possible: what was being
	// written has to be written again.
	hurry()
	// gone says that nobody reads what is written any more.
	gone() bool
	// await waits until somebody reads, and says whether somebody does: ctx may end
	// before. lost is closed when that is no longer so.
	await(ctx context.Context) (lost <-chan struct{}, ok bool)
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

func (l *lineWriter) offer(line []byte) error {
	_, err := l.Write(line)
	return err
}

func (*lineWriter) await(context.Context) (lost <-chan struct{}, ok bool) { return nil, true }

// hurry can't: who does not read stdout gets no answer either.
func (*lineWriter) hurry() {}

func (l *lineWriter) gone() bool { return l.failed.Load() }

// Close does nothing: stdout is not ours to close.
func (*lineWriter) Close() error { return nil }

// writeNotifications writes notifications until ctx ends. It takes each when somebody reads
// it: what waits until then can still be taken back. After a write that failed it
// logs the reason once, and discards the rest: the inbox has their alerts.
func writeNotifications(ctx context.Context, w outlet, lines <-chan string, log *slog.Logger) error {
	for {
		lost, ok := w.await(ctx)
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

// discard takes lines until ctx ends, so that they do not pile up.
func discard(ctx context.Context, lines <-chan string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-lines:
		}
	}
}
