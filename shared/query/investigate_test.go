package query_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/shared/query"
)

// TestInvestigationWireForm compares the JSON of the requests to an investigator and of its answers
// with what other versions read and write.
func TestInvestigationWireForm(t *testing.T) {
	at := time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	about := &query.InvestigatedAlert{ID: "a1", App: "web", Title: "New error: TypeError", DedupKey: "errors:web:1"}
	for _, tt := range []struct {
		name  string
		value any
		want  string
	}{
		{"submit an alert", query.SubmitRequest{Client: "codex 1.0", AlertID: "a1", Chain: "crash", WaitSeconds: 50},
			`{"client":"codex 1.0","alert_id":"a1","chain":"crash","wait_seconds":50}`},
		{"submit a text", query.SubmitRequest{Client: "codex", Data: []byte("<b>\x00\n")}, `{"client":"codex","data":"PGI+AAo="}`},
		{"get", query.SessionRequest{SessionID: "01J", WaitSeconds: 1}, `{"session_id":"01J","wait_seconds":1}`},
		{"list", query.SessionsRequest{App: "web", Namespaces: []string{"shop"}, Since: at, Before: "01J", Limit: 5}, `{"app":"web","namespaces":["shop"],"since":"2026-01-28T14:30:00Z","before":"01J","limit":5}`},
		{"list all", query.SessionsRequest{}, `{}`},
		{"a pending session", query.Investigation{SessionID: "01J", Status: "pending", URL: "http://h/1"}, `{"session_id":"01J","status":"pending","url":"http://h/1"}`},
		{"a completed session", query.Investigation{
			SessionID: "01J", Status: "completed", Joined: true, Summary: "s", Conclusion: json.RawMessage(`{"confidence":"likely"}`), Analysis: "a", Error: "e",
			URL: "http://h/1", Note: "n", Alert: about,
		}, `{"session_id":"01J","status":"completed","joined":true,"summary":"s","conclusion":{"confidence":"likely"},"analysis":"a","error":"e","url":"http://h/1","note":"n",` +
			`"alert":{"id":"a1","app":"web","title":"New error: TypeError","dedup_key":"errors:web:1"}}`},
		{"no sessions", query.SessionsReply{Sessions: []query.SessionEntry{}}, `{"sessions":[]}`},
		{"sessions", query.SessionsReply{Sessions: []query.SessionEntry{{
			SessionID: "01J", Status: "failed", Alert: about, Chain: "crash", Author: "mcp:codex", Created: at, Completed: at.Add(time.Second), Summary: "s", Error: "e", URL: "u",
		}, {SessionID: "01H", Status: "pending", Created: at}}, Older: 3},
			`{"sessions":[{"session_id":"01J","status":"failed","alert":{"id":"a1","app":"web","title":"New error: TypeError","dedup_key":"errors:web:1"},` +
				`"chain":"crash","author":"mcp:codex","created_at":"2026-01-28T14:30:00.000Z","completed_at":"2026-01-28T14:30:01.000Z","summary":"s","error":"e","url":"u"},` +
				`{"session_id":"01H","status":"pending","chain":"","author":"","created_at":"2026-01-28T14:30:00.000Z","url":""}],"older":3}`},
		{"health", query.InvestigatorHealth{Queued: 2, Running: 1, ModelsDown: []string{"m"}, ServersDown: []string{"s"}},
			`{"queued":2,"running":1,"models_down":["m"],"servers_down":["s"]}`},
	} {
		data, err := json.Marshal(tt.value)
		if err != nil || string(data) != tt.want {
			t.Errorf("%s = %s, %v\nwant %s", tt.name, data, err, tt.want)
		}
		back := reflect.New(reflect.TypeOf(tt.value))
		if err := json.Unmarshal(data, back.Interface()); err != nil {
			t.Errorf("%s: read what was written: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.value, back.Elem().Interface()); diff != "" {
			t.Errorf("%s: read what was written (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestLongestDataFits: the longest text fits in a message of 2 MiB, with any characters.
func TestLongestDataFits(t *testing.T) {
	const maxPayload = 2 << 20
	for _, text := range []string{"a", "\x00", "<"} {
		data, err := json.Marshal(query.SubmitRequest{Client: strings.Repeat("c", 1000), Data: []byte(strings.Repeat(text, query.MaxInvestigationData)), Chain: strings.Repeat("c", 200)})
		if err != nil || len(data) > maxPayload {
			t.Errorf("the request with a text of %q has %d bytes, %v, want at most %d", text, len(data), err, maxPayload)
		}
	}
}
