// Package network decides which requests are worth an alert, and what it says.
//
// It remembers nothing: every failed request is one, and repetitions are left
// to those who know what was said before.
package network

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Failed says whether a request with that status counts as an error: 5xx, or 0
// for one that got no answer.
func Failed(status int) bool { return status == 0 || status >= 500 && status <= 599 }

// Severity is how bad a status is, and false when it is not worth an alert.
func Severity(status int) (alert.Severity, bool) {
	switch {
	case Failed(status):
		return alert.Error, true
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return alert.Warning, true
	default:
		return "", false
	}
}

// AppendKey appends the key under which alerts about such a request are
// repetitions of each other. Page is the path template of the request's URL.
func AppendKey(dst []byte, request *telemetry.Network, page []byte) []byte {
	dst = append(append(dst, method(request)...), ':')
	dst = append(append(dst, page...), ':')
	return strconv.AppendInt(dst, int64(request.Status), 10)
}

// Alert is what there is to say about a request whose status has a severity.
func Alert(request *telemetry.Network, page, key string) alert.Alert {
	severity, _ := Severity(request.Status)
	method := method(request)
	a := alert.Alert{
		Severity: severity, Category: alert.NetworkErrors, Source: alert.SourceNetwork,
		URL: request.URL, DedupKey: key, Detail: detail(request),
		Context: map[string]any{
			alert.EndpointKey: method + " " + page,
			"method":          method, "url": template.PathQuery(request.URL),
			"status": request.Status, "duration_ms": request.DurationMS,
		},
	}
	if request.Status == 0 {
		a.Title = "Request failed: " + method + " " + page
	} else {
		a.Title = fmt.Sprintf("Server error: %s %s → %d", method, page, request.Status)
	}
	return a
}

func method(request *telemetry.Network) string { return strings.ToUpper(request.Method) }

func detail(request *telemetry.Network) string {
	var text string
	switch name := http.StatusText(request.Status); {
	case request.Status == 0 && request.Error == "":
		return "Request failed without an answer"
	case request.Status == 0:
		return "Request failed: " + request.Error
	case name == "":
		text = fmt.Sprintf("Request failed with status %d", request.Status)
	default:
		text = "Request failed with " + name
	}
	if request.Error != "" {
		text += ": " + request.Error
	}
	return text
}
