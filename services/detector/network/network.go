// Package network is the detection rule for requests that fail.
//
// It remembers nothing: each failed request is a finding. The storm limiter bounds repetitions
// (package ratelimit), and readers merge them.
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

// Failed reports whether a status counts as an error: 5xx, or 0 for a request without an
// answer.
func Failed(status int) bool { return status == 0 || status >= 500 && status <= 599 }

// Severity returns the severity of the alert about a status, and reports whether there is an
// alert.
func Severity(status int) (severity alert.Severity, raises bool) {
	switch {
	case Failed(status):
		return alert.Error, true
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusTooManyRequests:
		return alert.Warning, true
	default:
		return "", false
	}
}

// AppendKey appends the dedup key of the alert about a request. page is the template of the
// path of its URL.
func AppendKey(dst []byte, request *telemetry.Network, page []byte) []byte {
	dst = append(append(dst, method(request)...), ':')
	dst = append(append(dst, page...), ':')
	return strconv.AppendInt(dst, int64(request.Status), 10)
}

// Alert returns the alert about a request, whose status must have a severity, without its
// dedup key.
func Alert(request *telemetry.Network, page string) alert.Alert {
	severity, _ := Severity(request.Status)
	method := method(request)
	a := alert.Alert{
		Severity: severity, Category: alert.NetworkErrors, Source: alert.SourceNetwork,
		URL: request.URL, Detail: detail(request),
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
