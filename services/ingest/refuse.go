package ingest

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// retryAfter is when to try again, in seconds.
	retryAfter = "1"
	// maxRefusal is the longest text of a refusal, in characters.
	maxRefusal = 1000
)

// reply is an answer that has not been written yet.
type reply struct {
	status int
	// header are names and values in turn.
	header []string
	body   []byte
}

func (a reply) with(name, value string) reply {
	a.header = append(a.header, name, value)
	return a
}

func (a reply) write(w http.ResponseWriter) {
	header := w.Header()
	for i := 0; i < len(a.header); i += 2 {
		header.Set(a.header[i], a.header[i+1])
	}
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if a.body != nil {
		if header.Get("Content-Type") == "" {
			header.Set("Content-Type", "application/json")
		}
		header.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // whoever asked may have gone
}

func okReply() reply { return reply{status: http.StatusOK, body: []byte(`{"ok":true}`)} }

func acceptedReply(n int) reply {
	return reply{status: http.StatusOK, body: append(strconv.AppendInt([]byte(`{"ok":true,"accepted":`), int64(n), 10), '}')}
}

// ignoredReply says that a request was understood and nothing is to be done.
func ignoredReply(why string) reply {
	body, _ := jsontext.AppendQuote([]byte(`{"ok":true,"ignored":`), sanitize.Cut(sanitize.Visible(why), maxRefusal))
	return reply{status: http.StatusAccepted, body: append(body, '}')}
}

// refuse makes a refusal: its text names the field and what is allowed.
func refuse(status int, text string) reply { return refuseAt(status, text, -1) }

// refuseAt names the event of a batch as well; below 0 there is none.
func refuseAt(status int, text string, index int) reply {
	body := []byte(`{"ok":false,"error":`)
	// Visible leaves no bytes that are no text, the one thing that can't be quoted.
	body, _ = jsontext.AppendQuote(body, sanitize.Cut(sanitize.Visible(text), maxRefusal))
	if index >= 0 {
		body = strconv.AppendInt(append(body, `,"index":`...), int64(index), 10)
	}
	return reply{status: status, body: append(body, '}')}
}

// refuseEvents says what is wrong with a body of events, and in a batch with
// which of them.
func refuseEvents(err error, batch bool) reply {
	var field *telemetry.FieldError
	if batch && errors.As(err, &field) {
		return refuseAt(http.StatusBadRequest, err.Error(), field.Index)
	}
	return refuse(http.StatusBadRequest, err.Error())
}

// refusePublish says why the bus did not take a write.
func refusePublish(err error) reply {
	switch {
	case errors.Is(err, bus.ErrBusy):
		return refuse(http.StatusTooManyRequests, err.Error()).with("Retry-After", retryAfter)
	case errors.Is(err, context.Canceled):
		return refuse(http.StatusServiceUnavailable, "the request ended before the bus had stored it").with("Retry-After", retryAfter)
	default: // ErrAway, ErrUnacknowledged, ErrStore, ErrRefused
		return refuse(http.StatusServiceUnavailable, err.Error()).with("Retry-After", retryAfter)
	}
}
