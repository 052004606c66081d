package agents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestAnswersFitIntoAModelsContext sends requests with long bodies and many headers,
// and events of many apps. It checks that each block of an answer is bounded, and that
// every entry is on one page even while others arrive.
func TestAnswersFitIntoAModelsContext(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	const firstBlock, alertsBlock = 40 << 10, 24 << 10
	text := func(n int) string { return strings.Repeat("lorem ipsum ", n/12) }
	headers := map[string]any{}
	for i := range 40 {
		headers[fmt.Sprint("x-header-", i)] = text(200)
	}
	n := 0
	send := func(count int) {
		var batch []map[string]any
		for range count {
			batch = append(batch, map[string]any{"kind": "network", "app": "shop", "network": map[string]any{
				"method": "POST", "url": fmt.Sprintf("http://localhost/api/%s/item", e2etest.Letters(n)), "status": 500, "duration_ms": n,
				"request_headers": headers, "request_body": text(8000), "response_body": text(8000),
			}})
			n++
		}
		sys.PostEvents(t, batch...)
	}
	for range 6 {
		send(20) // of the same time
	}
	for i := range 10 {
		var batch []map[string]any
		for j := range 30 {
			batch = append(batch, map[string]any{"kind": "log", "app": fmt.Sprintf("app-%03d", 30*i+j), "log": map[string]any{"level": "info", "message": "up"}})
		}
		sys.PostEvents(t, batch...)
	}
	read := func(what string, limit int, between func()) (entries []json.RawMessage) {
		t.Helper()
		args := map[string]any{"what": what, "limit": limit}
		for pages := 1; ; pages++ {
			o, err := sys.Agent.Observe(t.Context(), args)
			if err != nil {
				t.Fatal(err)
			}
			if len(o.First) > firstBlock || len(o.Block) > alertsBlock {
				t.Errorf("observe %s: got blocks of %d and %d bytes, want at most %d and %d", what, len(o.First), len(o.Block), firstBlock, alertsBlock)
			}
			var answer struct {
				Apps, Network, Errors, Logs, Alerts []json.RawMessage
				Truncated                           *struct {
					LeftOut int `json:"left_out"`
					Before  string
				}
			}
			if err := json.Unmarshal([]byte(o.First), &answer); err != nil {
				t.Fatalf("decode the answer %.200s: %v", o.First, err)
			}
			page := map[string][]json.RawMessage{"status": answer.Apps, "network": answer.Network, "logs": answer.Logs, "alerts": answer.Alerts}[what]
			if len(page) > limit {
				t.Errorf("observe %s: got %d entries, want at most %d", what, len(page), limit)
			}
			if entries = append(entries, page...); answer.Truncated == nil {
				return entries
			}
			if answer.Truncated.LeftOut < 1 || answer.Truncated.Before == "" {
				t.Fatalf("observe %s: got %+v, want how many are left out and a cursor", what, *answer.Truncated)
			}
			args["before"] = answer.Truncated.Before
			if pages == 1 {
				between()
			}
		}
	}
	quiet := func() {}
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { return len(read("logs", 200, quiet)) == 300 }) {
		t.Fatalf("got %d logs, want 300", len(read("logs", 200, quiet)))
	}
	for _, limit := range []int{50, 200} {
		var got []string
		known := n
		for _, entry := range read("network", limit, func() { send(3) }) {
			var e struct {
				Network struct {
					Duration int `json:"duration_ms"`
				}
			}
			if err := json.Unmarshal(entry, &e); err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(e.Network.Duration))
		}
		var want []string
		for i := known - 1; i >= 0; i-- {
			want = append(want, fmt.Sprint(i))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %d: got the requests %v, want %v", limit, got, want)
		}
		seen := map[string]int{}
		for _, entry := range read("status", limit, quiet) {
			var app struct{ App string }
			if err := json.Unmarshal(entry, &app); err != nil {
				t.Fatal(err)
			}
			seen[app.App]++
		}
		for i := range 300 {
			if name := fmt.Sprintf("app-%03d", i); seen[name] != 1 {
				t.Errorf("limit %d: got %s %d times, want it once", limit, name, seen[name])
			}
		}
	}
	if refused, err := sys.Agent.Call(t.Context(), "observe", map[string]any{"what": "logs", "before": "nonsense"}); err == nil || !strings.Contains(err.Error(), "before must be the value of truncated.before") {
		t.Errorf("got %v, %v for an invalid cursor, want a refusal with what is allowed", refused, err)
	}
}
