package session

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/prompt"
)

// A synthesis reads what its agents were given, and which of their servers were not there.
func TestSynthesisReadsWhatAgentsWereGiven(t *testing.T) {
	plan := testPlan(testStage("look", Any, testAgent("a", "kubernetes"), testAgent("b")))
	plan.Runbook, plan.RunbookURL = "Look at the last deployment first.", "https://runbooks.example/crash"
	w := newSim(t, plan)
	w.list = func(string) Listed { return Listed{Error: "connection refused"} }
	w.missing = []string{"CI results"}
	first := ""
	w.answer = func(_ *sim, a *Ask) Fact {
		if a.Purpose == PurposeSynthesis {
			first = a.Request.Messages[0].Text
		}
		return text(a, "fine")
	}
	w.run()
	for _, want := range []string{
		"nothing is known about it:\n- CI results\n", "\nLook at the last deployment first.\n", "\nhttps://runbooks.example/crash\n",
		"SERVER kubernetes could not be used: connection refused\n",
	} {
		if strings.Count(first, want) != 1 {
			t.Errorf("the synthesis reads %q, want %q once", first, want)
		}
	}
}

// The runbook is a fact that evidence can cite.
func TestEvidenceCitesTheRunbook(t *testing.T) {
	for name, c := range map[string]struct {
		runbook, quote string
		supported      bool
	}{
		"a quote of it":       {runbook: "The flag shop.canary breaks\ncheckout when it is on.", quote: "shop.canary breaks checkout", supported: true},
		"not a quote of it":   {runbook: "The flag shop.canary breaks checkout.", quote: "the flag shop.dark is on"},
		"there is no runbook": {quote: "shop.canary breaks checkout"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := testPlan(testStage("look", Any, testAgent("a")))
			plan.Runbook = c.runbook
			w := newSim(t, plan)
			w.answer = func(_ *sim, a *Ask) Fact {
				if !hasTool(a, conclusion.ToolName) {
					return text(a, "short")
				}
				if first := a.Request.Messages[0].Text; strings.Contains(first, "the fact "+prompt.RunbookID) != (c.runbook != "") {
					t.Errorf("the first message is %q, want the id of the runbook where there is one", first)
				}
				return calls(a, model.Call{Name: conclusion.ToolName, Arguments: `{"cause":"the flag","confidence":"proven","evidence":[{"claim":"it breaks","call_id":"known-runbook","quote":"` + c.quote + `"}]}`})
			}
			s := w.run()
			if got := string(s.Conclusion()); strings.Contains(got, `"supported":true`) != c.supported {
				t.Errorf("conclusion %s, want its evidence supported: %t", got, c.supported)
			}
		})
	}
}
