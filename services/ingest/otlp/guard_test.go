package otlp_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
)

// in wraps a message into the fields of enclosing messages, the innermost field first.
func in(content []byte, fields ...protowire.Number) []byte {
	for _, n := range fields {
		content = protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), content)
	}
	return content
}

// many repeats one field n times.
func many(n int, field protowire.Number, content []byte) []byte {
	return bytes.Repeat(in(content, field), n)
}

// nestedValue returns values nested n deep.
func nestedValue(n int) []byte {
	value := in([]byte("x"), 1)
	for range n - 1 {
		value = in(value, 1, 5) // array_value of one
	}
	return value
}

const (
	million = 1_000_000
	empty   = `{},`
)

func objects(n int) string { return strings.TrimSuffix(strings.Repeat(empty, n), ",") }

// TestTooMuchIsRefusedUndecoded checks that a request beyond a bound is refused before it
// takes memory.
func TestTooMuchIsRefusedUndecoded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signal otlp.Signal
		enc    otlp.Encoding
		body   []byte
		want   string
	}{
		{"a million spans", otlp.Traces, otlp.Protobuf, in(many(million, 2, nil), 2, 1), "more than 10000 spans: send smaller batches"},
		{"a million log records", otlp.Logs, otlp.Protobuf, in(many(million, 2, nil), 2, 1), "more than 10000 log records: send smaller batches"},
		{"a million data points", otlp.Metrics, otlp.Protobuf, in(many(million, 1, nil), 7, 2, 2, 1), "more than 10000 data points"},
		{"a million points of histograms", otlp.Metrics, otlp.Protobuf, in(many(million, 1, nil), 10, 2, 2, 1), "more than 10000 data points"},
		{"10,001 spans in as many scopes", otlp.Traces, otlp.Protobuf, many(10_001, 1, in(nil, 2, 2)), "more than 10000 spans"},
		{"spans of a deprecated field", otlp.Traces, otlp.Protobuf, in(many(million, 2, nil), 1000, 1), "more than 10000 spans"},
		{"a million resources", otlp.Traces, otlp.Protobuf, many(million, 1, nil), "more than 400000 messages"},
		{"a million attributes", otlp.Logs, otlp.Protobuf, in(many(million, 6, nil), 2, 2, 1), "more than 400000 messages"},
		{"a million values", otlp.Logs, otlp.Protobuf, in(many(million, 1, nil), 5, 5, 2, 2, 1), "more than 400000 messages"},
		{"a million span events", otlp.Traces, otlp.Protobuf, in(many(million, 11, nil), 2, 2, 1), "more than 400000 messages"},
		{"a million keys of an entity", otlp.Traces, otlp.Protobuf, in(many(million, 3, nil), 3, 1, 1), "more than 400000 messages"},
		{"eight million buckets", otlp.Metrics, otlp.Protobuf, in(in(make([]byte, 8*million), 2), 8, 1, 10, 2, 2, 1), "more than 400000 messages"},
		{"values that are too deep", otlp.Logs, otlp.Protobuf, in(nestedValue(65), 5, 2, 2, 1), "values are nested more than 64 deep"},
		{"values that are much too deep", otlp.Logs, otlp.Protobuf, in(nestedValue(5000), 5, 2, 2, 1), "values are nested more than 64 deep"},

		{"a million spans", otlp.Traces, otlp.JSON, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[` + objects(million) + `]}]}]}`), "more than 10000 spans"},
		{"a million log records, spelt otherwise", otlp.Logs, otlp.JSON, []byte(`{"resourceLogs":[{"scopeLogs":[{"log\u005frecords":[` + objects(million) + `]}]}]}`), "more than 10000 log records"},
		{"a million data points", otlp.Metrics, otlp.JSON, []byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"sum":{"dataPoints":[` + objects(million) + `]}}]}]}]}`), "more than 10000 data points"},
		{"a million resources", otlp.Traces, otlp.JSON, []byte(`{"resourceSpans":[` + objects(million) + `]}`), "more than 400000 messages"},
		{"seven million texts", otlp.Metrics, otlp.JSON, []byte(`{"x":[` + strings.Repeat(`"",`, 7*million) + `""]}`), "more than 400000 messages"},
		{"lists that are too deep", otlp.Logs, otlp.JSON, []byte(`{"x":` + strings.Repeat("[", 4000) + strings.Repeat("]", 4000) + `}`), "values are nested more than 64 deep"},
		{"half a million lists in lists", otlp.Logs, otlp.JSON, []byte(`{"x":` + strings.Repeat("[", million/2)), "values are nested more than 64 deep"},
	} {
		t.Run(tt.enc.String()+": "+tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := otlp.Decode(tt.signal, tt.enc, tt.body)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, decoding.ErrTooMany) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want ErrTooMany with %q", err, tt.want)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
				t.Errorf("%d bytes allocated to refuse %d, want at most %d", grown, len(tt.body), 1<<20)
			}
		})
	}
}

// TestAsMuchAsIsAllowed checks that requests just within the bounds are accepted, and how
// much memory they take.
func TestAsMuchAsIsAllowed(t *testing.T) {
	for _, tt := range []struct {
		name   string
		signal otlp.Signal
		enc    otlp.Encoding
		body   []byte
		events int
	}{
		{"10,000 log records", otlp.Logs, otlp.Protobuf, in(many(10_000, 2, nil), 2, 1), 10_000},
		{"10,000 spans", otlp.Traces, otlp.Protobuf, in(many(10_000, 2, nil), 2, 1), 0},
		{"399,997 scopes", otlp.Logs, otlp.Protobuf, in(many(399_997, 2, nil), 1), 0},
		{"399,996 span events", otlp.Traces, otlp.Protobuf, in(many(399_996, 11, nil), 2, 2, 1), 0},
		{"199,997 attributes", otlp.Logs, otlp.Protobuf, in(many(199_997, 6, in(nil, 2)), 2, 2, 1), 1},
		{"three million buckets", otlp.Metrics, otlp.Protobuf, in(in(make([]byte, 3*million), 2), 8, 1, 10, 2, 2, 1), 0},
		{"values 64 deep", otlp.Logs, otlp.Protobuf, in(nestedValue(64), 5, 2, 2, 1), 1},
		{"10,000 log records", otlp.Logs, otlp.JSON, []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + objects(10_000) + `]}]}]}`), 10_000},
		{"399,996 span events", otlp.Traces, otlp.JSON, []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"events":[` + objects(399_996) + `]}]}]}]}`), 0},
		{"values 64 deep", otlp.Logs, otlp.JSON, deepJSON(64), 1},
		{"three million numbers", otlp.Metrics, otlp.JSON, []byte(`{"x":[` + strings.Repeat("1,", 3*million) + `1]}`), 0},
	} {
		t.Run(tt.enc.String()+": "+tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := otlp.Decode(tt.signal, tt.enc, tt.body)
			runtime.ReadMemStats(&after)
			if err != nil || len(d.Events) != tt.events {
				t.Fatalf("%d events, error %v, want %d and none", len(d.Events), err, tt.events)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 160<<20 {
				t.Errorf("%d MiB allocated for a body of %d bytes, want at most 160", grown>>20, len(tt.body))
			}
		})
	}
}

// deepJSON returns a log record whose body is values nested n deep.
func deepJSON(n int) []byte {
	const begin, end = `{"kvlistValue":{"values":[{"key":"k","value":`, `}]}}`
	value := strings.Repeat(begin, n-1) + `{"stringValue":"x"}` + strings.Repeat(end, n-1)
	return []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":` + value + `}]}]}]}`)
}

// TestMoreExceptionsThanEvents checks that few spans with many exceptions are refused.
func TestMoreExceptionsThanEvents(t *testing.T) {
	exception := in([]byte("exception"), 2)
	_, err := otlp.Decode(otlp.Traces, otlp.Protobuf, in(many(10_001, 11, exception), 2, 2, 1))
	if !errors.Is(err, decoding.ErrTooMany) {
		t.Errorf("error %v, want ErrTooMany", err)
	}
}
