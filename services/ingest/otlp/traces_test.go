package otlp_test

import (
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
)

// span returns a span of 12.5 ms.
func span(t *testing.T, name string, kind ptrace.SpanKind, a attrs, more ...func(ptrace.Span)) func(ptrace.Span) {
	return func(s ptrace.Span) {
		s.SetName(name)
		s.SetKind(kind)
		s.SetStartTimestamp(1_700_000_000_000_000_000)
		s.SetEndTimestamp(1_700_000_000_012_500_000)
		put(t, s.Attributes(), a)
		for _, fill := range more {
			fill(s)
		}
	}
}

func failed(message string) func(ptrace.Span) {
	return func(s ptrace.Span) {
		s.Status().SetCode(ptrace.StatusCodeError)
		s.Status().SetMessage(message)
	}
}

func exc(t *testing.T, a attrs) func(ptrace.Span) {
	return func(s ptrace.Span) {
		e := s.Events().AppendEmpty()
		e.SetName("exception")
		e.SetTimestamp(1_700_000_000_001_000_000)
		put(t, e.Attributes(), a)
	}
}

const (
	server   = ptrace.SpanKindServer
	client   = ptrace.SpanKindClient
	internal = ptrace.SpanKindInternal

	spanHead = `"app":"shop","session":"i-1","time":"2023-11-14T22:13:20.0125Z"`
	failHead = `"app":"shop","session":"i-1","time":"2023-11-14T22:13:20.001Z"`
)

func networkEvent(payload string) string {
	return `{"kind":"network",` + spanHead + `,"network":{` + payload + `,"duration_ms":12.5}}`
}

func TestTraces(t *testing.T) {
	for _, tt := range []struct {
		name string
		span func(ptrace.Span)
		want []string
	}{
		{"a client of HTTP", span(t, "GET", client, attrs{
			"http.request.method": "GET", "http.response.status_code": int64(200), "url.full": "http://api/users?id=7",
		}), []string{networkEvent(`"method":"GET","url":"http://api/users?id=7","status":200`)}},
		{"a server of HTTP that fails", span(t, "POST /users/:id", server, attrs{
			"http.request.method": "POST", "http.response.status_code": int64(500), "error.type": "500", "http.route": "/users/:id",
			"url.scheme": "https", "server.address": "api.example", "server.port": int64(8443), "url.path": "/users/7", "url.query": "a=b",
		}, failed("")), []string{networkEvent(`"method":"POST","url":"https://api.example:8443/users/7?a=b","status":500`)}},
		{"former names", span(t, "HTTP PUT", server, attrs{
			"http.method": "PUT", "http.status_code": int64(503), "http.scheme": "http", "http.host": "localhost:8080", "http.target": "/a?b=c",
		}, failed("no upstream")), []string{networkEvent(`"method":"PUT","url":"http://localhost:8080/a?b=c","status":503,"error":"no upstream"`)}},
		{"former names of a client", span(t, "HTTP GET", client, attrs{
			"http.method": "GET", "http.status_code": int64(404), "http.url": "http://x/y",
		}), []string{networkEvent(`"method":"GET","url":"http://x/y","status":404`)}},
		{"a status as text, and nothing else", span(t, "/home", server, attrs{"http.status_code": "200"}),
			[]string{networkEvent(`"method":"GET","url":"/home","status":200`)}},
		{"only a route", span(t, "GET", server, attrs{"http.response.status_code": int64(200), "http.route": "/users/:id"}),
			[]string{networkEvent(`"method":"GET","url":"/users/:id","status":200`)}},
		{"only a path", span(t, "GET", server, attrs{"http.response.status_code": int64(200), "url.path": "/p"}),
			[]string{networkEvent(`"method":"GET","url":"/p","status":200`)}},
		{"the port that goes without saying", span(t, "GET", server, attrs{
			"http.response.status_code": int64(200), "url.path": "/p", "url.scheme": "https", "server.address": "::1", "server.port": int64(443),
		}), []string{networkEvent(`"method":"GET","url":"https://[::1]/p","status":200`)}},
		{"headers", span(t, "GET", client, attrs{
			"http.response.status_code": int64(200), "url.full": "http://x/",
			"http.request.header.accept": []any{"a", "b"}, "http.response.header.content-type": "text/html",
		}), []string{networkEvent(`"method":"GET","url":"http://x/","status":200,"request_headers":{"accept":"a, b"},"response_headers":{"content-type":"text/html"}`)}},
		{"a request without an answer", span(t, "GET", client, attrs{
			"http.request.method": "GET", "url.full": "http://gone/", "error.type": "ECONNREFUSED",
		}, failed("")), []string{networkEvent(`"method":"GET","url":"http://gone/","status":0,"error":"ECONNREFUSED"`)}},
		{"a request without an answer becomes one event", span(t, "GET", client, attrs{"http.request.method": "GET", "url.full": "http://gone/"}, failed(""),
			exc(t, attrs{"exception.type": "ECONNREFUSED", "exception.message": "connect ECONNREFUSED"})),
			[]string{networkEvent(`"method":"GET","url":"http://gone/","status":0,"error":"ECONNREFUSED: connect ECONNREFUSED"`)}},
		{"a remote procedure", span(t, "shop.Cart/Add", client, attrs{
			"rpc.system": "grpc", "rpc.service": "shop.Cart", "rpc.method": "Add", "rpc.grpc.status_code": int64(14),
		}, failed("unavailable")), []string{networkEvent(`"method":"GRPC","url":"/shop.Cart/Add","status":0,"error":"unavailable"`)}},
		{"a remote procedure by its newer names", span(t, "shop.Cart/Add", server, attrs{"rpc.system.name": "connectrpc", "rpc.method": "shop.Cart/Add"}, failed("")),
			[]string{networkEvent(`"method":"CONNECTRPC","url":"/shop.Cart/Add","status":0`)}},
		{"a database", span(t, "SELECT users", client, attrs{"db.system.name": "postgresql"}, failed("deadlock")),
			[]string{networkEvent(`"method":"POSTGRESQL","url":"SELECT users","status":0,"error":"deadlock"`)}},
		{"a queue", span(t, "send orders", ptrace.SpanKindProducer, attrs{"messaging.system": "kafka"}, failed("no broker")),
			[]string{networkEvent(`"method":"KAFKA","url":"send orders","status":0,"error":"no broker"`)}},
		{"a failure of an unknown kind", span(t, "", ptrace.SpanKindUnspecified, attrs{}, failed("broken")),
			[]string{networkEvent(`"method":"INTERNAL","url":"/","status":0,"error":"broken"`)}},
		{"a function that failed", span(t, "checkout", internal, attrs{}, failed("broken")),
			[]string{networkEvent(`"method":"INTERNAL","url":"checkout","status":0,"error":"broken"`)}},
		{"a function that threw becomes one event", span(t, "checkout", internal, attrs{}, failed("broken"),
			exc(t, attrs{"exception.type": "TypeError", "exception.message": "x is null", "exception.stacktrace": "at f"})),
			[]string{`{"kind":"log",` + failHead + `,"log":{"level":"error","message":"TypeError: x is null","stack":"at f"}}`}},
		{"a job that threw is a failure too", span(t, "work", ptrace.SpanKindConsumer, attrs{}, failed("broken"), exc(t, attrs{"exception.message": "x is null"})),
			[]string{
				`{"kind":"log",` + failHead + `,"log":{"level":"error","message":"x is null"}}`,
				networkEvent(`"method":"CONSUMER","url":"work","status":0,"error":"broken"`),
			}},
		{"a request that threw", span(t, "GET", server, attrs{"http.response.status_code": int64(500), "url.path": "/p"}, failed(""), exc(t, attrs{"exception.type": "TypeError"})),
			[]string{
				`{"kind":"log",` + failHead + `,"url":"/p","log":{"level":"error","message":"TypeError"}}`,
				networkEvent(`"method":"GET","url":"/p","status":500,"error":"TypeError"`),
			}},
		{"an exception with a stack alone", span(t, "f", internal, attrs{}, exc(t, attrs{"exception.stacktrace": "Error: a\n at b"})),
			[]string{`{"kind":"log",` + failHead + `,"log":{"level":"error","message":"Error: a","stack":"Error: a\n at b"}}`}},
		{"an exception with a fingerprint", span(t, "f", internal, attrs{}, exc(t, attrs{"exception.type": "E", "error.fingerprint": "checkout"})),
			[]string{`{"kind":"log",` + failHead + `,"log":{"level":"error","message":"E","fingerprint":["checkout"]}}`}},
		{"a plain span", span(t, "f", internal, attrs{"x": "y"}), nil},
		{"an event that is no exception", span(t, "f", internal, attrs{}, func(s ptrace.Span) { s.Events().AppendEmpty().SetName("retry") }), nil},
		{"a call that went well", span(t, "SELECT", client, attrs{"db.system": "mysql"}), nil},
	} {
		t.Run(tt.name, func(t *testing.T) { same(t, otlp.Traces, traceRequest(t, resource, tt.span), tt.want...) })
	}
}

func TestDurationIsNeverNegative(t *testing.T) {
	for _, times := range [][2]uint64{{2, 1}, {0, 5}, {5, 0}, {7, 7}} {
		r := traceRequest(t, attrs{}, func(s ptrace.Span) {
			s.SetStartTimestamp(ptraceTime(times[0]))
			s.SetEndTimestamp(ptraceTime(times[1]))
			put(t, s.Attributes(), attrs{"http.status_code": int64(200)})
		})
		d, err := otlp.Decode(otlp.Traces, otlp.Protobuf, write(t, r)[otlp.Protobuf])
		if err != nil || d.Events[0].Network.DurationMS != 0 {
			t.Errorf("times %v: Decode = %v, %v, want duration 0", times, d, err)
		}
	}
}

// TestRejectedSpans checks that a span with an impossible status is counted, and the others
// are accepted.
func TestRejectedSpans(t *testing.T) {
	bad := func(status any) func(ptrace.Span) {
		return span(t, "GET", server, attrs{"http.response.status_code": status})
	}
	d := same(t, otlp.Traces, traceRequest(t, resource,
		bad(int64(1000)), bad(int64(-1)), bad("abc"), bad(200.5), bad(1e300), bad(true), bad([]any{}),
		span(t, "/ok", server, attrs{"http.response.status_code": int64(999)})),
		networkEvent(`"method":"GET","url":"/ok","status":999`))
	if d.Rejected != 7 || !strings.HasPrefix(d.Reason, "http.response.status_code must be a whole number from 0 to 999") {
		t.Errorf("rejected %d because %q, want 7", d.Rejected, d.Reason)
	}
}
