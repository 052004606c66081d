package session

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/excerpt"
)

// needleInTheMiddle stands in a text of 1 MiB where no head and no tail of it reaches.
const needleInTheMiddle = "the disk of node seven is full"

func longText() string {
	line := "everything is as usual, nothing to see\n"
	half := strings.Repeat(line, (1<<19)/len(line))
	return half + needleInTheMiddle + "\n" + half
}

// readsOf returns the texts that read_result answered in a request.
func readsOf(r model.Request) (texts []string) {
	for _, m := range r.Messages {
		if m.Role == model.RoleTool && m.ToolName == excerpt.ToolName {
			texts = append(texts, m.Text)
		}
	}
	return texts
}

// newSimWithAlert is newSim with an alert whose data may be an object.
func newSimWithAlert(t *testing.T, data string, plan Plan) *sim {
	w := newSim(t, plan)
	whole, store := NewText(data)
	if store {
		w.objects[whole.Object] = data
	}
	w.s, w.messages = &Session{}, nil
	w.store(Fact{Submitted: &Submitted{ID: testID, AlertType: "kubernetes", Author: "api-client", Data: whole, Plan: plan}})
	return w
}

// Each agent that is shown a part of the alert can read the rest: one without servers, and a
// synthesis. One that is shown the whole has no use for read_result.
func TestReadResultOfTheAlert(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want int // requests with an answer of read_result that has the middle
	}{
		"a long alert":  {data: longText(), want: 4},
		"a short alert": {data: "CrashLoopBackOff", want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimWithAlert(t, c.data, testPlan(testStage("look", Any, testAgent("a"), testAgent("b")), testStage("end", Any, testAgent("writer"))))
			w.answer = func(_ *sim, a *Ask) Fact {
				first := a.Request.Messages[0].Text
				if a.Purpose == PurposeExecutiveSummary {
					return text(a, "short")
				}
				named, offered := strings.Contains(first, `read_result with the id "alert"`) && strings.Contains(first, "`read_result` with the id `alert`"), hasTool(a, excerpt.ToolName)
				if want := c.want > 0; named != want || offered != want {
					t.Errorf("the first message of the %s names read_result: %t, the tool is offered: %t; want both %t", a.Purpose, named, offered, want)
				}
				if offered && len(a.Request.Messages) == 1 {
					return calls(a, model.Call{Name: excerpt.ToolName, Arguments: `{"id":"alert","search":"node seven"}`})
				}
				return text(a, "fine")
			}
			if s := w.run(); s.Status() != StatusCompleted {
				t.Fatalf("status %s (%s), want completed", s.Status(), s.err)
			}
			got := 0
			for _, r := range w.requests {
				for _, answer := range readsOf(r) {
					if strings.Contains(answer, needleInTheMiddle) {
						got++
					}
				}
			}
			if got != c.want {
				t.Errorf("%d requests have the middle of the alert, want %d", got, c.want)
			}
		})
	}
}

// A synthesis reads the results that its records show in part, under the ids that stand there: also
// where two agents gave the same id, and one that the synthesis gives its own call.
func TestSynthesisReadsResults(t *testing.T) {
	for name, c := range map[string]struct {
		summarized bool
		id         func(agent string) string
	}{
		"ids of their own":     {id: func(agent string) string { return "call_of_" + agent }},
		"the same id":          {id: func(string) string { return "call_1" }},
		"results summarized":   {id: func(string) string { return "call_1" }, summarized: true},
		"the id that is taken": {id: func(agent string) string { return map[string]string{"a": "call_1", "b": "other"}[agent] }},
	} {
		t.Run(name, func(t *testing.T) {
			agent := func(name string) Agent {
				a := testAgent(name, "kubernetes")
				if c.summarized {
					a.Servers[0].Summarization = &Summarization{Threshold: 10, MaxTokens: 100, Provider: testProvider("gemini")}
				}
				return a
			}
			w := newSim(t, testPlan(testStage("look", Any, agent("a"), agent("b"))))
			w.tool = func(c *CallTool) string {
				return strings.Replace(longText(), "node seven", "node of "+w.s.executions[c.Execution].agent.Name, 1)
			}
			var hints []string
			w.answer = func(w *sim, a *Ask) Fact {
				e := w.s.executions[a.Execution]
				switch {
				case a.Purpose == PurposeSynthesis && len(a.Request.Messages) == 1:
					hints = hintedIDs(a.Request.Messages[0].Text)
					var list []model.Call
					for _, id := range hints {
						list = append(list, model.Call{Name: excerpt.ToolName, Arguments: `{"id":"` + id + `","search":"the disk of"}`})
					}
					return calls(a, list...)
				case a.Purpose == PurposeIteration && len(a.Request.Messages) == 1:
					return calls(a, model.Call{ID: c.id(e.agent.Name), Name: "kubernetes__pods_list"})
				}
				return text(a, "fine")
			}
			if s := w.run(); s.Status() != StatusCompleted || len(hints) != 2 {
				t.Fatalf("status %s (%s) with the ids %q in the records; want completed with 2", s.Status(), s.err, hints)
			}
			var answers string
			for _, r := range w.requests {
				answers += strings.Join(readsOf(r), "\n")
			}
			for _, agent := range []string{"a", "b"} {
				if want := "the disk of node of " + agent + " is full"; strings.Count(answers, want) != 1 {
					t.Errorf("the synthesis reads %q, want the middle of the result of %s once", answers, agent)
				}
			}
		})
	}
}

// hintedIDs returns the ids that a text names for read_result, in their order.
func hintedIDs(text string) (ids []string) {
	parts := strings.Split(text, excerpt.ToolName+` with the id "`)
	for _, part := range parts[1:] {
		id, _, _ := strings.Cut(part, `"`)
		ids = append(ids, id)
	}
	return ids
}
