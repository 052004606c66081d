package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// writeWithin bounds one write to a client over HTTP. One that reads no faster
// loses the stream, not the session.
const writeWithin = 10 * time.Second

// errClosed says that an HTTP response can take no more.
var errClosed = errors.New("the client has closed the response")

// reply is an HTTP response that the SDK and the gateway write to: the SDK what
// it knows, the gateway notifications of methods that the SDK doesn't. Each
// writes whole events of a stream of server-sent events, in one Write.
type reply struct {
	// ctx is the request's: it ends when the client has closed the response.
	ctx context.Context
	// opened is called once the response has become a stream of events. It may
	// be nil.
	opened func()
	// guest is whose request it answers, once that is known.
	guest atomic.Pointer[guest]

	mu     sync.Mutex
	w      http.ResponseWriter
	begun  bool
	stream bool
	closed bool
}

// Header implements http.ResponseWriter.
func (r *reply) Header() http.Header { return r.w.Header() }

// WriteHeader implements http.ResponseWriter.
func (r *reply) WriteHeader(status int) {
	r.mu.Lock()
	first := !r.begun
	r.begin(status)
	r.mu.Unlock()
	if first && r.stream && r.opened != nil {
		r.opened()
	}
}

// begin writes the header, once.
func (r *reply) begin(status int) {
	if r.begun || r.closed {
		return
	}
	r.begun = true
	r.stream = status == http.StatusOK && strings.HasPrefix(r.w.Header().Get("Content-Type"), "text/event-stream")
	r.w.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *reply) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(http.StatusOK)
	return r.write(p)
}

// write needs mu.
func (r *reply) write(p []byte) (int, error) {
	if r.closed {
		return 0, errClosed
	}
	// Where deadlines can't be set, the end of the connection ends a write.
	_ = http.NewResponseController(r.w).SetWriteDeadline(time.Now().Add(writeWithin))
	return r.w.Write(p)
}

// FlushError implements what http.ResponseController asks for.
func (r *reply) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed
	}
	return http.NewResponseController(r.w).Flush()
}

// message writes one message of JSON-RPC as an event of the stream. A newline at
// its end is left out.
func (r *reply) message(line []byte) error {
	event := append([]byte("event: message\ndata: "), bytes.TrimRight(line, "\n")...)
	event = append(event, "\n\n"...)
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

// finish keeps everybody from the response: its handler is about to return.
func (r *reply) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// cut ends a write that is under way, and keeps others from beginning: the client
// does not read.
func (r *reply) cut() {
	if !r.mu.TryLock() { // who writes has it
		// Where there are no deadlines the end of the connection ends the write.
		_ = http.NewResponseController(r.w).SetWriteDeadline(time.Now())
		r.mu.Lock()
	}
	r.closed = true
	r.mu.Unlock()
}

// hurry ends a write that is under way, and with it the stream. One that is between
// two writes is left alone.
func (r *reply) hurry() {
	if r.mu.TryLock() {
		r.mu.Unlock()
		return
	}
	// Where there are no deadlines the client has writeWithin.
	_ = http.NewResponseController(r.w).SetWriteDeadline(time.Now())
}

// gone says that the client has closed the response.
func (r *reply) gone() bool { return r.ctx.Err() != nil }

// push is where a client listens for what it did not ask for: the response to
// its GET. Without one, what is to be written waits for it.
type push struct {
	life context.Context

	mu sync.Mutex
	to *reply
	// changed is closed when to changes.
	changed chan struct{}
}

func newPush(life context.Context) *push {
	return &push{life: life, changed: make(chan struct{})}
}

// attach takes a stream that was opened, in place of the one before.
func (p *push) attach(to *reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(to)
}

// detach forgets a stream that has ended.
func (p *push) detach(to *reply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.to == to {
		p.set(nil)
	}
}

// set needs mu.
func (p *push) set(to *reply) {
	p.to = to
	close(p.changed)
	p.changed = make(chan struct{})
}

// await implements outlet: a stream is open.
func (p *push) await(ctx context.Context) (lost <-chan struct{}, ok bool) {
	for {
		p.mu.Lock()
		to, changed := p.to, p.changed
		p.mu.Unlock()
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

// Write implements outlet. It waits for a stream as long as the client is
// there; the session in front of it has a bound.
func (p *push) Write(line []byte) (int, error) {
	for {
		if _, ok := p.await(p.life); !ok {
			return 0, errClosed
		}
		if p.offer(line) == nil {
			return len(line), nil
		}
	}
}

// offer implements outlet. A stream that takes nothing is no longer one.
func (p *push) offer(line []byte) error {
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	if to == nil {
		return errClosed
	}
	err := to.message(line)
	if err != nil {
		p.detach(to)
	}
	return err
}

// hurry implements outlet: who does not read loses the stream, and may open another.
func (p *push) hurry() {
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	if to != nil {
		to.hurry()
	}
}

// gone implements outlet: a client may always open a stream again.
func (p *push) gone() bool { return p.life.Err() != nil }
