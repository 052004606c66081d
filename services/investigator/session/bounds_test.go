package session

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// A call that hangs until the end of its iteration has no outcome of its own: the iteration timed
// out.
func TestCallsEndWithTheirIteration(t *testing.T) {
	p := testPlan(testStage("work", Any, testAgent("a", "kubernetes")))
	p.IterationTimeout = 30 * time.Second
	w := newSim(t, p)
	w.tool = func(*CallTool) string { return "" }
	n := 0
	w.answer = func(_ *sim, a *Ask) Fact {
		n++
		return calls(a, model.Call{Name: "kubernetes__pods_list", Arguments: `{"n":` + strings.Repeat("1", n) + `}`})
	}
	w.between = func(w *sim) {
		for _, e := range Next(w.s, w.now).Effects {
			if e.Call == nil {
				continue
			}
			if end := w.s.executions[e.Call.Execution].since.Add(p.IterationTimeout); !e.Deadline.After(end) {
				t.Fatalf("the call's deadline is %s, want one after the iteration's end at %s", e.Deadline, end)
			}
		}
	}
	s := w.run()
	if want := `the stage "work" failed: 2 iterations in a row took longer than 30s`; s.Status() != StatusFailed || s.err != want {
		t.Errorf("status %s, error %q; want failed, %q", s.Status(), s.err, want)
	}
}

func TestTimeoutsAreInARow(t *testing.T) {
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a"))))
	var asked []string
	w.answer = func(_ *sim, a *Ask) Fact {
		if !slices.Contains(asked, a.ID) {
			asked = append(asked, a.ID)
		}
		switch slices.Index(asked, a.ID) {
		case 0, 2:
			return Fact{}
		case 1:
			return text(a, "")
		}
		return text(a, "fine")
	}
	if s := w.run(); s.Status() != StatusCompleted {
		t.Errorf("status %s (%s) with an empty answer between two timeouts, want completed", s.Status(), s.err)
	}
}

// The limit holds for what one decision starts by all agents together.
func TestToolLimitOfParallelAgents(t *testing.T) {
	const limit = 5
	p := testPlan(testStage("work", Any, testAgent("a", "kubernetes"), testAgent("b", "kubernetes")))
	p.Limits.MaxToolCalls = limit
	w := newSim(t, p)
	answers := map[string]Fact{} // by call of a model
	w.answer = func(_ *sim, a *Ask) Fact {
		var list []model.Call
		for i := range 4 {
			list = append(list, model.Call{Name: "kubernetes__pods_log", Arguments: `{"n":1` + strings.Repeat("0", i) + `}`})
		}
		answers[a.ID] = calls(a, list...)
		return Fact{}
	}
	picks := 0
	w.pick = func(n int) int { picks++; return picks % n }
	w.claim()
	at := w.now
	for len(answers) < 2 {
		at = w.now // without an outcome, the step moves the clock to the next deadline
		w.step()
	}
	w.now = at
	w.store(slices.Collect(maps.Values(answers))...) // in one message, as a worker stores what comes together
	due := Next(w.s, w.now)
	for len(due.Facts) > 0 {
		w.store(due.Facts...)
		due = Next(w.s, w.now)
	}
	started := 0
	for _, e := range due.Effects {
		if e.Call != nil {
			started++
		}
	}
	if started != limit {
		t.Errorf("%d tool calls are started, want %d", started, limit)
	}
}

// A session that spent its limits and failed has them again when a person starts it again.
func TestLimitsOfARetry(t *testing.T) {
	for name, change := range map[string]func(*Limits){
		"tokens":     func(l *Limits) { l.MaxTokens = 200 },
		"cost":       func(l *Limits) { l.MaxCostUSD = 0.0008 },
		"tool calls": func(l *Limits) { l.MaxToolCalls = 1 },
	} {
		p := testPlan(testStage("first", Any, testAgent("a", "kubernetes")), testStage("second", Any, testAgent("b", "kubernetes")))
		change(&p.Limits)
		w := newSim(t, p)
		w.answer = func(_ *sim, a *Ask) Fact {
			if a.Purpose == PurposeIteration && len(a.Request.Messages) == 1 {
				return calls(a, model.Call{Name: "kubernetes__pods_list"})
			}
			return text(a, "fine")
		}
		w.claim()
		for len(w.s.completed) == 0 && w.step() {
		}
		w.store(Fact{Ended: &Ended{Status: StatusFailed, Error: "overloaded"}})
		if w.s.limited() == "" {
			t.Fatalf("%s: the limit is not spent after %v", name, w.asked)
		}
		asked := len(w.asked)
		facts, err := Retry(w.s, "me", p)
		if err != nil {
			t.Fatal(err)
		}
		w.store(facts...)
		if reason := w.s.limited(); reason != "" {
			t.Errorf("%s: after the retry %s, want the whole limit", name, reason)
		}
		w.claim()
		s := w.run()
		if got := statuses(s); s.Status() != StatusCompleted || len(got) != 2 || len(w.asked) == asked || w.asked[asked] != "iteration claude" {
			t.Errorf("%s: status %s, stages %v, asked %v after %v; want the second stage run by a model", name, s.Status(), got, w.asked[asked:], w.asked[:asked])
		}
	}
}

// The tokens of failed calls, and of failed tries before an answer, count for the limits as those of
// answers do. They do not count as the size of the conversation.
func TestFailedCallsCountForLimits(t *testing.T) {
	lost := model.Usage{Input: 5000, Output: 500}
	for name, change := range map[string]func(*Fact, *Ask){
		"failed": func(f *Fact, a *Ask) {
			*f = failed(a, "overloaded")
			f.ModelFailed.Usage = lost
		},
		"failed tries": func(f *Fact, _ *Ask) { f.ModelAnswered.FailedUsage = lost },
	} {
		p := testPlan(testStage("work", Any, testAgent("a", "kubernetes")))
		p.Limits.MaxTokens = 5000
		w := newSim(t, p)
		first := true
		w.answer = func(_ *sim, a *Ask) Fact {
			f := calls(a, model.Call{Name: "kubernetes__pods_list"})
			if a.Purpose != PurposeIteration {
				f = text(a, "fine")
			}
			if first {
				first = false
				change(&f, a)
			}
			return f
		}
		s := w.run()
		want := "iteration claude, forced_conclusion claude"
		if name == "failed" {
			want = "iteration claude, forced_conclusion gemini"
		}
		if got := strings.Join(w.asked, ", "); got != want || s.Status() != StatusCompleted {
			t.Errorf("%s: status %s (%s) after %s; want completed after %s", name, s.Status(), s.err, got, want)
		}
		d := DetailOf(s, nil)
		sum := 0
		for _, it := range s.models {
			sum += it.usage.Input
		}
		if d.InputTokens <= lost.Input || d.InputTokens != sum {
			t.Errorf("%s: %d input tokens, %d by its calls; want over %d, the same", name, d.InputTokens, sum, lost.Input)
		}
		if e := w.s.stages[0].execs[0]; e.known > 1000 {
			t.Errorf("%s: the conversation counts %d tokens, want what its answer had", name, e.known)
		}
	}
}

// Calls of a turn over the bound are answered with an error, and are made where the model makes them
// in its next turn.
func TestCallsOverTheBoundOfATurn(t *testing.T) {
	const over = 3
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
	made := 0
	w.tool = func(*CallTool) string { made++; return "3 pods" }
	var list []model.Call
	for i := range maxTurnCalls + over {
		list = append(list, model.Call{Name: "kubernetes__pods_log", Arguments: `{"n":` + strconv.Itoa(i) + `}`})
	}
	turn := 0
	w.answer = func(_ *sim, a *Ask) Fact {
		if a.Purpose != PurposeIteration {
			return text(a, "fine")
		}
		turn++
		results := a.Request.Messages[max(0, len(a.Request.Messages)-len(list)):]
		switch turn {
		case 1:
			return calls(a, list...)
		case 2:
			for i, m := range results {
				want := i >= maxTurnCalls
				if got := m.IsError && m.Text == "Not called: a turn has at most 32 calls. Call it in your next turn if you still need it."; got != want {
					t.Errorf("call %d is answered with %q, error %t; want it refused: %t", i+1, m.Text, m.IsError, want)
				}
			}
			if made != maxTurnCalls {
				t.Errorf("%d calls were made, want %d", made, maxTurnCalls)
			}
			return calls(a, list[maxTurnCalls:]...)
		}
		return text(a, "fine")
	}
	if s := w.run(); s.Status() != StatusCompleted || made != len(list) || turn != 3 {
		t.Errorf("status %s (%s) after %d turns with %d calls; want completed after 3 with %d", s.Status(), s.err, turn, made, len(list))
	}
}

// What a call used that was ended before its outcome counts whenever it is known.
func TestSpentOfAnEndedCall(t *testing.T) {
	p := testPlan(testStage("work", Any, testAgent("a")))
	p.Limits.MaxTokens = 5000
	w := newSim(t, p)
	first := ""
	w.answer = func(_ *sim, a *Ask) Fact {
		if first == "" || first == a.ID {
			first = a.ID
			return Fact{}
		}
		return text(a, "fine")
	}
	reported := false
	w.between = func(w *sim) {
		if it := w.s.interactions[first]; it != nil && it.done && !reported {
			reported = true
			for range 2 { // a worker that is unsure whether it is stored stores it again
				w.store(Fact{Spent: &Spent{ID: first, Attempt: 1, Usage: model.Usage{Input: 4000}}}, Fact{Spent: &Spent{ID: "of nothing", Attempt: 1, Usage: model.Usage{Input: 1}}})
			}
			w.store(Fact{Spent: &Spent{ID: first, Attempt: 2, Usage: model.Usage{Input: 2000}}})
		}
	}
	s := w.run()
	if got := strings.Join(w.asked, ", "); got != "iteration claude, forced_conclusion gemini" || s.usage.Input != 6100 || s.interactions[first].usage.Input != 6000 {
		t.Errorf("asked %s with %d input tokens, want a forced conclusion after the first call and 6100", got, s.usage.Input)
	}
}

// A limit that is reached by the last answer of a stage ends the session, and the analysis names it.
func TestLimitBetweenStages(t *testing.T) {
	p := testPlan(testStage("first", Any, testAgent("a")), testStage("second", Any, testAgent("b")))
	p.Limits.MaxTokens = 100
	s := newSim(t, p).run()
	want := "answer of iteration\n\n_The investigation stopped early: the session reached its limit of 100 tokens, before the stage \"second\"._"
	if got := Summary(s); got.FinalAnalysis == nil || *got.FinalAnalysis != want || !strings.Contains(string(got.Conclusion), `"structured":false`) {
		t.Errorf("outcome %+v; want the analysis %q, and prose", got, want)
	}
}

// A call that failed may be made again. Once it has a result, that is referred to.
func TestRepeatedCallAfterAFailure(t *testing.T) {
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
	w.answer = func(w *sim, a *Ask) Fact {
		if e := w.s.executions[a.Execution]; e != nil && e.iterations < 4 {
			return calls(a, model.Call{ID: "c" + string(rune('1'+e.iterations)), Name: "kubernetes__pods_list", Arguments: `{}`})
		}
		return text(a, "fine")
	}
	var made []string
	w.tool = func(c *CallTool) string { made = append(made, c.CallID); return "pods" }
	block := map[string]bool{}
	w.block = func(e Effect) bool {
		if e.Call == nil || e.Call.CallID != "c1" || block[e.Key] {
			return false
		}
		block[e.Key] = true
		w.store(Fact{ToolAnswered: &ToolAnswered{Execution: e.Call.Execution, CallID: "c1", IsError: true, Error: "the server is down"}})
		return true
	}
	s := w.run()
	if got := strings.Join(made, " "); got != "c2" {
		t.Errorf("the calls %q were made after one that failed, want c2 alone", got)
	}
	e := s.stages[0].execs[0]
	for _, id := range []string{"c3", "c4"} {
		if got, want := e.byID[id].result.Shown(), `with the id "c2"`; !strings.Contains(got, want) {
			t.Errorf("%s is answered with %q, want a reference %s", id, got, want)
		}
	}
}
