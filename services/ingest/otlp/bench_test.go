package otlp_test

import (
	"fmt"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
)

// sample returns a span of an HTTP server.
func sample(t testing.TB) func(ptrace.Span) {
	return func(s ptrace.Span) {
		s.SetName("GET /users/:id")
		s.SetKind(ptrace.SpanKindServer)
		s.SetStartTimestamp(1_700_000_000_000_000_000)
		s.SetEndTimestamp(1_700_000_000_012_500_000)
		s.Status().SetCode(ptrace.StatusCodeError)
		put(t, s.Attributes(), attrs{
			"http.request.method": "GET", "http.response.status_code": int64(500), "http.route": "/users/:id", "url.scheme": "http",
			"server.address": "localhost", "server.port": int64(3000), "url.path": "/users/7", "network.protocol.version": "1.1", "user_agent.original": "curl/8",
		})
		e := s.Events().AppendEmpty()
		e.SetName("exception")
		put(t, e.Attributes(), attrs{"exception.type": "TypeError", "exception.message": "x is null", "exception.stacktrace": "TypeError: x is null\n at f"})
	}
}

func bench(b *testing.B, signal otlp.Signal, r request) {
	for _, enc := range []otlp.Encoding{otlp.Protobuf, otlp.JSON} {
		data := write(b, r)[enc]
		b.Run(enc.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := otlp.Decode(signal, enc, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLogs(b *testing.B) {
	records := make([]func(plog.LogRecord), 100)
	for i := range records {
		records[i] = func(r plog.LogRecord) {
			r.Body().SetStr(fmt.Sprintf("user %d logged in from the usual place", i))
			r.SetSeverityNumber(plog.SeverityNumberInfo)
			r.SetTimestamp(1_700_000_000_000_000_000)
			put(b, r.Attributes(), attrs{"user.id": int64(i), "route": "/login", "ok": true})
		}
	}
	bench(b, otlp.Logs, logRequest(b, resource, records...))
}

func BenchmarkTraces(b *testing.B) {
	spans := make([]func(ptrace.Span), 100)
	for i := range spans {
		spans[i] = sample(b)
	}
	bench(b, otlp.Traces, traceRequest(b, resource, spans...))
}
