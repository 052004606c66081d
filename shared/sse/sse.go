// Package sse writes server-sent events, as the HTML standard has them.
package sse

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// ContentType is that of a stream of events.
const ContentType = "text/event-stream; charset=utf-8"

// Event is one event of a stream.
type Event struct {
	// ID is what a client that reconnects sends as Last-Event-ID. Empty: it keeps the one
	// before.
	ID string
	// Name is the event's type. Empty: message.
	Name string
	// Data must be one line.
	Data []byte
}

// Append writes an event.
func Append(dst []byte, e Event) []byte {
	if e.ID != "" {
		dst = append(append(append(dst, "id: "...), e.ID...), '\n')
	}
	if e.Name != "" {
		dst = append(append(append(dst, "event: "...), e.Name...), '\n')
	}
	dst = append(append(dst, "data: "...), e.Data...)
	return append(dst, "\n\n"...)
}

// AppendRetry writes how long a client that loses the stream waits before it reconnects.
// Another line has to follow.
func AppendRetry(dst []byte, wait time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), wait.Milliseconds(), 10)
	return append(dst, '\n')
}

// AppendComment writes a comment, which clients ignore: it shows that the stream is
// alive. The text must be one line.
func AppendComment(dst []byte, text string) []byte {
	return append(append(append(dst, ": "...), text...), "\n\n"...)
}

// Writer sends events to one client. It has no lock.
type Writer struct {
	w       http.ResponseWriter
	out     *http.ResponseController
	timeout time.Duration
}

// NewWriter makes a writer. One write may take up to timeout, after which the client is
// taken for gone.
func NewWriter(w http.ResponseWriter, timeout time.Duration) *Writer {
	return &Writer{w, http.NewResponseController(w), timeout}
}

// Send writes events and flushes them. Where deadlines can't be set, the end of the
// connection ends a write.
func (w *Writer) Send(events []byte) error {
	if err := w.out.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.w.Write(events); err != nil {
		return err
	}
	return w.out.Flush()
}

// Expire sets the deadline of a write that is under way. It may be called from another
// goroutine.
func (w *Writer) Expire(at time.Time) error { return w.out.SetWriteDeadline(at) }
