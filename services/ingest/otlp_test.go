package ingest

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// exported returns a request with one log record, in protobuf.
func exported(t *testing.T, message string) []byte {
	t.Helper()
	all := plog.NewLogs()
	from := all.ResourceLogs().AppendEmpty()
	from.Resource().Attributes().PutStr("service.name", "shop")
	from.ScopeLogs().AppendEmpty().LogRecords().AppendEmpty().Body().SetStr(message)
	data, err := plogotlp.NewExportRequestFromLogs(all).MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// exportedStatus returns a request with a span of each HTTP status, in protobuf.
func exportedStatus(t *testing.T, statuses ...int64) []byte {
	t.Helper()
	all := ptrace.NewTraces()
	spans := all.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for _, status := range statuses {
		spans.AppendEmpty().Attributes().PutInt("http.response.status_code", status)
	}
	data, err := ptraceotlp.NewExportRequestFromTraces(all).MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const exportedJSON = `{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeLogs":[{"logRecords":[{"severityNumber":17,"body":{"stringValue":"the password is hunter2\u202e"}}]}]}]}`

func TestOTLP(t *testing.T) {
	const protobuf, local, foreign = typeProtobuf, "http://localhost:3000", "https://evil.example"
	hi := exported(t, "hi")
	bomb := packed(t, "gzip", make([]byte, maxDecompressed+1))
	spans := bytes.Repeat([]byte{0x12, 0x00}, 500_000) // a million bytes of empty ones
	spans = protowire.AppendBytes([]byte{0x12}, spans)
	spans = protowire.AppendBytes([]byte{0x0a}, spans)
	for _, c := range []struct {
		name, path, media string
		body              []byte
		header            []string
		sink              *fakeSink
		change            func(*Config)
		status            int
		answer            string // whole where status is 200, else a part
		stored            int
	}{
		{name: "logs", path: pathOTLPLogs, media: protobuf, body: hi, status: 200, stored: 1},
		{name: "logs in JSON", path: pathOTLPLogs, media: typeJSON, body: []byte(exportedJSON), status: 200, answer: "{}", stored: 1},
		{name: "packed", path: pathOTLPLogs, media: protobuf, body: packed(t, "gzip", hi), header: []string{"Content-Encoding", "gzip"}, status: 200, stored: 1},
		{name: "nothing", path: pathOTLPMetrics, media: protobuf, status: 200},
		{name: "nothing of ours", path: pathOTLPMetrics, media: typeJSON, body: []byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"x"}]}]}]}`), status: 200, answer: "{}"},
		{name: "spans", path: pathOTLPTraces, media: protobuf, body: exportedStatus(t, 200, 500), status: 200, stored: 2},
		{name: "spans, one of them wrong", path: pathOTLPTraces, media: protobuf, body: exportedStatus(t, 200, 1000), status: 200, stored: 1,
			answer: "\x0aB\x08\x01\x12>http.response.status_code must be a whole number from 0 to 999"},
		{name: "all are wrong, in JSON", path: pathOTLPTraces, media: typeJSON, status: 200,
			body:   []byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"http.status_code","value":{"intValue":"1000"}}]}]}]}]}`),
			answer: `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"http.status_code must be a whole number from 0 to 999"}}`},
		{name: "a page of this machine", path: pathOTLPTraces, media: typeJSON, body: []byte(`{}`), header: []string{"Origin", local}, status: 200, answer: "{}"},
		{name: "a foreign page", path: pathOTLPTraces, media: typeJSON, body: []byte(`{}`), header: []string{"Origin", foreign}, status: 403, answer: `"code":7`},
		{name: "garbage", path: pathOTLPLogs, media: protobuf, body: []byte("garbage"), status: 400, answer: "not an OTLP export request in protobuf"},
		{name: "garbage in JSON", path: pathOTLPLogs, media: typeJSON, body: []byte("garbage"), status: 400, answer: `"code":3,"message":"the body is not an OTLP export request in JSON`},
		{name: "broken gzip", path: pathOTLPLogs, media: protobuf, body: []byte("garbage"), header: []string{"Content-Encoding", "gzip"}, status: 400, answer: "not gzip"},
		{name: "a gzip bomb", path: pathOTLPLogs, media: protobuf, body: bomb, header: []string{"Content-Encoding", "gzip"}, status: 413, answer: "send smaller batches"},
		{name: "half a million spans", path: pathOTLPTraces, media: protobuf, body: spans, status: 413, answer: "more than 10000 spans: send smaller batches"},
		{name: "half a million spans, packed", path: pathOTLPTraces, media: protobuf, body: packed(t, "gzip", spans), header: []string{"Content-Encoding", "gzip"}, status: 413, answer: "more than 10000 spans"},
		{name: "gRPC", path: pathOTLPLogs, media: "application/grpc", body: hi, status: 415, answer: `application/x-protobuf, application/json`},
		{name: "without the token", path: pathOTLPLogs, media: protobuf, body: hi, change: withToken, status: 401, answer: "a token is required"},
		{name: "with the token", path: pathOTLPLogs, media: protobuf, body: hi, change: withToken, header: []string{"Authorization", "Bearer s3cret"}, status: 200, stored: 1},
		{name: "the bus is unreachable", path: pathOTLPLogs, media: protobuf, body: hi, sink: &fakeSink{err: bus.ErrUnreachable}, status: 503, answer: "\x08\x0e"},
		{name: "the bus is busy", path: pathOTLPLogs, media: typeJSON, body: []byte(exportedJSON), sink: &fakeSink{err: bus.ErrBusy}, status: 429, answer: `"code":8`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.sink
			if s == nil {
				s = &fakeSink{}
			}
			h := testHandler(s, func(cfg *Config) {
				if c.change != nil {
					c.change(cfg)
				}
			})
			w := answerOf(h, ask("POST", c.path, bytes.NewReader(c.body), append([]string{"Content-Type", c.media}, c.header...)...))
			got := w.Body.String()
			if w.Code != c.status || !strings.Contains(got, c.answer) || w.Code == 200 && got != c.answer {
				t.Errorf("got %d %q, want %d %q", w.Code, got, c.status, c.answer)
			}
			want := typeJSON
			if c.media == protobuf {
				want = protobuf
			}
			if w.Header().Get("Content-Type") != want || w.Header().Get("Content-Length") == "" {
				t.Errorf("header = %v, want Content-Type %s and a length", w.Header(), want)
			}
			if retry := w.Header().Get("Retry-After") != ""; retry != (c.status == 503 || c.status == 429) {
				t.Errorf("header = %v, want Retry-After: %t", w.Header(), c.status == 503 || c.status == 429)
			}
			events := 0
			for _, m := range s.msgs {
				in, err := telemetry.DecodeMessage(m.Data)
				if err != nil {
					t.Fatal(err)
				}
				events += len(in)
			}
			if events != c.stored {
				t.Errorf("%d events are stored, want %d", events, c.stored)
			}
		})
	}
}

// TestOTLPIsCleaned checks that events from OTLP are cleaned as all others.
func TestOTLPIsCleaned(t *testing.T) {
	s := &fakeSink{}
	answerOf(testHandler(s), ask("POST", pathOTLPLogs, strings.NewReader(exportedJSON), "Content-Type", typeJSON, "User-Agent", "OTel-OTLP-Exporter-JavaScript/0.301.0"))
	const want = `[{"kind":"log","app":"shop","time":"2026-01-28T14:30:00.123Z","log":{"level":"error","message":"the password is [REDACTED]"}}]`
	if m := s.msgs[0]; string(m.Data) != want || m.Subject != "telemetry.shop.log" || m.Header.Get(bus.HeaderSender) != "OTel-OTLP-Exporter-JavaScript" {
		t.Errorf("message = %s %s %v, want %s", m.Subject, m.Data, m.Header, want)
	}
}

// TestOTLPPreflight checks the answer to the preflight of the SDK for browsers.
func TestOTLPPreflight(t *testing.T) {
	for origin, want := range map[string]int{"http://localhost:3000": http.StatusNoContent, "https://evil.example": http.StatusForbidden} {
		w := answerOf(testHandler(&fakeSink{}), ask("OPTIONS", pathOTLPTraces, nil, "Origin", origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"))
		if w.Code != want {
			t.Errorf("origin %s: got %d %s, want %d", origin, w.Code, w.Body, want)
		}
	}
}
