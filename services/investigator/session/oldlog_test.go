package session

import (
	"fmt"
	"testing"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// A log may have a call of a tool that this version does not offer: an earlier version offered
// tools whose definitions had changed. The call is answered, and the session goes on.
func TestCallUnderWayOfToolThatIsNotOffered(t *testing.T) {
	agent := testAgent("a", "kubernetes")
	w := newSim(t, testPlan(testStage("first", Any, agent), testStage("second", Any, agent)))
	listed := 0
	w.list = func(server string) Listed {
		listed++
		digest := []string{"1", "2"}[listed-1]
		return Listed{Tools: []ListedTool{{Name: "pods_log", Tool: model.Tool{Name: server + "__pods_log"}, Repeatable: true, Digest: digest}}}
	}
	w.answer = func(w *sim, a *Ask) Fact {
		if e := w.s.executions[a.Execution]; e != nil && e.stage.Name == "second" && e.asked == 1 {
			return calls(a, model.Call{ID: "c1", Name: "kubernetes__pods_log", Arguments: `{}`})
		}
		return text(a, "fine")
	}
	w.claim()
	for len(w.s.running()) == 0 || w.s.running()[0].stage.Name != "second" || len(w.s.running()[0].turn) == 0 {
		if !w.step() {
			t.Fatal("the second stage makes no call")
		}
	}
	e := w.s.running()[0]
	w.store(Fact{ToolCalled: &ToolCalled{
		Execution: e.id, ID: w.s.useID(e.turn[0]), CallID: "c1", Server: "kubernetes", Tool: "pods_log", Arguments: []byte(`{}`), Repeatable: true,
	}})
	w.crash()
	s := w.run()
	if s.Status() != StatusCompleted {
		t.Errorf("status %s (%s), want completed", s.Status(), s.err)
	}
	c := s.executions[e.id].byID["c1"]
	if want := "unknown: the process ended during the call"; c.err != want || !c.isError {
		t.Errorf("the call ended with %q (error: %t), want the error %q", c.err, c.isError, want)
	}
	if got := fmt.Sprint(c.event.metadata["server_name"], ".", c.event.metadata["tool_name"]); got != "kubernetes.pods_log" {
		t.Errorf("the timeline shows a call of %s, want kubernetes.pods_log", got)
	}
}
