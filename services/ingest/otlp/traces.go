package otlp

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// maxStatus is the highest HTTP status that an event may have.
const maxStatus = 999

func (d *Decoded) traces(all ptrace.Traces) error {
	for _, from := range all.ResourceSpans().All() {
		sender := originOf(from.Resource())
		for _, scope := range from.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				if err := d.span(sender, s); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// span adds a network event for a span that has an HTTP status or failed, and an error log
// for every exception.
func (d *Decoded) span(sender origin, s ptrace.Span) error {
	call := callOf(s)
	status, ok := call.status()
	if !ok {
		d.reject(fmt.Sprintf("%s must be a whole number from 0 to %d", call.statusName, maxStatus))
		return nil
	}
	failed := s.Status().Code() == ptrace.StatusCodeError
	base := telemetry.Event{App: sender.app, Session: sender.session(s.Attributes()), Release: sender.release}
	// The exception of an HTTP client that got no answer is the reason why its request
	// failed: it becomes part of the network event.
	unanswered := failed && call.http && !call.answered && s.Kind() == ptrace.SpanKindClient
	var last exception
	for _, e := range s.Events().All() {
		if e.Name() != "exception" {
			continue
		}
		last = exceptionOf(e.Attributes())
		last.recorded = true
		if unanswered {
			continue
		}
		if err := d.add(exceptionLog(base, call, last, firstTime(e.Timestamp(), s.EndTimestamp()))); err != nil {
			return err
		}
	}
	// The error log already reports the failure of a function within an app.
	reported := last.recorded && !call.http && isInternal(s.Kind())
	if !call.answered && (!failed || reported) {
		return nil
	}
	base.Kind, base.Time = telemetry.KindNetwork, firstTime(s.EndTimestamp(), s.StartTimestamp())
	base.Network = &telemetry.Network{
		Method: call.method, URL: call.url, Status: status,
		DurationMS: duration(s), Error: failure(s, last, status),
		RequestHeaders:  headers(s.Attributes(), "http.request.header."),
		ResponseHeaders: headers(s.Attributes(), "http.response.header."),
	}
	return d.add(base)
}

func exceptionLog(base telemetry.Event, c call, x exception, t time.Time) telemetry.Event {
	base.Kind, base.Time, base.URL = telemetry.KindLog, t, c.page
	base.Log = &telemetry.Log{Level: telemetry.LevelError, Message: cmp.Or(x.String(), "exception"), Stack: x.stack, Fingerprint: telemetry.NewFingerprint(x.fingerprint)}
	return base
}

// isInternal reports whether a span is a function within an app.
func isInternal(kind ptrace.SpanKind) bool {
	return kind == ptrace.SpanKindInternal || kind == ptrace.SpanKindUnspecified
}

// duration returns the duration of a span in milliseconds, or 0 if it is unknown.
func duration(s ptrace.Span) float64 {
	start, end := s.StartTimestamp(), s.EndTimestamp()
	if start == 0 || end < start {
		return 0
	}
	return float64(end-start) / 1e6
}

// failure returns why a span failed: its message, else its exception, else the class of the
// error. The message counts for a span that succeeded, too.
func failure(s ptrace.Span, exc exception, status int) string {
	if message := s.Status().Message(); message != "" || s.Status().Code() != ptrace.StatusCodeError {
		return message
	}
	if message := exc.String(); message != "" {
		return message
	}
	if class := text(s.Attributes(), "error.type"); class != strconv.Itoa(status) {
		return class
	}
	return ""
}

// headers returns the HTTP headers among the attributes. The values of a header that was
// sent several times are joined.
func headers(attributes pcommon.Map, prefix string) map[string]string {
	var found map[string]string
	for name, value := range attributes.All() {
		header, ok := strings.CutPrefix(name, prefix)
		if !ok || header == "" {
			continue
		}
		if found == nil {
			found = map[string]string{}
		}
		found[header] = joined(value)
	}
	return found
}

func joined(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeSlice {
		return valueText(v)
	}
	lines := make([]string, 0, v.Slice().Len())
	for _, line := range v.Slice().All() {
		lines = append(lines, valueText(line))
	}
	return strings.Join(lines, ", ")
}

// call is the request that a span describes.
type call struct {
	method, url string
	// page is url if it is that of an HTTP request and short enough to be in several events.
	page string
	// http is set for an HTTP request, answered for one with a status.
	http, answered bool
	statusName     string
	statusValue    pcommon.Value
}

// Names of the attributes of HTTP: first the current name, then the former one.
var (
	httpMethod = []string{"http.request.method", "http.method"}
	httpStatus = []string{"http.response.status_code", "http.status_code"}
)

func callOf(s ptrace.Span) call {
	var (
		a = s.Attributes()
		c call
	)
	for _, name := range httpStatus {
		if v, ok := a.Get(name); ok {
			c.answered, c.statusName, c.statusValue = true, name, v
			break
		}
	}
	c.method = text(a, httpMethod...)
	c.http = c.answered || c.method != "" || text(a, fullURL...) != ""
	if c.http {
		c.url = address(a)
		c.page = dropIfLong(c.url)
	} else {
		c.method, c.url = protocol(s.Kind(), a), operation(a)
	}
	if c.method == "" {
		c.method = "GET"
	}
	if c.url == "" {
		c.url = s.Name()
	}
	if c.url == "" {
		c.url = "/"
	}
	return c
}

// status returns the HTTP status, or 0 if there is none. It is not ok if it is invalid.
func (c call) status() (code int, ok bool) {
	if !c.answered {
		return 0, true
	}
	n := int64(-1)
	switch v := c.statusValue; v.Type() {
	case pcommon.ValueTypeInt:
		n = v.Int()
	case pcommon.ValueTypeDouble:
		if f := v.Double(); f == math.Trunc(f) && math.Abs(f) <= maxStatus {
			n = int64(f)
		}
	case pcommon.ValueTypeStr: // some senders write all attributes as text
		if i, err := strconv.ParseInt(v.Str(), 10, 32); err == nil {
			n = i
		}
	default: // not a number
	}
	return int(n), n >= 0 && n <= maxStatus
}

// protocol returns the name of the system or the kind of the span. It takes the place of
// the method in a call that is not HTTP.
func protocol(kind ptrace.SpanKind, a pcommon.Map) string {
	if system := text(a, "rpc.system", "rpc.system.name", "db.system", "db.system.name", "messaging.system"); system != "" {
		return strings.ToUpper(system)
	}
	switch kind {
	case ptrace.SpanKindServer:
		return "SERVER"
	case ptrace.SpanKindClient:
		return "CLIENT"
	case ptrace.SpanKindProducer:
		return "PRODUCER"
	case ptrace.SpanKindConsumer:
		return "CONSUMER"
	default: // unspecified counts as internal
		return "INTERNAL"
	}
}

// operation returns the path of a remote procedure, as gRPC has it. Newer senders put all
// of it into rpc.method.
func operation(a pcommon.Map) string {
	service, method := text(a, "rpc.service"), text(a, "rpc.method")
	switch {
	case service != "":
		return "/" + service + "/" + method
	case strings.Contains(method, "/"):
		return "/" + strings.TrimPrefix(method, "/")
	default:
		return ""
	}
}
