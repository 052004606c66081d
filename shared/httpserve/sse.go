package httpserve

import (
	"strconv"
	"time"
)

// EventStreamType is the media type of a stream of server-sent events, as the HTML standard
// defines them.
const EventStreamType = "text/event-stream; charset=utf-8"

// ServerSentEvent is one event of a stream.
type ServerSentEvent struct {
	// ID is sent back as Last-Event-ID by a client that reconnects. If it is empty, the
	// client keeps the previous one.
	ID string
	// Name is the event's type, "message" if empty.
	Name string
	// Data must be one line.
	Data []byte
}

// AppendEvent appends an event.
func AppendEvent(dst []byte, e ServerSentEvent) []byte {
	if e.ID != "" {
		dst = append(append(append(dst, "id: "...), e.ID...), '\n')
	}
	if e.Name != "" {
		dst = append(append(append(dst, "event: "...), e.Name...), '\n')
	}
	dst = append(append(dst, "data: "...), e.Data...)
	return append(dst, "\n\n"...)
}

// AppendRetry appends how long a client waits before it reconnects. It does not end an event:
// call AppendEvent or AppendComment next.
func AppendRetry(dst []byte, wait time.Duration) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), wait.Milliseconds(), 10)
	return append(dst, '\n')
}

// AppendComment appends a comment of one line, which clients ignore. It shows that the stream
// is alive.
func AppendComment(dst []byte, text string) []byte {
	return append(append(append(dst, ": "...), text...), "\n\n"...)
}
