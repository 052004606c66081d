package otlp_test

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
)

// TestAnswer decodes the answers with the decoder of the OpenTelemetry Collector.
func TestAnswer(t *testing.T) {
	logs, traces, metrics := plogotlp.NewExportResponse(), ptraceotlp.NewExportResponse(), pmetricotlp.NewExportResponse()
	for _, tt := range []struct {
		signal otlp.Signal
		reader interface {
			UnmarshalProto([]byte) error
			UnmarshalJSON([]byte) error
		}
		partial func() (int64, string)
	}{
		{otlp.Logs, logs, func() (int64, string) {
			return logs.PartialSuccess().RejectedLogRecords(), logs.PartialSuccess().ErrorMessage()
		}},
		{otlp.Traces, traces, func() (int64, string) {
			return traces.PartialSuccess().RejectedSpans(), traces.PartialSuccess().ErrorMessage()
		}},
		{otlp.Metrics, metrics, func() (int64, string) {
			return metrics.PartialSuccess().RejectedDataPoints(), metrics.PartialSuccess().ErrorMessage()
		}},
	} {
		for _, enc := range []otlp.Encoding{otlp.Protobuf, otlp.JSON} {
			read := tt.reader.UnmarshalProto
			all := ""
			if enc == otlp.JSON {
				read, all = tt.reader.UnmarshalJSON, "{}"
			}
			if got := otlp.Answer(tt.signal, enc, otlp.Decoded{}); got == nil || string(got) != all {
				t.Errorf("Answer where all was accepted = %q, want %q", got, all)
			}
			if err := read(otlp.Answer(tt.signal, enc, otlp.Decoded{Rejected: 300, Reason: `no "status"`})); err != nil {
				t.Fatal(err)
			}
			if n, reason := tt.partial(); n != 300 || reason != `no "status"` {
				t.Errorf("partial success = %d, %s, want 300, %s", n, reason, `no "status"`)
			}
		}
	}
}

func TestStatus(t *testing.T) {
	const want = `{"ok":false,"error":"a \"b\"\ufffd","code":8,"message":"a \"b\"\ufffd"}`
	if got := string(otlp.Status(otlp.JSON, 413, "a \"b\"\xff")); !sameJSON(t, got, want) {
		t.Errorf("Status = %s, want %s", got, want)
	}
	for status, want := range map[int]uint64{400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 413: 8, 415: 3, 429: 8, 500: 13, 503: 14} {
		body := otlp.Status(otlp.Protobuf, status, "why\xff")
		number, _, n := protowire.ConsumeTag(body)
		code, m := protowire.ConsumeVarint(body[n:])
		if number != 1 || code != want {
			t.Errorf("%d: field %d is %d, want %d", status, number, code, want)
		}
		number, _, k := protowire.ConsumeTag(body[n+m:])
		text, _ := protowire.ConsumeString(body[n+m+k:])
		if number != 2 || text != "why\ufffd" {
			t.Errorf("%d: field %d is %q, want field 2 with %q", status, number, text, "why\ufffd")
		}
	}
}
