package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// writeTimeout bounds one write to a client over HTTP. A client that reads too slowly loses
// the stream, not the session.
const writeTimeout = 10 * time.Second

// errClosed is returned by writes to an HTTP response that is closed.
var errClosed = errors.New("the client has closed the response")

// response is an HTTP response that the SDK and this package write to. This package writes
// the notifications whose methods the SDK does not know. Each Write is one whole server-sent
// event.
type response struct {
	// ctx is the request's: it ends when the client has closed the response.
	ctx context.Context
	// opened is called once the response has become a stream of events. It may be nil.
	opened func()
	// client is the client whose request it answers, once that is known.
	client atomic.Pointer[httpClient]

	mu     sync.Mutex
	w      http.ResponseWriter
	begun  bool
	stream bool
	closed bool
}

// Header implements [http.ResponseWriter].
func (r *response) Header() http.Header { return r.w.Header() }

// WriteHeader implements [http.ResponseWriter].
func (r *response) WriteHeader(status int) {
	r.mu.Lock()
	first := !r.begun
	r.begin(status)
	r.mu.Unlock()
	if first && r.stream && r.opened != nil {
		r.opened()
	}
}

// begin writes the header, once. The caller holds mu.
func (r *response) begin(status int) {
	if r.begun || r.closed {
		return
	}
	r.begun = true
	r.stream = status == http.StatusOK && strings.HasPrefix(r.w.Header().Get("Content-Type"), "text/event-stream")
	r.w.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (r *response) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(http.StatusOK)
	return r.write(p)
}

// write writes with a deadline. The caller holds mu.
func (r *response) write(p []byte) (int, error) {
	if r.closed {
		return 0, errClosed
	}
	// Where deadlines can't be set, the end of the connection ends a write.
	_ = http.NewResponseController(r.w).SetWriteDeadline(time.Now().Add(writeTimeout))
	return r.w.Write(p)
}

// FlushError flushes the response; [http.ResponseController] calls it.
func (r *response) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	return http.NewResponseController(r.w).Flush()
}

// message writes one JSON-RPC message as an event of the stream. A newline at its end is
// left out.
func (r *response) message(line []byte) error {
	event := httpserve.AppendEvent(nil, httpserve.ServerSentEvent{Name: "message", Data: bytes.TrimRight(line, "\n")})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(http.StatusOK)
	if !r.stream {
		return errClosed
	}
	if _, err := r.write(event); err != nil {
		return err
	}
	return http.NewResponseController(r.w).Flush()
}

// finish refuses all further writes: the handler is about to return.
func (r *response) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// cut ends a write that is under way, and refuses all further ones: the client does not
// read.
func (r *response) cut() {
	if !r.mu.TryLock() { // a write is under way
		// Where there are no deadlines the end of the connection ends the write.
		_ = http.NewResponseController(r.w).SetWriteDeadline(time.Now())
		r.mu.Lock()
	}
	r.closed = true
	r.mu.Unlock()
}

// interrupt ends a write that is under way, and with it the stream. A stream that is
// between two writes is left alone.
func (r *response) interrupt() {
	if r.mu.TryLock() {
		r.mu.Unlock()
		return
	}
	// Where there are no deadlines the client has writeTimeout.
	_ = http.NewResponseController(r.w).SetWriteDeadline(time.Now())
}

// gone reports whether the client has closed the connection.
func (r *response) gone() bool { return r.ctx.Err() != nil }

// listenStream is the response to a client's GET, on which it receives unsolicited messages.
// They wait while there is none. It implements [output].
type listenStream struct {
	// ctx ends with the client.
	ctx context.Context

	mu sync.Mutex
	// to is the current stream, or nil.
	to *response
	// changed is closed when to changes.
	changed chan struct{}
}

func newListenStream(ctx context.Context) *listenStream {
	return &listenStream{ctx: ctx, changed: make(chan struct{})}
}

// attach takes a stream that was opened, in place of the one before.
func (l *listenStream) attach(to *response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(to)
}

// detach forgets a stream that has ended.
func (l *listenStream) detach(to *response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == to {
		l.set(nil)
	}
}

// set replaces the stream. The caller holds mu.
func (l *listenStream) set(to *response) {
	l.to = to
	close(l.changed)
	l.changed = make(chan struct{})
}

// Await implements kubernetes.Writer: the client listens while a stream is open.
func (l *listenStream) Await(ctx context.Context) (lost <-chan struct{}, ok bool) {
	for {
		l.mu.Lock()
		to, changed := l.to, l.changed
		l.mu.Unlock()
		if to != nil {
			return changed, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// Write implements [output]. It waits for a stream as long as the client is there; the
// queue before it has a bound.
func (l *listenStream) Write(line []byte) (int, error) {
	for {
		if _, ok := l.Await(l.ctx); !ok {
			return 0, errClosed
		}
		if l.TryWrite(line) == nil {
			return len(line), nil
		}
	}
}

// TryWrite implements kubernetes.Writer. It detaches a stream after a failed write.
func (l *listenStream) TryWrite(line []byte) error {
	l.mu.Lock()
	to := l.to
	l.mu.Unlock()
	if to == nil {
		return errClosed
	}
	err := to.message(line)
	if err != nil {
		l.detach(to)
	}
	return err
}

// Interrupt implements kubernetes.Writer: a client that does not read loses the stream,
// and may open another.
func (l *listenStream) Interrupt() {
	l.mu.Lock()
	to := l.to
	l.mu.Unlock()
	if to != nil {
		to.interrupt()
	}
}

// Gone implements kubernetes.Writer: a client may always open a stream again.
func (l *listenStream) Gone() bool { return l.ctx.Err() != nil }
