package sentry

import (
	"math"
	"strings"
)

// attrs are the used attributes of a span, or of a breadcrumb's data: names of
// OpenTelemetry's conventions, present and former, and of Sentry's own.
type attrs struct {
	Op            attr `json:"sentry.op"`
	Release       attr `json:"sentry.release"`
	OldRelease    attr `json:"release"`
	App           attr `json:"app"`
	StatusMessage attr `json:"sentry.status.message"`
	SegmentID     attr `json:"sentry.segment.id"`
	SegmentName   attr `json:"sentry.segment.name"`
	PageloadID    attr `json:"sentry.pageload.span_id"`
	Transaction   attr `json:"sentry.transaction"`
	OldPage       attr `json:"transaction"`
	Agent         attr `json:"user_agent.original"`

	Method        attr `json:"http.request.method"`
	OldMethod     attr `json:"http.method"`
	ShortMethod   attr `json:"method"`
	Status        attr `json:"http.response.status_code"`
	OldStatus     attr `json:"http.status_code"`
	FullURL       attr `json:"url.full"`
	HTTPURL       attr `json:"http.url"`
	ShortURL      attr `json:"url"`
	Path          attr `json:"url.path"`
	ServerAddress attr `json:"server.address"`
	Start         attr `json:"http.start_timestamp"`
	End           attr `json:"http.end_timestamp"`

	LCP       attr `json:"browser.web_vital.lcp.value"`
	FCP       attr `json:"browser.web_vital.fcp.value"`
	CLS       attr `json:"browser.web_vital.cls.value"`
	INP       attr `json:"browser.web_vital.inp.value"`
	TTFB      attr `json:"browser.web_vital.ttfb.value"`
	INPTarget attr `json:"browser.web_vital.inp.target"`
}

func (a *attrs) release() text  { return text(first(a.Release.text, a.OldRelease.text)) }
func (a *attrs) method() string { return first(a.Method.text, a.OldMethod.text, a.ShortMethod.text) }
func (a *attrs) url() string    { return first(a.FullURL.text, a.HTTPURL.text, a.ShortURL.text) }
func (a *attrs) status() text   { return text(first(a.Status.text, a.OldStatus.text)) }

// statusOf reads an HTTP status.
func statusOf(t text) (int, bool) {
	f, ok := t.number()
	if !ok || f != math.Trunc(f) || f < 100 || f > 999 {
		return 0, false
	}
	return int(f), true
}

// statusWords are the HTTP statuses that status words of spans stand for.
var statusWords = map[text]int{
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

// split splits "GET https://...", the name of spans of requests.
func split(name string) (method, url string) {
	method, url, ok := strings.Cut(name, " ")
	if !ok || method == "" || len(method) > 10 || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "", ""
	}
	return method, strings.TrimSpace(url)
}
