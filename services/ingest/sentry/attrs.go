package sentry

import (
	"math"
	"strings"
)

// spanAttributes are the attributes of a span, or of a breadcrumb's data, that are used here.
// Their names are those of OpenTelemetry, present and former, and of Sentry.
type spanAttributes struct {
	Op            typedText `json:"sentry.op"`
	Release       typedText `json:"sentry.release"`
	OldRelease    typedText `json:"release"`
	App           typedText `json:"app"`
	StatusMessage typedText `json:"sentry.status.message"`
	SegmentID     typedText `json:"sentry.segment.id"`
	SegmentName   typedText `json:"sentry.segment.name"`
	PageloadID    typedText `json:"sentry.pageload.span_id"`
	Transaction   typedText `json:"sentry.transaction"`
	OldPage       typedText `json:"transaction"`
	Agent         typedText `json:"user_agent.original"`

	Method        typedText `json:"http.request.method"`
	OldMethod     typedText `json:"http.method"`
	ShortMethod   typedText `json:"method"`
	Status        typedText `json:"http.response.status_code"`
	OldStatus     typedText `json:"http.status_code"`
	FullURL       typedText `json:"url.full"`
	HTTPURL       typedText `json:"http.url"`
	ShortURL      typedText `json:"url"`
	Path          typedText `json:"url.path"`
	ServerAddress typedText `json:"server.address"`
	Start         typedText `json:"http.start_timestamp"`
	End           typedText `json:"http.end_timestamp"`

	LCP       typedText `json:"browser.web_vital.lcp.value"`
	FCP       typedText `json:"browser.web_vital.fcp.value"`
	CLS       typedText `json:"browser.web_vital.cls.value"`
	INP       typedText `json:"browser.web_vital.inp.value"`
	TTFB      typedText `json:"browser.web_vital.ttfb.value"`
	INPTarget typedText `json:"browser.web_vital.inp.target"`
}

func (a *spanAttributes) release() lenientText {
	return lenientText(firstNonEmpty(a.Release.lenientText, a.OldRelease.lenientText))
}
func (a *spanAttributes) method() string {
	return firstNonEmpty(a.Method.lenientText, a.OldMethod.lenientText, a.ShortMethod.lenientText)
}
func (a *spanAttributes) url() string {
	return firstNonEmpty(a.FullURL.lenientText, a.HTTPURL.lenientText, a.ShortURL.lenientText)
}
func (a *spanAttributes) status() lenientText {
	return lenientText(firstNonEmpty(a.Status.lenientText, a.OldStatus.lenientText))
}

// parseStatus parses an HTTP status.
func parseStatus(t lenientText) (int, bool) {
	f, ok := t.number()
	if !ok || f != math.Trunc(f) || f < 100 || f > 999 {
		return 0, false
	}
	return int(f), true
}

// statusWords maps the status words of spans to HTTP statuses.
var statusWords = map[lenientText]int{
	"ok":                  200,
	"invalid_argument":    400,
	"failed_precondition": 400,
	"out_of_range":        400,
	"unauthenticated":     401,
	"permission_denied":   403,
	"not_found":           404,
	"already_exists":      409,
	"aborted":             409,
	"resource_exhausted":  429,
	"cancelled":           499,
	"internal_error":      500,
	"unknown":             500,
	"unknown_error":       500,
	"data_loss":           500,
	"error":               500,
	"unimplemented":       501,
	"unavailable":         503,
	"deadline_exceeded":   504,
}

// splitRequestName splits the name of a request's span, such as "GET https://...". Both are
// empty for any other name.
func splitRequestName(name string) (method, url string) {
	method, url, ok := strings.Cut(name, " ")
	if !ok || method == "" || len(method) > 10 || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "", ""
	}
	return method, strings.TrimSpace(url)
}
