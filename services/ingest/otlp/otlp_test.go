package otlp_test

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
)

type attrs = map[string]any

var resource = attrs{"service.name": "shop", "service.instance.id": "i-1"}

type request interface {
	MarshalProto() ([]byte, error)
	MarshalJSON() ([]byte, error)
}

// write returns a request in both encodings.
func write(t testing.TB, r request) map[otlp.Encoding][]byte {
	t.Helper()
	inProtobuf, err := r.MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return map[otlp.Encoding][]byte{otlp.Protobuf: inProtobuf, otlp.JSON: inJSON}
}

func put(t testing.TB, m pcommon.Map, a attrs) {
	t.Helper()
	if err := m.FromRaw(a); err != nil {
		t.Fatal(err)
	}
}

func logRequest(t testing.TB, of attrs, records ...func(plog.LogRecord)) request {
	t.Helper()
	all := plog.NewLogs()
	from := all.ResourceLogs().AppendEmpty()
	put(t, from.Resource().Attributes(), of)
	scope := from.ScopeLogs().AppendEmpty()
	for _, fill := range records {
		fill(scope.LogRecords().AppendEmpty())
	}
	return plogotlp.NewExportRequestFromLogs(all)
}

func traceRequest(t testing.TB, of attrs, spans ...func(ptrace.Span)) request {
	t.Helper()
	all := ptrace.NewTraces()
	from := all.ResourceSpans().AppendEmpty()
	put(t, from.Resource().Attributes(), of)
	scope := from.ScopeSpans().AppendEmpty()
	for _, fill := range spans {
		fill(scope.Spans().AppendEmpty())
	}
	return ptraceotlp.NewExportRequestFromTraces(all)
}

func metricRequest(t testing.TB, of attrs, fill func(pmetric.MetricSlice)) request {
	t.Helper()
	all := pmetric.NewMetrics()
	from := all.ResourceMetrics().AppendEmpty()
	put(t, from.Resource().Attributes(), of)
	fill(from.ScopeMetrics().AppendEmpty().Metrics())
	return pmetricotlp.NewExportRequestFromMetrics(all)
}

// same decodes a request in both encodings, compares the events with JSON texts, and
// returns one of the two results.
func same(t *testing.T, signal otlp.Signal, r request, want ...string) otlp.Decoded {
	t.Helper()
	var last otlp.Decoded
	for enc, data := range write(t, r) {
		d, err := otlp.Decode(signal, enc, data)
		if err != nil {
			t.Fatalf("%s: error %v, want none", enc, err)
		}
		if len(d.Events) != len(want) {
			t.Fatalf("%s: %d events, want %d: %s", enc, len(d.Events), len(want), text(t, d.Events))
		}
		for i, e := range d.Events {
			if err := e.Validate(); err != nil {
				t.Errorf("%s: invalid event: %v, want only valid ones", enc, err)
			}
			if got := text(t, e); !sameJSON(t, got, want[i]) {
				t.Errorf("%s, event %d:\n got %s\nwant %s", enc, i, got, want[i])
			}
		}
		last = d
	}
	return last
}

func text(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatalf("got %v, want JSON:\n%s\n%s", err, a, b)
	}
	return reflect.DeepEqual(x, y)
}

func TestApp(t *testing.T) {
	for _, tt := range []struct {
		of         attrs
		app, extra string
	}{
		{attrs{"service.name": "shop"}, `"app":"shop",`, ""},
		{attrs{"service.name": "unknown_service:node"}, `"app":"unknown_service:node",`, ""},
		{attrs{}, "", ""},
		{attrs{"service.name": "shop", "service.instance.id": "i-1"}, `"app":"shop",`, `"session":"i-1",`},
		{attrs{"service.version": "1.2.3"}, `"release":"1.2.3",`, ""},
		{attrs{"service.version": strings.Repeat("x", 2<<10+1)}, "", ""},
	} {
		same(t, otlp.Logs, logRequest(t, tt.of, func(r plog.LogRecord) { r.Body().SetStr("hi") }),
			`{"kind":"log",`+tt.app+tt.extra+`"log":{"level":"info","message":"hi"}}`)
	}
}

// TestRelease checks that each event has the version of its resource.
func TestRelease(t *testing.T) {
	of := attrs{"service.version": "1.2.3"}
	same(t, otlp.Traces, traceRequest(t, of, func(s ptrace.Span) {
		put(t, s.Attributes(), attrs{"url.full": "/p", "http.response.status_code": int64(500)})
		s.Events().AppendEmpty().SetName("exception")
	}), `{"kind":"log","release":"1.2.3","url":"/p","log":{"level":"error","message":"exception"}}`,
		`{"kind":"network","release":"1.2.3","network":{"method":"GET","url":"/p","status":500}}`)
	same(t, otlp.Metrics, metricRequest(t, of, gauges(t, point{"go.memory.used", 1, nil, 1}, point{"go.memory.limit", 2, nil, 1})), `{"kind":"memory","release":"1.2.3","time":"1970-01-01T00:00:00.000000001Z","memory":{"used_bytes":1,"limit_bytes":2}}`)
}

// TestRefusals checks the errors for malformed and for too large requests.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		enc        otlp.Encoding
		want       string
	}{
		{"no JSON", "nope", otlp.JSON, "not an OTLP export request in JSON"},
		{"empty", "", otlp.JSON, "must be an object"},
		{"a list", "[]", otlp.JSON, "must be an object"},
		{"broken off", `{"resourceLogs":[`, otlp.JSON, "not an OTLP export request in JSON"},
		{"more behind", `{} {}`, otlp.JSON, "more data follows the object"},
		{"a text for a list", `{"resourceLogs":"x"}`, otlp.JSON, "not an OTLP export request in JSON"},
		{"a trace id that is none", `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"traceId":"zz"}]}]}]}`, otlp.JSON, "not an OTLP export request in JSON"},
		{"JSON for protobuf", `{"resourceLogs":[]}`, otlp.Protobuf, "not an OTLP export request in protobuf"},
		{"broken off", "\x0a\x7f", otlp.Protobuf, "not an OTLP export request in protobuf"},
		{"a group", "\x0b\x0c", otlp.Protobuf, "is a group"},
		{"a number for a message", "\x08\x01", otlp.Protobuf, "wire type"},
		{"a field of number 0", "\x02\x00", otlp.Protobuf, "not an OTLP export request in protobuf"},
	} {
		t.Run(tt.enc.String()+": "+tt.name, func(t *testing.T) {
			d, err := otlp.Decode(otlp.Logs, tt.enc, []byte(tt.body))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Decode = %v, %v, want error %q", d, err, tt.want)
			}
			if errors.Is(err, decoding.ErrTooMany) {
				t.Errorf("error %v wraps ErrTooMany, want a malformed request", err)
			}
		})
	}
}

func TestEmptyRequests(t *testing.T) {
	for _, signal := range []otlp.Signal{otlp.Logs, otlp.Traces, otlp.Metrics} {
		for enc, body := range map[otlp.Encoding]string{otlp.Protobuf: "", otlp.JSON: "{}"} {
			d, err := otlp.Decode(signal, enc, []byte(body))
			if err != nil || len(d.Events) != 0 || d.Rejected != 0 {
				t.Errorf("%s: Decode = %v, %v, want nothing", enc, d, err)
			}
		}
	}
}

// TestLongNames checks that a name of a resource that is too long is dropped, because each
// event would repeat it and be searched for secrets.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("x", 2<<10)
	same(t, otlp.Logs, logRequest(t, attrs{"service.name": long}, func(r plog.LogRecord) { r.Body().SetStr("hi") }),
		`{"kind":"log","app":"`+long+`","log":{"level":"info","message":"hi"}}`)
	same(t, otlp.Logs, logRequest(t, attrs{"service.name": long + "x", "service.instance.id": long + "x"}, func(r plog.LogRecord) { r.Body().SetStr("hi") }),
		`{"kind":"log","log":{"level":"info","message":"hi"}}`)
	same(t, otlp.Traces, traceRequest(t, attrs{}, func(s ptrace.Span) {
		put(t, s.Attributes(), attrs{"url.full": long + "x", "http.response.status_code": int64(200)})
		s.Events().AppendEmpty().SetName("exception")
	}), `{"kind":"log","log":{"level":"error","message":"exception"}}`, `{"kind":"network","network":{"method":"GET","url":"`+long+`x","status":200}}`)
}

// TestNothingPointsIntoTheBody checks that events share no memory with the body, whose
// buffer is reused.
func TestNothingPointsIntoTheBody(t *testing.T) {
	r := logRequest(t, resource, func(r plog.LogRecord) {
		r.Body().SetStr("a message")
		put(t, r.Attributes(), attrs{"k": "value", "list": []any{"x"}, "bytes": []byte("abc"), "session.id": "s-1"})
	})
	for enc, data := range write(t, r) {
		d, err := otlp.Decode(otlp.Logs, enc, data)
		if err != nil {
			t.Fatal(err)
		}
		before := text(t, d.Events)
		for i := range data {
			data[i] = '#'
		}
		if after := text(t, d.Events); after != before {
			t.Errorf("%s: the events changed with the body: got %s, want %s", enc, after, before)
		}
	}
}

func TestValues(t *testing.T) {
	r := logRequest(t, attrs{}, func(r plog.LogRecord) {
		r.Body().SetStr("hi")
		a := r.Attributes()
		put(t, a, attrs{
			"text": "x", "yes": true, "int": int64(7), "double": 1.5, "bytes": []byte{1, 2},
			"list": []any{"a", int64(1), nil}, "map": attrs{"k": attrs{"l": false}}, "huge": int64(math.MaxInt64),
		})
		a.PutDouble("nan", math.NaN())
		a.PutDouble("inf", math.Inf(-1))
		a.PutEmpty("nothing")
	})
	data := write(t, r)[otlp.Protobuf] // the collector's JSON has no NaN
	d, err := otlp.Decode(otlp.Logs, otlp.Protobuf, data)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"text":"x","yes":true,"int":7,"double":1.5,"bytes":"AQI=","list":["a",1,null],"map":{"k":{"l":false}},
		"huge":"9223372036854775807","nan":"NaN","inf":"-Infinity","nothing":null}]`
	if got := text(t, d.Events[0].Log.Args); !sameJSON(t, got, want) {
		t.Errorf("args = %s, want %s", got, want)
	}
}
