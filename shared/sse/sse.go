// Package sse formats server-sent events, as the HTML standard defines them. It is pure:
// the caller sets deadlines and flushes.
package sse

import (
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
