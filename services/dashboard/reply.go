package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// retryAfter is when to try again, in seconds.
	retryAfter = "1"
	// maxRefusal is the longest text of a refusal, in characters.
	maxRefusal = 1000
)

// refusal is an error that a request is answered with.
type refusal struct {
	status int
	text   string
	// header are names and values in turn.
	header []string
}

func (e *refusal) Error() string { return e.text }

// refuse makes a refusal: its text names what is wrong and what is allowed.
func refuse(status int, text string, header ...string) *refusal {
	return &refusal{status: status, text: text, header: header}
}

// refused is the refusal that an error is told as.
func refused(err error) *refusal {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, context.Canceled):
		return refuse(http.StatusServiceUnavailable, "the dashboard is ending: try again", "Retry-After", retryAfter)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return refuse(http.StatusServiceUnavailable, "the bus does not answer: tocsin doctor says what is wrong", "Retry-After", retryAfter)
	case errors.Is(err, bus.ErrAway):
		return refuse(http.StatusServiceUnavailable, "the bus is away: tocsin doctor says what is wrong", "Retry-After", retryAfter)
	default:
		return refuse(http.StatusServiceUnavailable, err.Error(), "Retry-After", retryAfter)
	}
}

// write answers with the refusal.
func (e *refusal) write(w http.ResponseWriter) {
	for i := 0; i < len(e.header); i += 2 {
		w.Header().Set(e.header[i], e.header[i+1])
	}
	writeJSON(w, e.status, struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}{false, sanitize.Cut(sanitize.Visible(e.text), maxRefusal)})
}

// done is the answer to what was done and has nothing more to tell.
type done struct {
	OK bool `json:"ok"`
}

// writeJSON answers with a value. <, > and & stand in it as they are: it is read
// as JSON, and nothing else, by whoever obeys its Content-Type.
func writeJSON(w http.ResponseWriter, status int, value any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		status = http.StatusInternalServerError
		body.Reset()
		body.WriteString(`{"ok":false,"error":"the answer can't be encoded"}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(body.Len()))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // whoever asked may have gone
}
