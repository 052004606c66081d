package sentry

import (
	"fmt"
	"testing"
)

func TestOtherItems(t *testing.T) {
	for _, tt := range []struct {
		name, kind, payload string
		want                []string
	}{
		{"a session begins", "session", `{"sid":"s","init":true,"status":"ok","attrs":{"release":"web@1"}}`, []string{"info session started"}},
		{"a session goes on", "session", `{"sid":"s","status":"ok","errors":1}`, nil},
		{"a session ends", "session", `{"sid":"s","status":"exited"}`, []string{"info session ended"}},
		{"a session crashes", "session", `{"sid":"s","init":true,"status":"crashed"}`, []string{"warn session crashed"}},
		{"a session is killed", "session", `{"sid":"s","status":"abnormal"}`, []string{"warn session crashed"}},
		{"a session has an unhandled error", "session", `{"sid":"s","status":"unhandled"}`, []string{"warn session crashed"}},
		{"sessions of a server", "sessions", `{"aggregates":[{"started":"2026-11-21T11:03:00.000Z","exited":3},{"exited":1,"crashed":1}]}`, []string{"info sessions ended", "warn sessions crashed"}},
		{"a report", "user_report", `{"event_id":"x","email":"ada@example.com","comments":"it broke"}`, []string{"info User feedback: it broke"}},
		{"feedback", "feedback", `{"contexts":{"feedback":{"message":"it broke","contact_email":"ada@example.com"}}}`, []string{"info User feedback: it broke"}},
		{"a check-in that failed", "check_in", `{"monitor_slug":"nightly","status":"error"}`, []string{"error Check-in nightly: error"}},
		{"a check-in that never came", "check_in", `{"monitor_slug":"nightly","status":"missed"}`, []string{"error Check-in nightly: missed"}},
		{"a check-in", "check_in", `{"monitor_slug":"nightly","status":"ok"}`, nil},
		{"logs", "log", `{"items":[{"level":"trace","body":"t"},{"level":"warn","body":"w"},{"level":"fatal","body":"f"},{"body":"b"},7]}`,
			[]string{"debug t", "warn w", "error f", "info b"}},
		{"profiles", "profile", `{}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check(t, itemOf(t, nil, `{"type":"`+tt.kind+`"}`, tt.payload), tt.want...)
		})
	}
}

func TestAttributesOfLogs(t *testing.T) {
	e := itemOf(t, nil, `{"type":"log"}`, `{"items":[{"body":"b","trace_id":"t","timestamp":1000,"attributes":{"left":{"value":2,"type":"integer"},"list":{"value":[1],"type":"array"},`+
		`"plain":"p","user.id":{"value":"u"},"user.email":{"value":"ada@example.com"},"sentry.sdk.name":{"value":"x"},"sentry.release":{"value":"till@1"},`+
		`"code.file.path":{"value":"a.go"},"code.line.number":{"value":7}}}]}`)[0]
	if got := fmt.Sprintf("%v %s %s %s", e.Log.Args, e.App, e.Session, e.Log.Source); got != "[map[left:2 list:[1] plain:p user.id:u]] till t a.go:7" {
		t.Errorf("args, app, session and source = %s, want [map[left:2 list:[1] plain:p user.id:u]] till t a.go:7", got)
	}
}

func TestIgnored(t *testing.T) {
	d, err := Sender{Project: "1"}.Envelope([]byte("{}\n{\"type\":\"client_report\"}\n{}\n{\"type\":\"client_report\"}\n{}\n{\"type\":\"news\"}\n{}\n{\"type\":\"event\"}\n{\n{\"type\":\"log\"}\n{}"))
	if err != nil || fmt.Sprint(d.Ignored) != "map[client_report:2 malformed:1 other:1]" {
		t.Errorf("ignored = %v, error %v, want map[client_report:2 malformed:1 other:1]", d.Ignored, err)
	}
}
