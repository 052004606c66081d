package investigate

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

// investigated is the answer of the tool investigate.
type investigated struct {
	SessionID  string `json:"session_id"`
	Status     string `json:"status"`
	Summary    string `json:"summary"`
	Conclusion *struct {
		Cause      string `json:"cause"`
		Confidence string `json:"confidence"`
	} `json:"conclusion"`
	URL    string `json:"url"`
	Joined bool   `json:"joined"`
	Note   string `json:"note"`
	From   string `json:"from"`
}

// TestTool has alerts investigated by a coding agent: a stored alert that others submit too, and a
// text. The agent waits for the end, reads a session again, and lists what there is.
func TestTool(t *testing.T) {
	t.Parallel()
	sys := investigation.Start(t, plain+"\ndefaults: { llm_provider: chat }\n")
	app := &e2etest.System{Bus: sys.Bus, Agent: e2etest.Join(t, sys.Bus, "coder")}
	investigation.Wait(t, "the tool investigate", func() bool {
		list, err := app.Agent.Session.ListTools(t.Context(), nil)
		e2etest.NoError(t, err)
		return slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == "investigate" })
	})
	call := func(args map[string]any) (out investigated) {
		t.Helper()
		text := app.Call(t, "investigate", args)
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("investigate %v answers %s: %v", args, text, err)
		}
		return out
	}
	gate := investigation.NewGate(t)
	script := func(hold func(modeltest.Answer) modeltest.Answer) func(turn) modeltest.Answer {
		return func(q turn) modeltest.Answer {
			if q.Agent == investigation.Executive {
				return q.Say("the disk is full")
			}
			return hold(q.Conclude("likely", "the disk is full"))
		}
	}
	subject := sys.Models.Script(script(gate.Hold))
	app.PostServerError(t, "shop", "/"+subject)
	raised := app.TakeAlerts(t, 1)[0]

	first := call(map[string]any{"alert_id": raised.ID, "chain": "simple"})
	if first.SessionID == "" || first.Joined || first.Conclusion != nil || !strings.Contains(first.Note, "call investigate again with session_id") {
		t.Fatalf("the alert: %+v, want a new session that has not ended", first)
	}
	if again := call(map[string]any{"alert_id": raised.ID}); again.SessionID != first.SessionID || !again.Joined {
		t.Errorf("the alert again: %+v, want that it joined %s", again, first.SessionID)
	}
	a := sys.Send(t, http.MethodPost, "/alerts", `{"alert_id":"`+raised.ID+`"}`)
	if want := `{"session_id":"` + first.SessionID + `","status":"joined"}`; a.Status != http.StatusOK || strings.TrimSpace(a.Body) != want {
		t.Errorf("the alert by REST: %d %s, want 200 %s", a.Status, a.Body, want)
	}
	notes := 0
	for _, e := range sys.Timeline(t, first.SessionID) {
		if e.EventType == "note" && strings.Contains(e.Content, raised.Title) {
			notes++
		}
	}
	if notes != 2 {
		t.Errorf("%d notes in the timeline, want one for each alert that joined\n%+v", notes, sys.Timeline(t, first.SessionID))
	}
	var about struct {
		AlertID  string `json:"alert_id"`
		DedupKey string `json:"dedup_key"`
		Author   string `json:"author"`
	}
	sys.Get(t, "/sessions/"+first.SessionID, &about)
	if about.AlertID != raised.ID || about.DedupKey != raised.DedupKey || !strings.HasPrefix(about.Author, "mcp:coder") {
		t.Errorf("the session is %+v, want the id %s and the key %s of the alert, of mcp:coder", about, raised.ID, raised.DedupKey)
	}
	gate.Open()
	ended := call(map[string]any{"session_id": first.SessionID, "wait_seconds": 50})
	if ended.Status != "completed" || ended.Conclusion == nil || ended.Conclusion.Cause != subject+": the disk is full" || ended.Conclusion.Confidence != "likely" ||
		ended.Summary != subject+": the disk is full" || !strings.HasSuffix(ended.URL, first.SessionID) || ended.From != "model" {
		t.Errorf("the end: %+v, want the completed session with its conclusion", ended)
	}

	other := sys.Models.Script(script(func(a modeltest.Answer) modeltest.Answer { return a }))
	text := call(map[string]any{"data": "The service " + other + " restarts", "chain": "simple", "wait_seconds": 50})
	if text.Status != "completed" || text.Conclusion == nil || text.Conclusion.Cause != other+": the disk is full" || text.SessionID == first.SessionID {
		t.Errorf("the text: %+v, want a completed session of its own", text)
	}
	entries, _, err := app.Agent.ObserveAll(t.Context(), "investigations", map[string]any{"limit": 1})
	e2etest.NoError(t, err)
	var ids []string
	for _, entry := range entries {
		var e struct {
			SessionID string `json:"session_id"`
			Status    string `json:"status"`
			Summary   string `json:"summary"`
		}
		e2etest.NoError(t, json.Unmarshal(entry, &e))
		if e.Status != "completed" || !strings.Contains(e.Summary, "the disk is full") {
			t.Errorf("observe lists %s, want a completed session with its summary", entry)
		}
		ids = append(ids, e.SessionID)
	}
	if want := []string{text.SessionID, first.SessionID}; !slices.Equal(ids, want) {
		t.Errorf("observe lists %v in pages of one, want %v", ids, want)
	}
	for _, args := range []map[string]any{{}, {"data": "x", "chain": "nowhere"}, {"alert_id": "nothing"}, {"session_id": "nothing"}, {"data": "x", "wait_seconds": 51}} {
		var refused *harness.ToolError
		if _, err := app.Agent.Call(t.Context(), "investigate", args); !errors.As(err, &refused) {
			t.Errorf("investigate %v: %v, want an error of the tool", args, err)
		}
	}
}
