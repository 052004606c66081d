package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

const investigationPage = "docs/investigation.md"

// TestInvestigatorConfigurations loads each configuration of docs/investigation.md as the
// investigator does. Only the environment variables that the page names are set.
func TestInvestigatorConfigurations(t *testing.T) {
	t.Parallel()
	blocks := e2etest.Blocks(t, investigationPage, "yaml")
	if len(blocks) != 4 {
		t.Errorf("got %d configurations, want 4", len(blocks))
	}
	for _, block := range blocks {
		file := filepath.Join(t.TempDir(), "investigator.yaml")
		e2etest.NoError(t, os.WriteFile(file, []byte(block), 0o600))
		_, warnings, err := config.Load(file, func(name string) (string, bool) {
			return "x", slices.Contains([]string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "KUBECONFIG"}, name)
		})
		if err != nil || len(warnings) > 0 {
			t.Errorf("got %v and the warnings %v, want none:\n%s", err, warnings, block)
		}
	}
}

// investigated is the example of docs/investigation.md of what an alert gets back.
func investigated(t *testing.T) alert.Investigation {
	t.Helper()
	var example struct{ Investigation alert.Investigation }
	e2etest.NoError(t, json.Unmarshal([]byte(e2etest.Block(t, investigationPage, "json", `"investigation"`)), &example))
	return example.Investigation
}

// shopModel looks at the newest events, quotes the message of docs/investigation.md, and concludes
// what the page shows.
func shopModel(t *testing.T, want alert.Investigation) *modeltest.Server {
	t.Helper()
	end := e2etest.JSON(t, map[string]any{
		"cause": "The pool of database connections is too small since release 42.", "confidence": "proven",
		"evidence":         []any{map[string]any{"claim": "All connections are in use", "call_id": "call_1", "quote": "cannot get a connection: 10 of 10 in use"}},
		"suggested_change": map[string]any{"file": want.SuggestedChange.File, "description": want.SuggestedChange.Description},
	})
	model := modeltest.Serve(modeltest.Rule{Respond: func(r modeltest.Request) modeltest.Answer {
		switch {
		case len(r.Tools) == 0:
			return modeltest.Say(want.Summary)
		case r.Last("tool").CallID == "":
			return modeltest.Use("call_1", "tocsin__events", `{"app":"shop"}`)
		}
		return modeltest.Use("call_2", conclusion.ToolName, end)
	}})
	t.Cleanup(model.Close)
	return model
}

// TestFirstInvestigation runs the commands of docs/investigation.md with its configuration for a
// local model. Only the addresses differ. The client that had received the alert gets what the
// page shows.
func TestFirstInvestigation(t *testing.T) {
	t.Parallel()
	e2etest.NeedCommands(t, "bash", "curl")
	want := investigated(t)
	model := shopModel(t, want)
	dir := t.TempDir()
	local := e2etest.Block(t, investigationPage, "yaml", "11434")
	file := filepath.Join(dir, "investigator.yaml")
	e2etest.NoError(t, os.WriteFile(file, []byte(strings.Replace(local, "http://127.0.0.1:11434", model.URL, 1)), 0o600))

	check, up, _ := strings.Cut(e2etest.Block(t, investigationPage, "sh", "tocsin up --investigator"), "\n")
	if up != "tocsin up --investigator investigator.yaml" {
		t.Fatalf("got the command %q, want tocsin up with the configuration", up)
	}
	args := strings.Fields(strings.Replace(check, "investigator.yaml", file, 1))[1:]
	if code, stdout, stderr := e2etest.Tocsin(t, dir, args...); code != 0 {
		t.Errorf("%s: exit status %d, want 0: %s%s", check, code, stdout, stderr)
	}
	sys := e2etest.Start(t, "--investigator="+file, "--investigator-addr=127.0.0.1:0")
	ready := func() bool { return e2etest.Get(t, sys.Bus.InvestigatorURL+"/readyz").Status == 200 }
	if !harness.Poll(t.Context(), time.Minute, ready) {
		t.Fatalf("the investigator is not ready after a minute\n%s", sys.Bus.Log)
	}

	inShell(t, sys.Bus, e2etest.Block(t, investigationPage, "sh", "/v1/events"))
	raised := sys.TakeAlerts(t, 1)[0]
	if raised.Investigation != nil {
		t.Fatalf("got the alert with %+v, want no investigation before one is asked for", raised.Investigation)
	}
	command := e2etest.Block(t, investigationPage, "sh", "tocsin investigate --alert")
	if out := inShell(t, sys.Bus, strings.Replace(command, "--alert ID", "--alert "+raised.ID, 1)); !strings.Contains(out, "10 of 10 in use") {
		t.Errorf("got %s, want the quote of the conclusion in it", out)
	}
	ended, err := sys.Agent.Wait(t.Context(), 1, time.Minute)
	e2etest.NoError(t, err)
	news := ended[0]
	if news.ID != raised.ID || !strings.HasPrefix(news.Title, "Investigation completed: ") || news.Investigation == nil {
		t.Fatalf("got %+v, want the end of the investigation of %s", news, raised.ID)
	}
	want.URL = strings.Replace(e2etest.OnBus(sys.Bus, want.URL), want.SessionID, news.Investigation.SessionID, 1)
	unlike := cmpopts.IgnoreFields(alert.Investigation{}, "SessionID")
	if diff := cmp.Diff(&want, news.Investigation, unlike); diff != "" {
		t.Errorf("investigation of the alert (-%s +got):\n%s", investigationPage, diff)
	}

	out := inShell(t, sys.Bus, e2etest.Block(t, investigationPage, "sh", "/api/v1/sessions"))
	if !strings.Contains(out, `"status":"queued"`) || strings.Count(out, `"chain_id":"default"`) != 2 {
		t.Errorf("got %s, want a queued session, and a list with both sessions", out)
	}
	if a := e2etest.Get(t, want.URL); a.Status != 200 || !strings.Contains(a.Body, news.Investigation.SessionID) {
		t.Errorf("GET %s: %d %s, want the session", want.URL, a.Status, a.Body)
	}
	submit := e2etest.Block(t, "docs/reference/http.md", "sh", "Idempotency-Key")
	first := inShell(t, sys.Bus, submit)
	if again := inShell(t, sys.Bus, submit); again != first || !strings.Contains(first, `"status":"queued"`) {
		t.Errorf("got %s and then %s, want the same queued session", first, again)
	}
}
