package sentry

import (
	"runtime"
	"strings"
	"testing"
)

// TestSharedTextsAreBounded checks that a long text that many events share is not copied,
// hashed or parsed for each of them.
func TestSharedTextsAreBounded(t *testing.T) {
	const n = 2000
	long := strings.Repeat("9", 1<<20)
	checkIns := strings.Repeat(`{"type":"check_in"}`+"\n"+`{"status":"error"}`+"\n", n)
	span := `{"op":"http.client","start_timestamp":1,"timestamp":2,"description":"GET /a","data":{"http.response.status_code":500}},`
	for name, data := range map[string]string{
		"page":    "{}\n" + `{"type":"transaction"}` + "\n" + `{"type":"transaction","request":{"url":"http://` + long + `/p"},"contexts":{"trace":{"op":"pageload"}},"spans":[` + strings.Repeat(span, n) + `{}]}`,
		"app":     "{}\n" + `{"type":"transaction"}` + "\n" + `{"type":"transaction","tags":{"app":"` + long + `"},"spans":[` + strings.Repeat(span, n) + `{}]}`,
		"release": `{"trace":{"release":"` + long + `@1"}}` + "\n" + checkIns,
		"trace":   `{"trace":{"trace_id":"` + long + `"}}` + "\n" + checkIns,
		"sent_at": `{"sent_at":"` + long + `"}` + "\n" + checkIns,
		"attrs":   "{}\n" + `{"type":"sessions"}` + "\n" + `{"attrs":{"release":"` + long + `","environment":"` + long + `"},"aggregates":[` + strings.Repeat(`{"crashed":1},`, n) + `{}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := Sender{Project: "1"}.Envelope([]byte(data))
			runtime.ReadMemStats(&after)
			if err != nil || len(d.Events) < n {
				t.Fatalf("%d events, error %v, want at least %d", len(d.Events), err, n)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
				t.Errorf("%d MiB allocated, want at most 64", grown>>20)
			}
			for _, e := range d.Events {
				if len(e.App)+len(e.Session)+len(e.URL) > 3*maxShared || e.Log != nil && strings.Contains(longText(e.Log.Args), long) {
					t.Fatalf("an event of app %.20q has the long text, want it dropped", e.App)
				}
			}
		})
	}
}

// longText returns a text of the arguments that is longer than maxShared, or "".
func longText(args []any) string {
	for _, a := range args {
		for _, v := range a.(map[string]any) {
			if s, ok := v.(string); ok && len(s) > maxShared {
				return s
			}
		}
	}
	return ""
}
