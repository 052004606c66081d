package otlp_test

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// fuzz checks that every body gives an error or valid events within the bounds, which can
// be encoded, and an answer.
func fuzz(f *testing.F, signal otlp.Signal, seeds ...request) {
	for _, seed := range seeds {
		for enc, data := range write(f, seed) {
			f.Add(int(enc), data)
		}
	}
	f.Add(int(otlp.JSON), []byte(`{"resourceLogs":[null,{"scopeLogs":[{"logRecords":[{"body":{"kvlistValue":{"values":[{"":null}]}}}]}]}]}`))
	f.Add(int(otlp.JSON), deepJSON(3))
	f.Add(int(otlp.Protobuf), in(nestedValue(5), 5, 2, 2, 1))
	f.Fuzz(func(t *testing.T, enc int, data []byte) {
		encoding := otlp.Encoding(enc & 1)
		d, err := otlp.Decode(signal, encoding, data)
		if err != nil {
			if len(d.Events) != 0 || d.Rejected != 0 {
				t.Fatalf("got %+v with error %v, want nothing with an error", d, err)
			}
			_ = otlp.Status(encoding, 400, err.Error())
			return
		}
		if len(d.Events) > decoding.MaxItems || d.Rejected > decoding.MaxItems || (d.Rejected == 0) != (d.Reason == "") {
			t.Fatalf("%d events, %d rejected: %q, want at most %d, and a reason if any is rejected", len(d.Events), d.Rejected, d.Reason, decoding.MaxItems)
		}
		for i := range d.Events {
			if err := d.Events[i].Validate(); err != nil {
				t.Fatalf("event %+v is invalid: %v, want only valid ones", d.Events[i], err)
			}
			if l := d.Events[i].Log; l != nil {
				l.Args = nil // ingest cleans them, and so the texts
				l.Message, l.Stack, l.Source = sanitize.Strip(l.Message), sanitize.Strip(l.Stack), sanitize.Strip(l.Source)
			}
			d.Events[i].App, d.Events[i].Session, d.Events[i].URL = "", "", sanitize.Strip(d.Events[i].URL)
			if n := d.Events[i].Network; n != nil {
				n.Method, n.URL, n.Error = sanitize.Strip(n.Method), sanitize.Strip(n.URL), sanitize.Strip(n.Error)
				n.RequestHeaders, n.ResponseHeaders = nil, nil
			}
		}
		if _, err := telemetry.Encode(d.Events); err != nil {
			t.Fatal(err)
		}
		_ = otlp.Answer(signal, encoding, d)
	})
}

func FuzzLogs(f *testing.F) {
	fuzz(f, otlp.Logs, logRequest(f, resource, func(r plog.LogRecord) {
		r.Body().SetStr("hi")
		r.SetTimestamp(1)
		put(f, r.Attributes(), attrs{"exception.type": "E", "exception.stacktrace": "at", "code.file.path": "a.go", "x": []any{attrs{"y": 1.5}, []byte("b")}})
	}))
}

func FuzzTraces(f *testing.F) {
	fuzz(f, otlp.Traces,
		traceRequest(f, resource, sample(f)),
		traceRequest(f, resource, sample(f), sample(f)))
}

func FuzzMetrics(f *testing.F) {
	fuzz(f, otlp.Metrics, metricRequest(f, resource, gauges(f,
		point{"+jvm.memory.used", 5, attrs{"jvm.memory.pool.name": "old"}, 1}, point{"+jvm.memory.limit", 9, attrs{"jvm.memory.pool.name": "old"}, 1},
		point{"system.memory.usage", 5.5, attrs{"state": "used"}, 1})))
}
