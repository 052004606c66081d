package httpserve

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// RetryAfter is when to try again after a temporary refusal, in seconds.
	RetryAfter = 1
	// maxMessage is the longest message of a refusal, in characters.
	maxMessage = 1000
)

// Answer is a whole answer that was not written yet.
type Answer struct {
	Status int
	// Header is added to what the answer has already. It may be nil.
	Header http.Header
	// Body is JSON, unless Header has another Content-Type. Nil: there is none.
	Body []byte
}

// With returns the answer with one more header.
func (a Answer) With(name, value string) Answer {
	a.Header = with(a.Header, name, value)
	return a
}

func with(h http.Header, name, value string) http.Header {
	h = h.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set(name, value)
	return h
}

// Write writes the answer.
func (a Answer) Write(w http.ResponseWriter) {
	header := w.Header()
	for name, values := range a.Header {
		header[name] = values
	}
	if a.Body != nil {
		if a.Header.Get("Content-Type") == "" {
			header.Set("Content-Type", "application/json")
		}
		header.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body) // the client may be gone
}

// OK returns the answer {"ok":true}.
func OK() Answer { return Answer{Status: http.StatusOK, Body: []byte(`{"ok":true}`)} }

// JSON returns an answer with a value. <, > and & stand in it as they are: it is read as
// JSON by everybody who obeys its Content-Type.
func JSON(status int, value any) (Answer, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return Answer{}, Refuse(http.StatusInternalServerError, "the answer can't be encoded")
	}
	return Answer{Status: status, Body: bytes.TrimSuffix(body.Bytes(), []byte("\n"))}, nil
}

// Refusal is an error that a request is answered with.
type Refusal struct { //nolint:errname // refusal is the word for it everywhere
	Status int
	// Message is what is wrong and what is allowed, for people. Empty: the sender may not
	// know.
	Message string
	// RetryAfter is when to try again, in seconds; 0: the header is left out.
	RetryAfter int
	// Index is the index of the wrong item in a batch, from 0; nil: the request as a whole is wrong.
	Index *int
	// Header is added to the answer. It may be nil.
	Header http.Header
}

// Refuse returns a refusal.
func Refuse(status int, message string) *Refusal { return &Refusal{Status: status, Message: message} }

// Unauthorized makes the refusal of a request that lacks a valid token.
func Unauthorized(message string) *Refusal {
	return Refuse(http.StatusUnauthorized, message).With("WWW-Authenticate", "Bearer")
}

// AsRefusal returns the refusal in an error's chain, or nil.
func AsRefusal(err error) *Refusal {
	var refusal *Refusal
	errors.As(err, &refusal)
	return refusal
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

// With returns the refusal with one more header.
func (r *Refusal) With(name, value string) *Refusal {
	changed := *r
	changed.Header = with(r.Header, name, value)
	return &changed
}

// Retry returns the refusal with a time to try again, in seconds.
func (r *Refusal) Retry(seconds int) *Refusal {
	changed := *r
	changed.RetryAfter = seconds
	return &changed
}

// At returns the refusal with the index of an item in a batch.
func (r *Refusal) At(index int) *Refusal {
	changed := *r
	changed.Index = &index
	return &changed
}

// Text returns the message as it is sent: without hidden characters, and bounded.
func (r *Refusal) Text() string { return sanitize.Cut(sanitize.Visible(r.Message), maxMessage) }

// Answer returns the refusal as JSON: {"ok":false,"error":"...","index":N}.
func (r *Refusal) Answer() Answer {
	body := []byte(`{"ok":false`)
	if r.Message != "" {
		// Visible leaves no bytes that are no text, the one thing that can't be quoted.
		body, _ = jsontext.AppendQuote(append(body, `,"error":`...), r.Text())
	}
	if r.Index != nil {
		body = strconv.AppendInt(append(body, `,"index":`...), int64(*r.Index), 10)
	}
	return r.Wrap(append(body, '}'))
}

// ErrorAnswer returns the refusal as JSON: {"error":"..."}, with the text of the status where there
// is no message.
func (r *Refusal) ErrorAnswer() Answer {
	text := r.Text()
	if text == "" {
		text = http.StatusText(r.Status)
	}
	body, _ := jsontext.AppendQuote([]byte(`{"error":`), text) // Text leaves nothing that can't be quoted
	return r.Wrap(append(body, '}'))
}

// Wrap returns an answer with a body of the caller's and with the refusal's status and
// headers.
func (r *Refusal) Wrap(body []byte) Answer {
	answer := Answer{Status: r.Status, Header: r.Header, Body: body}
	if r.RetryAfter > 0 {
		answer = answer.With("Retry-After", strconv.Itoa(r.RetryAfter))
	}
	return answer
}
