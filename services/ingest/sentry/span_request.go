package sentry

import (
	"strings"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// serverOp is the op of a request that was answered; all others were made.
const serverOp = "http.server"

// firstError is the lowest status of a request that failed.
const firstError = 400

// request is the request of a span, or nil where it is none, or one of unknown
// end. What a page loads is told only where it is missing.
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

// word is how a span ended, in a word.
func (s *span) word() string { return first(s.attrs().StatusMessage.text, s.Status) }

// status is the HTTP status that a span without one stands for. A request that
// was made, and ended in an error, got no answer.
func (s *span) status(op string) (status int, known bool) {
	word := text(s.word())
	status, known = words[word]
	if !known && s.Status == "error" { // its word is the error's own text
		status, known = words["error"], true
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
