package otlp_test

import (
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
)

func TestLogs(t *testing.T) {
	const of = `"kind":"log","app":"shop","session":"i-1"`
	for _, tt := range []struct {
		name string
		fill func(plog.LogRecord)
		want string
	}{
		{"a line", func(r plog.LogRecord) { r.Body().SetStr("hi") },
			`{` + of + `,"log":{"level":"info","message":"hi"}}`},
		{"with a time", func(r plog.LogRecord) {
			r.Body().SetStr("hi")
			r.SetTimestamp(1_700_000_000_123_000_000)
			r.SetObservedTimestamp(1)
		}, `{` + of + `,"time":"2023-11-14T22:13:20.123Z","log":{"level":"info","message":"hi"}}`},
		{"with the time when it was seen", func(r plog.LogRecord) {
			r.Body().SetStr("hi")
			r.SetObservedTimestamp(1_700_000_000_000_000_000)
		}, `{` + of + `,"time":"2023-11-14T22:13:20Z","log":{"level":"info","message":"hi"}}`},
		{"a session of its own", func(r plog.LogRecord) {
			r.Body().SetStr("hi")
			put(t, r.Attributes(), attrs{"session.id": "s-1"})
		}, `{"kind":"log","app":"shop","session":"s-1","log":{"level":"info","message":"hi"}}`},
		{"a body that is a map", func(r plog.LogRecord) {
			put(t, r.Body().SetEmptyMap(), attrs{"b": int64(2), "a": []any{"<x>", true}})
		}, `{` + of + `,"log":{"level":"info","message":"{\"a\":[\"<x>\",true],\"b\":2}"}}`},
		{"a body that is a number", func(r plog.LogRecord) { r.Body().SetInt(42) },
			`{` + of + `,"log":{"level":"info","message":"42"}}`},
		{"attributes are arguments", func(r plog.LogRecord) {
			r.Body().SetStr("paid")
			put(t, r.Attributes(), attrs{"user": attrs{"id": int64(7)}, "ok": true})
		}, `{` + of + `,"log":{"level":"info","message":"paid","args":[{"user":{"id":7},"ok":true}]}}`},
		{"a place in code", func(r plog.LogRecord) {
			r.Body().SetStr("hi")
			put(t, r.Attributes(), attrs{"code.file.path": "/app/main.go", "code.line.number": int64(12), "code.column.number": int64(3)})
		}, `{` + of + `,"log":{"level":"info","message":"hi","source":"/app/main.go:12:3"}}`},
		{"a place in code by its former names", func(r plog.LogRecord) {
			r.Body().SetStr("hi")
			put(t, r.Attributes(), attrs{"code.filepath": "main.py", "code.lineno": int64(12)})
		}, `{` + of + `,"log":{"level":"info","message":"hi","source":"main.py:12"}}`},
		{"an exception without a body", func(r plog.LogRecord) {
			r.SetSeverityNumber(plog.SeverityNumberError)
			put(t, r.Attributes(), attrs{"exception.type": "TypeError", "exception.message": "x is null", "exception.stacktrace": "at f (a.js:1)"})
		}, `{` + of + `,"log":{"level":"error","message":"TypeError: x is null","stack":"at f (a.js:1)"}}`},
		{"an exception with a body keeps what it says", func(r plog.LogRecord) {
			r.Body().SetStr("checkout broke")
			put(t, r.Attributes(), attrs{"exception.type": "TypeError", "exception.stacktrace": "at f (a.js:1)"})
		}, `{` + of + `,"log":{"level":"error","message":"checkout broke","stack":"at f (a.js:1)","args":[{"exception.type":"TypeError"}]}}`},
		{"a fingerprint", func(r plog.LogRecord) {
			r.Body().SetStr("checkout broke")
			put(t, r.Attributes(), attrs{"error.fingerprint": "checkout"})
		}, `{` + of + `,"log":{"level":"info","message":"checkout broke","fingerprint":["checkout"]}}`},
		{"an event with a name only", func(r plog.LogRecord) { r.SetEventName("app.started") },
			`{` + of + `,"log":{"level":"info","message":"app.started"}}`},
		{"nothing at all", func(plog.LogRecord) {}, `{` + of + `,"log":{"level":"info","message":""}}`},
	} {
		t.Run(tt.name, func(t *testing.T) { same(t, otlp.Logs, logRequest(t, resource, tt.fill), tt.want) })
	}
}

func TestLevels(t *testing.T) {
	for _, tt := range []struct {
		number plog.SeverityNumber
		text   string
		want   string
	}{
		{1, "", "debug"}, {4, "", "debug"}, {5, "", "debug"}, {8, "", "debug"},
		{9, "", "info"}, {12, "", "info"}, {13, "", "warn"}, {16, "", "warn"},
		{17, "", "error"}, {20, "", "error"}, {21, "", "error"}, {24, "", "error"},
		{9, "ERROR", "info"}, // the number decides
		{0, "", "info"}, {0, "unknown", "info"}, {0, "INFO3", "info"},
		{0, "trace", "debug"}, {0, "Debug", "debug"}, {0, "Information", "info"}, {0, "notice", "info"},
		{0, "WARN", "warn"}, {0, "warning", "warn"}, {0, "WARN2", "warn"},
		{0, "err", "error"}, {0, "Error", "error"}, {0, " ERROR4 ", "error"}, {0, "critical", "error"},
		{0, "FATAL", "error"}, {0, "SEVERE", "error"}, {0, "emergency", "error"}, {0, "panic", "error"},
		{25, "warn", "warn"}, {-1, "error", "error"}, {99, "", "info"},
	} {
		same(t, otlp.Logs, logRequest(t, attrs{}, func(r plog.LogRecord) {
			r.Body().SetStr("m")
			r.SetSeverityNumber(tt.number)
			r.SetSeverityText(tt.text)
		}), `{"kind":"log","log":{"level":"`+tt.want+`","message":"m"}}`)
	}
}
