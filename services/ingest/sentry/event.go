package sentry

import (
	"strings"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// event is the part of the payload of an event or transaction that is used here.
type event struct {
	EventID     lenientText      `json:"event_id"`
	Type        lenientText      `json:"type"`
	Timestamp   lenientText      `json:"timestamp"`
	Level       lenientText      `json:"level"`
	Platform    lenientText      `json:"platform"`
	Release     lenientText      `json:"release"`
	Environment lenientText      `json:"environment"`
	Fingerprint fingerprintParts `json:"fingerprint"`
	ServerName  lenientText      `json:"server_name"`
	Logger      lenientText      `json:"logger"`

	Message    message                   `json:"message"`
	LogEntry   message                   `json:"logentry"`
	Exception  objectList[exception]     `json:"exception"`
	Threads    objectList[thread]        `json:"threads"`
	Stacktrace lenientObject[stacktrace] `json:"stacktrace"`

	Breadcrumbs objectList[crumb]       `json:"breadcrumbs"`
	Tags        tags                    `json:"tags"`
	Extra       rawValue                `json:"extra"`
	User        lenientObject[user]     `json:"user"`
	Request     lenientObject[request]  `json:"request"`
	Contexts    lenientObject[contexts] `json:"contexts"`

	// Only transactions have these.
	Transaction    lenientText              `json:"transaction"`
	StartTimestamp lenientText              `json:"start_timestamp"`
	Measurements   lazyObject[measurements] `json:"measurements"`
	Spans          objectList[span]         `json:"spans"`
}

type user struct {
	ID lenientText `json:"id"`
}

type request struct {
	URL     lenientText `json:"url"`
	Method  lenientText `json:"method"`
	Headers tags        `json:"headers"`
}

// agent returns the browser's User-Agent. SDKs for browsers write the header name like this;
// HTTP/2 writes names in lower case.
func (r *request) agent() lenientText {
	return lenientText(firstNonEmpty(r.Headers["User-Agent"], r.Headers["user-agent"]))
}

type contexts struct {
	App      lenientObject[appContext]   `json:"app"`
	Trace    lenientObject[traceContext] `json:"trace"`
	Response lenientObject[response]     `json:"response"`
	Feedback lenientObject[feedbackForm] `json:"feedback"`
}

type appContext struct {
	Name lenientText `json:"app_name"`
}

type traceContext struct {
	TraceID lenientText                `json:"trace_id"`
	SpanID  lenientText                `json:"span_id"`
	Op      lenientText                `json:"op"`
	Status  lenientText                `json:"status"`
	Data    lazyObject[spanAttributes] `json:"data"`
}

type response struct {
	StatusCode lenientText `json:"status_code"`
}

// decodeEvent decodes an event or a transaction.
func (d *decoder) decodeEvent(payload []byte) error {
	var e event
	if err := d.decode(payload, decoding.NewObject(&e)); err != nil {
		return err
	}
	d.setID(e.EventID)
	o := d.baseOf(lenientText(e.Tags["app"]), e.Contexts.v.App.v.Name, e.Release, e.Contexts.v.Trace.v.TraceID).
		onPage(firstNonEmpty(string(e.Request.v.URL), e.Tags["url"]))
	if e.Type == "transaction" {
		return d.addTransaction(&e, o)
	}
	if err := d.add(o.newLog(e.Timestamp.time(), telemetry.Log{
		Level:   parseLevel(e.Level),
		Message: firstNonEmpty(e.title(), "an event without a message"),
		Stack:   e.stack(),
		Source:  e.source(),
		Args:    []any{e.details()},

		Fingerprint: e.Fingerprint.fingerprint(),
	})); err != nil {
		return err
	}
	return d.addBreadcrumbs(&e, o)
}

// parseLevel returns the level of an event: error if it is missing.
func parseLevel(l lenientText) telemetry.Level {
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

// message is a message field: a text, or an object with the formatted text and its template.
type message struct{ formatted, template lenientText }

// title returns the event in one line: the exception that was thrown, which is the last of its
// chain, or the message.
func (e *event) title() string {
	if n := len(e.Exception); n > 0 {
		if t := e.Exception[n-1].title(); t != "" {
			return t
		}
	}
	return firstNonEmpty(e.LogEntry.formatted, e.Message.formatted, e.LogEntry.template, e.Message.template, e.Transaction)
}

// Bounds of the details of an error. Ingest bounds all of them together; these keep one
// large value from displacing the others.
const (
	maxCrumbs    = 30
	maxCrumbData = 2 << 10 // bytes of JSON
	maxExtra     = 8 << 10 // bytes of JSON
	maxCrumbText = 500     // bytes
)

// details returns the other fields that the SDK sends. Of the user, only the id is kept.
func (e *event) details() map[string]any {
	details := map[string]any{}
	put := func(name string, value lenientText) {
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
	if extra := e.Extra.decode(maxExtra); extra != nil {
		details["extra"] = extra
	}
	if crumbs := e.recentCrumbs(); len(crumbs) > 0 {
		details["breadcrumbs"] = crumbs
	}
	return details
}

// recentCrumbs returns the last breadcrumbs, as arguments of the log line.
func (e *event) recentCrumbs() []any {
	crumbs := e.Breadcrumbs
	crumbs = crumbs[max(0, len(crumbs)-maxCrumbs):]
	trail := make([]any, 0, len(crumbs))
	for i := range crumbs {
		trail = append(trail, crumbs[i].logArgs())
	}
	return trail
}

// shorten cuts a text to at most limit bytes, between characters.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
