package sentry

import (
	"strings"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// event is the payload of an event or transaction, as far as it is used.
type event struct {
	EventID     text  `json:"event_id"`
	Type        text  `json:"type"`
	Timestamp   text  `json:"timestamp"`
	Level       text  `json:"level"`
	Platform    text  `json:"platform"`
	Release     text  `json:"release"`
	Environment text  `json:"environment"`
	Fingerprint parts `json:"fingerprint"`
	ServerName  text  `json:"server_name"`
	Logger      text  `json:"logger"`

	Message    message              `json:"message"`
	LogEntry   message              `json:"logentry"`
	Exception  list[exception]      `json:"exception"`
	Threads    list[thread]         `json:"threads"`
	Stacktrace optional[stacktrace] `json:"stacktrace"`

	Breadcrumbs list[crumb]        `json:"breadcrumbs"`
	Tags        tags               `json:"tags"`
	Extra       open               `json:"extra"`
	User        optional[user]     `json:"user"`
	Request     optional[request]  `json:"request"`
	Contexts    optional[contexts] `json:"contexts"`

	// Only transactions have these.
	Transaction    text               `json:"transaction"`
	StartTimestamp text               `json:"start_timestamp"`
	Measurements   lazy[measurements] `json:"measurements"`
	Spans          list[span]         `json:"spans"`
}

type user struct {
	ID text `json:"id"`
}

type request struct {
	URL     text `json:"url"`
	Method  text `json:"method"`
	Headers tags `json:"headers"`
}

// agent is the browser's User-Agent. SDKs for browsers write the header name like this;
// HTTP/2 writes names in lower case.
func (r *request) agent() text {
	return text(first(r.Headers["User-Agent"], r.Headers["user-agent"]))
}

type contexts struct {
	App      optional[appContext]   `json:"app"`
	Trace    optional[traceContext] `json:"trace"`
	Response optional[response]     `json:"response"`
	Feedback optional[feedbackForm] `json:"feedback"`
}

type appContext struct {
	Name text `json:"app_name"`
}

type traceContext struct {
	TraceID text        `json:"trace_id"`
	SpanID  text        `json:"span_id"`
	Op      text        `json:"op"`
	Status  text        `json:"status"`
	Data    lazy[attrs] `json:"data"`
}

type response struct {
	StatusCode text `json:"status_code"`
}

// event decodes an event or a transaction.
func (d *decoder) event(payload []byte) error {
	var e event
	if err := d.decode(payload, decoding.NewObject(&e)); err != nil {
		return err
	}
	d.takeID(e.EventID)
	o := d.from(text(e.Tags["app"]), e.Contexts.v.App.v.Name, e.Release, e.Contexts.v.Trace.v.TraceID).
		on(first(string(e.Request.v.URL), e.Tags["url"]))
	if e.Type == "transaction" {
		return d.transaction(&e, o)
	}
	if err := d.add(o.log(e.Timestamp.time(), telemetry.Log{
		Level:   level(e.Level),
		Message: first(e.title(), "an event without a message"),
		Stack:   e.stack(),
		Source:  e.source(),
		Args:    []any{e.details()},

		Fingerprint: e.Fingerprint.fingerprint(),
	})); err != nil {
		return err
	}
	return d.breadcrumbs(&e, o)
}

// level is the level of an event; a missing one is an error.
func level(l text) telemetry.Level {
	switch l {
	case "fatal", "error", "":
		return telemetry.LevelError
	case "warning", "warn":
		return telemetry.LevelWarn
	case "debug", "trace":
		return telemetry.LevelDebug
	default: // log, info
		return telemetry.LevelInfo
	}
}

// message is a text, or an object with the formatted text and its template.
type message struct{ formatted, template text }

// title is the event in one line: the exception that was thrown, which is the last of its
// chain, or the message.
func (e *event) title() string {
	if n := len(e.Exception); n > 0 {
		if t := e.Exception[n-1].title(); t != "" {
			return t
		}
	}
	return first(e.LogEntry.formatted, e.Message.formatted, e.LogEntry.template, e.Message.template, e.Transaction)
}

// Bounds of the details of an error. The intake cuts all of them together; these keep one
// large value from displacing the others.
const (
	maxCrumbs    = 30
	maxCrumbData = 2 << 10 // bytes of JSON
	maxExtra     = 8 << 10 // bytes of JSON
	maxCrumbText = 500     // bytes
)

// details are the other facts that the SDK sends. Of the user, only the id is kept.
func (e *event) details() map[string]any {
	details := map[string]any{}
	put := func(name string, value text) {
		if value != "" {
			details[name] = string(value)
		}
	}
	put("release", e.Release)
	put("environment", e.Environment)
	put("server_name", e.ServerName)
	put("logger", e.Logger)
	put("transaction", e.Transaction)
	put("user_id", e.User.v.ID)
	put("event_id", e.EventID)
	if len(e.Tags) > 0 {
		kept := make(map[string]any, len(e.Tags))
		for name, value := range e.Tags {
			kept[name] = value
		}
		details["tags"] = kept
	}
	if extra := e.Extra.value(maxExtra); extra != nil {
		details["extra"] = extra
	}
	if crumbs := e.recentCrumbs(); len(crumbs) > 0 {
		details["breadcrumbs"] = crumbs
	}
	return details
}

// recentCrumbs are the last breadcrumbs, as arguments of the log line.
func (e *event) recentCrumbs() []any {
	crumbs := e.Breadcrumbs
	crumbs = crumbs[max(0, len(crumbs)-maxCrumbs):]
	trail := make([]any, 0, len(crumbs))
	for i := range crumbs {
		trail = append(trail, crumbs[i].shown())
	}
	return trail
}

// short cuts a text to a number of bytes, at the end of a character.
func short(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
