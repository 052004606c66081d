package sentry

import (
	"strings"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// serverOp is the op of a request that the app answered. Requests of all other ops are those
// that the app made.
const serverOp = "http.server"

// minErrorStatus is the lowest HTTP status of a failed request.
const minErrorStatus = 400

// request returns the request of a span. It is nil if the result is unknown, and for a page's
// resource that loaded.
func (s *span) request(op string, o eventBase) *telemetry.Network {
	a := s.attrs()
	method, url := splitRequestName(s.name())
	n := &telemetry.Network{
		Method:     strings.ToUpper(firstNonEmpty(a.method(), method, "GET")),
		URL:        resolve(o.page, firstNonEmpty(a.url(), url)),
		DurationMS: s.duration(),
	}
	if n.URL == "" {
		n.URL = firstNonEmpty(a.Path.lenientText, a.ServerAddress.lenientText)
	}
	status, known := parseStatus(a.status())
	switch {
	case n.URL == "":
		return nil
	case strings.HasPrefix(op, "resource."):
		if !known || status < minErrorStatus {
			return nil
		}
	case !known:
		if status, known = s.status(op); !known {
			return nil
		}
		if status == 0 {
			n.Error = s.statusWord()
		}
	}
	n.Status = status
	return n
}

// statusWord returns the word for how a span ended.
func (s *span) statusWord() string {
	return firstNonEmpty(s.attrs().StatusMessage.lenientText, s.Status)
}

// status returns the HTTP status that the status word of a span stands for. It is 0 for a
// request that the app made and that failed: it got no answer.
func (s *span) status(op string) (status int, known bool) {
	word := lenientText(s.statusWord())
	status, known = statusWords[word]
	if !known && s.Status == "error" { // the status message is the error's text
		status, known = statusWords["error"], true
	}
	switch {
	case op == serverOp:
		return status, known
	case s.inContainer() && word == "ok": // SDKs also send it for an unknown result
		return 0, false
	case known && status >= minErrorStatus:
		return 0, true
	default:
		return status, known
	}
}
