package session

import (
	"encoding/json"
	"testing"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// Servers that give calls no ids have the same ones in each execution, also for the call that
// concludes.
func TestEvidenceOfOtherExecutions(t *testing.T) {
	concluding := func(a *Ask, callID, quote string) Fact {
		args, err := json.Marshal(map[string]any{"cause": "x", "confidence": "proven", "evidence": []any{map[string]any{"claim": "y", "call_id": callID, "quote": quote}}})
		if err != nil {
			t.Fatal(err)
		}
		return calls(a, model.Call{ID: "call_1", Name: conclusion.ToolName, Arguments: string(args)})
	}
	looks := func(a *Ask, tool string) Fact {
		return calls(a, model.Call{ID: "call_1", Name: "kubernetes__" + tool})
	}
	work := testStage("work", Any, testAgent("a", "kubernetes"))
	for name, c := range map[string]struct {
		plan Plan
		last func(w *sim, a *Ask) Fact // the answers of the last execution
		want bool
	}{
		"a later stage": {
			plan: testPlan(work, testStage("end", Any, testAgent("writer"))),
			last: func(_ *sim, a *Ask) Fact { return concluding(a, "call_1", "result of pods_list") },
			want: true,
		},
		"a synthesis": {
			plan: testPlan(testStage("work", Any, testAgent("a", "kubernetes"), testAgent("b"))),
			last: func(_ *sim, a *Ask) Fact { return concluding(a, "call_1", "result of pods_list") },
			want: true,
		},
		"the same id for an own result": {
			plan: testPlan(work, testStage("end", Any, testAgent("writer", "kubernetes"))),
			last: func(_ *sim, a *Ask) Fact {
				if len(a.Request.Messages) == 1 {
					return looks(a, "pods_log")
				}
				return concluding(a, "call_1", "result of pods_list")
			},
		},
		"the id of the interaction": {
			plan: testPlan(work, testStage("end", Any, testAgent("writer", "kubernetes"))),
			last: func(w *sim, a *Ask) Fact {
				if len(a.Request.Messages) == 1 {
					return looks(a, "pods_log")
				}
				first := w.s.completed[0].execs[0]
				return concluding(a, w.s.useID(first.byID["call_1"]), "result of pods_list")
			},
			want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSim(t, c.plan)
			w.answer = func(w *sim, a *Ask) Fact {
				switch {
				case hasTool(a, conclusion.ToolName):
					return c.last(w, a)
				case hasTool(a, "kubernetes__pods_list") && len(a.Request.Messages) == 1:
					return looks(a, "pods_list")
				}
				return text(a, "call_1 shows it")
			}
			s := w.run()
			var got conclusion.Conclusion
			decode(t, s.Conclusion(), &got)
			if len(got.Evidence) != 1 || got.Evidence[0].Supported != c.want {
				t.Errorf("conclusion %+v, want one piece of evidence, supported: %t", got, c.want)
			}
		})
	}
}
