package investigate

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

// guarded is a configuration with a server that an alert may choose, and one that it may not.
const guarded = plain + `
  other: { stages: [{ name: look, agents: [{ name: good }] }] }
defaults: { llm_provider: chat, alert_type: crash }
`

// TestRefusals sends what the API has to refuse, and checks that nothing of it is left.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const token = "open-sesame"
	sys := investigation.Start(t, strings.Replace(guarded, "\nagents:", `
  chosen: { transport: { type: http, url: "$TOOLS" }, selectable: true, tools: ["lookup*"] }
  own: { transport: { type: http, url: "$TOOLS" } }
agents:`, 1), "TOCSIN_TOKEN="+token)
	sys.Token = token
	const unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	mebi := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		says                     string
	}{
		{name: "neither data nor alert_id", body: `{}`, status: 400, says: "data or alert_id"},
		{name: "both", body: `{"data":"x","alert_id":"y"}`, status: 400, says: "exclude each other"},
		{name: "empty data", body: `{"data":""}`, status: 400, says: "empty"},
		{name: "an empty object", body: `{"data":{}}`, status: 400, says: "empty"},
		{name: "a number", body: `{"data":1}`, status: 400, says: "data"},
		{name: "a list", body: `{"data":[1]}`, status: 400, says: "data"},
		{name: "no UTF-8", body: "{\"data\":\"\xff\"}", status: 400, says: "UTF-8"},
		{name: "no JSON", body: `{"data":`, status: 400, says: "JSON"},
		{name: "something after the object", body: `{"data":"x"} x`, status: 400, says: "after"},
		{name: "an unknown field", body: `{"data":"x","colour":"red"}`, status: 400, says: "colour"},
		{name: "a field twice", body: `{"data":"x","data":"y"}`, status: 400, says: "twice"},
		{name: "an unknown chain", body: `{"data":"x","chain":"nowhere"}`, status: 400, says: "nowhere"},
		{name: "an unknown server", body: `{"data":"x","chain":"simple","mcp":{"servers":[{"name":"ghost"}]}}`, status: 400, says: "ghost"},
		{name: "a server that is not selectable", body: `{"data":"x","chain":"simple","mcp":{"servers":[{"name":"own"}]}}`, status: 400, says: "not selectable"},
		{name: "a tool that is not in its tools", body: `{"data":"x","chain":"simple","mcp":{"servers":[{"name":"chosen","tools":["echo"]}]}}`, status: 400, says: "echo"},
		{name: "a server twice", body: `{"data":"x","chain":"simple","mcp":{"servers":[{"name":"chosen"},{"name":"chosen"}]}}`, status: 400, says: "chosen"},
		{name: "a runbook of another domain", body: `{"data":"x","runbook":"https://github.com.evil.example/x.md"}`, status: 400, says: "evil.example"},
		{name: "a runbook that is no address", body: `{"data":"x","runbook":"file:///etc/passwd"}`, status: 400, says: "runbook"},
		{name: "an alert that is not stored", body: `{"alert_id":"nothing"}`, status: 404, says: "alert"},
		{name: "data over 1 MiB", body: `{"data":"` + mebi + `x"}`, status: 413, says: "1048576"},
		{name: "an object over 1 MiB", body: `{"data":{"a":"` + mebi + `"}}`, status: 413, says: "1048576"},
		{name: "a body over 4 MiB", body: `{"data":"x"` + strings.Repeat(" ", 4<<20) + `}`, status: 413, says: "4194304"},
		{name: "a form", body: `data=x`, header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, says: "application/json"},
		{name: "text", body: `{"data":"x"}`, header: []string{"Content-Type", "text/plain"}, status: 415, says: "application/json"},
		{name: "a long Idempotency-Key", body: `{"data":"x"}`, header: []string{"Idempotency-Key", strings.Repeat("k", 201)}, status: 400, says: "Idempotency-Key"},
		{name: "a page of another origin", body: `{"data":"x"}`, header: []string{"Origin", "https://evil.example"}, status: 403},
		{name: "a page without an origin", body: `{"data":"x"}`, header: []string{"Origin", "null"}, status: 403},
		{name: "another host", body: `{"data":"x"}`, header: []string{"Host", "evil.example"}, status: 403},
		{name: "a wrong token", body: `{"data":"x"}`, header: []string{"Authorization", "Bearer wrong"}, status: 401, says: "the token is not valid"},
		{name: "an empty token", body: `{"data":"x"}`, header: []string{"Authorization", ""}, status: 401, says: "token"},
		{name: "cancelling with a wrong token", path: "/sessions/" + unknown + "/cancel", header: []string{"Authorization", "Bearer wrong"}, status: 401},
		{name: "reading as another host", method: "GET", path: "/sessions", header: []string{"Host", "evil.example"}, status: 403},
		{name: "reading as another page", method: "GET", path: "/sessions", header: []string{"Origin", "https://evil.example"}, status: 403},

		{name: "page 0", method: "GET", path: "/sessions?page=0", status: 400, says: "page"},
		{name: "page_size 0", method: "GET", path: "/sessions?page_size=0", status: 400, says: "page_size"},
		{name: "page_size 101", method: "GET", path: "/sessions?page_size=101", status: 400, says: "page_size"},
		{name: "sort_by", method: "GET", path: "/sessions?sort_by=colour", status: 400, says: "sort_by"},
		{name: "sort_order", method: "GET", path: "/sessions?sort_order=up", status: 400, says: "sort_order"},
		{name: "status", method: "GET", path: "/sessions?status=odd", status: 400, says: "status"},
		{name: "start_date", method: "GET", path: "/sessions?start_date=tomorrow", status: 400, says: "start_date"},
		{name: "an unknown parameter", method: "GET", path: "/sessions?colour=red", status: 400, says: "colour"},

		{name: "an unknown session", method: "GET", path: "/sessions/" + unknown, status: 404},
		{name: "a malformed session", method: "GET", path: "/sessions/x", status: 404},
		{name: "a subject of the bus", method: "GET", path: "/sessions/*", status: 404},
		{name: "a path", method: "GET", path: "/sessions/..%2f..%2fetc", status: 404},
		{name: "a malformed session's summary", method: "GET", path: "/sessions/x/summary", status: 404},
		{name: "an unknown session's status", method: "GET", path: "/sessions/" + unknown + "/status", status: 404},
		{name: "an unknown session's timeline", method: "GET", path: "/sessions/" + unknown + "/timeline", status: 404},
		{name: "an unknown session's trace", method: "GET", path: "/sessions/" + unknown + "/trace", status: 404},
		{name: "an unknown session's model call", method: "GET", path: "/sessions/" + unknown + "/trace/llm/x", status: 404},
		{name: "an unknown session's tool call", method: "GET", path: "/sessions/" + unknown + "/trace/mcp/x", status: 404},
		{name: "cancelling an unknown session", path: "/sessions/" + unknown + "/cancel", status: 404},
		{name: "retrying a malformed session", path: "/sessions/x/retry", status: 404},
		{name: "a message to a chat", path: "/sessions/" + unknown + "/chat/messages", body: `{"content":"x"}`, status: 404},
		{name: "an approval", path: "/sessions/" + unknown + "/approvals/x", body: `{"decision":"approve"}`, status: 404},
		{name: "a review", path: "/sessions/" + unknown + "/review", body: `{"rating":"wrong"}`, status: 404},
		{name: "usage", method: "GET", path: "/usage", status: 404},
		{name: "another path", method: "GET", path: "/nothing", status: 404},
		{name: "another method", method: "DELETE", path: "/sessions", status: 405},
	} {
		if c.method == "" {
			c.method = http.MethodPost
		}
		if c.path == "" {
			c.path = "/alerts"
		}
		a := sys.Send(t, c.method, c.path, c.body, c.header...)
		var refusal map[string]any
		err := a.JSON(&refusal)
		text, _ := refusal["error"].(string)
		if err != nil || a.Status != c.status || !strings.Contains(text, c.says) || text == "" {
			t.Errorf("%s: got %d %.300s, want %d with an error that has %q", c.name, a.Status, a.Body, c.status, c.says)
		}
	}
	var list struct {
		Sessions []investigation.Session `json:"sessions"`
	}
	if sys.Get(t, "/sessions", &list); len(list.Sessions) != 0 {
		t.Errorf("what was refused left %d sessions, want none", len(list.Sessions))
	}

	ended(t, sys)
}

// ended checks what is refused of a session that has ended, or belongs to a request with the same
// key.
func ended(t *testing.T, sys *investigation.System) {
	t.Helper()
	subject := sys.Models.Script(func(q turn) modeltest.Answer { return q.Say("done") })
	body := e2etest.JSON(t, map[string]any{"chain": "simple", "data": subject})
	first := sys.Send(t, http.MethodPost, "/alerts", body, "Idempotency-Key", "one")
	again := sys.Send(t, http.MethodPost, "/alerts", body, "Idempotency-Key", "one")
	if first.Status != http.StatusAccepted || again.Status != http.StatusAccepted || first.Body != again.Body {
		t.Errorf("the same request with one key: %d %s and %d %s, want the same 202", first.Status, first.Body, again.Status, again.Body)
	}
	other := e2etest.JSON(t, map[string]any{"chain": "other", "data": subject})
	if a := sys.Send(t, http.MethodPost, "/alerts", other, "Idempotency-Key", "one"); a.Status != http.StatusConflict {
		t.Errorf("another request with the same key: %d %s, want 409", a.Status, a.Body)
	}
	var answer struct {
		SessionID string `json:"session_id"`
	}
	e2etest.NoError(t, first.JSON(&answer))
	sys.Await(t, answer.SessionID, "completed")
	for _, action := range []string{"cancel", "retry"} {
		if a := sys.Send(t, http.MethodPost, "/sessions/"+answer.SessionID+"/"+action, ""); a.Status != http.StatusConflict {
			t.Errorf("%s of a completed session answers %d %s, want 409", action, a.Status, a.Body)
		}
	}
	for _, query := range []string{"after=-1", "after=x", "limit=0", "limit=1001", "colour=red"} {
		if a := sys.Send(t, http.MethodGet, "/sessions/"+answer.SessionID+"/timeline?"+query, ""); a.Status != http.StatusBadRequest {
			t.Errorf("timeline?%s answers %d %s, want 400", query, a.Status, a.Body)
		}
	}
	for _, path := range []string{"/trace/llm/x", "/trace/mcp/x"} {
		if a := sys.Send(t, http.MethodGet, "/sessions/"+answer.SessionID+path, ""); a.Status != http.StatusNotFound {
			t.Errorf("%s answers %d %s, want 404", path, a.Status, a.Body)
		}
	}
}

// TestBadConfigurations starts the command with files that it has to refuse, each with all that is
// wrong and the line.
func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		says       []string
	}{
		{"an unknown key", "colour: red\n", []string{":1", "colour"}},
		{"two errors", plain + "defaults: { llm_provider: ghost, max_iterations: 0 }\n", []string{"ghost", "max_iterations"}},
		{"a variable that is not set", plain + "defaults: { llm_provider: chat, runbook: \"{{.NO_SUCH_VARIABLE}}\" }\n", []string{"NO_SUCH_VARIABLE"}},
		{"a key over plain HTTP", "llm_providers:\n  far: { type: openai, model: m, base_url: \"http://192.0.2.1/v1\", api_key_env: PATH }\ndefaults: { llm_provider: far }\n", []string{":2", "http"}},
		{"no YAML", "defaults: [\n", []string{"investigator.yaml"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sys := investigation.Prepare(t, c.text)
			code, _, stderr := e2etest.Tocsin(t, sys.StateDir, "up", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0", "--ingest-addr=127.0.0.1:0",
				"--investigator="+sys.File, "--investigator-addr=127.0.0.1:0")
			if code == 0 {
				t.Errorf("tocsin up exits 0, want a refusal\n%s", stderr)
			}
			for _, text := range c.says {
				if !strings.Contains(stderr, text) {
					t.Errorf("the refusal has no %q:\n%s", text, stderr)
				}
			}
		})
	}
}
