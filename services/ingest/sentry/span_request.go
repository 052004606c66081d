package sentry

import (
	"strings"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// serverOp is the op of a request that was answered; all others were made.
const serverOp = "http.server"

// firstError is the lowest status of a failed request.
const firstError = 400

// request is the request of a span. It is nil if the span is none, or its result is
// unknown. What a page loads counts only if it failed.
func (s *span) request(op string, o origin) *telemetry.Network {
	a := s.attrs()
	method, url := split(s.name())
	n := &telemetry.Network{
		Method:     strings.ToUpper(first(a.method(), method, "GET")),
		URL:        resolve(o.page, first(a.url(), url)),
		DurationMS: s.duration(),
	}
	if n.URL == "" {
		n.URL = first(a.Path.text, a.ServerAddress.text)
	}
	status, known := statusOf(a.status())
	switch {
	case n.URL == "":
		return nil
	case strings.HasPrefix(op, "resource."):
		if !known || status < firstError {
			return nil
		}
	case !known:
		if status, known = s.status(op); !known {
			return nil
		}
		if status == 0 {
			n.Error = s.word()
		}
	}
	n.Status = status
	return n
}

// word is how a span ended, in one word.
func (s *span) word() string { return first(s.attrs().StatusMessage.text, s.Status) }

// status is the HTTP status that the status word of a span stands for. A request that was
// made and failed got no answer: 0.
func (s *span) status(op string) (status int, known bool) {
	word := text(s.word())
	status, known = statusWords[word]
	if !known && s.Status == "error" { // its word is the error's own text
		status, known = statusWords["error"], true
	}
	switch {
	case op == serverOp:
		return status, known
	case s.inContainer() && word == "ok": // also where nothing is known
		return 0, false
	case known && status >= firstError:
		return 0, true
	default:
		return status, known
	}
}
