package session

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/prompt"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/excerpt"
)

func statuses(s *Session) []string {
	var out []string
	for _, st := range DetailOf(s, nil).Stages {
		line := st.StageName + " " + st.StageType + " " + string(st.Status)
		for _, e := range st.Executions {
			line += " " + e.AgentName + "=" + string(e.Status)
		}
		out = append(out, line)
	}
	return out
}

func TestPipelineWithFourStagesAndTwoSyntheses(t *testing.T) {
	w := newSim(t, testPlan(
		testStage("triage", Any, testAgent("triage", "kubernetes")),
		testStage("investigation", Any, testAgent("a", "kubernetes"), testAgent("b", "kubernetes")),
		testStage("validation", All, testAgent("v-1"), testAgent("v-2")),
		testStage("conclusion", Any, testAgent("writer")),
	))
	w.answer = func(_ *sim, a *Ask) Fact {
		last := a.Request.Messages[len(a.Request.Messages)-1]
		switch {
		case a.Purpose == PurposeExecutiveSummary:
			return text(a, "short")
		case len(a.Request.Tools) > 2 && last.Role == model.RoleUser:
			return calls(a, model.Call{ID: "c1", Name: "kubernetes__pods_list", Arguments: `{}`}, model.Call{ID: "c2", Name: "kubernetes__pods_log", Arguments: `{"name":"checkout"}`})
		case hasTool(a, conclusion.ToolName):
			return calls(a, model.Call{ID: "end", Name: conclusion.ToolName, Arguments: `{"cause":"a bad flag","confidence":"proven","evidence":[{"claim":"a new version","call_id":"k1","quote":"checkout 1.4.2"}]}`})
		}
		return text(a, "analysis of "+a.Execution[20:])
	}
	s := w.run()
	want := []string{
		"triage investigation completed triage=completed",
		"investigation investigation completed a=completed b=completed",
		"investigation - Synthesis synthesis completed SynthesisAgent=completed",
		"validation investigation completed v-1=completed v-2=completed",
		"validation - Synthesis synthesis completed SynthesisAgent=completed",
		"conclusion investigation completed writer=completed",
	}
	if diff := cmp.Diff(want, statuses(s)); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	it := ItemOf(s)
	if it.Status != StatusCompleted || it.TotalStages != 6 || it.CompletedStages != 6 || *it.CurrentStageIndex != 6 || *it.ExecutiveSummary != "short" {
		t.Errorf("item = %+v, want completed, 6 stages of 6 and the summary", it)
	}
	// 3 agents with tools ask twice, 2 without and 2 syntheses once, the writer once, the summary once.
	if it.LLMInteractionCount != 12 || it.MCPInteractionCount != 3+6 {
		t.Errorf("%d model and %d tool interactions, want 12 and 9", it.LLMInteractionCount, it.MCPInteractionCount)
	}
	if got := Summary(s); string(got.Conclusion) != `{"confidence":"proven","structured":true,"cause":"a bad flag","evidence":[{"claim":"a new version","call_id":"k1","quote":"checkout 1.4.2","supported":true}]}` || !strings.HasPrefix(*got.FinalAnalysis, "## Cause\n\na bad flag\n") {
		t.Errorf("outcome = %s %q, want the checked conclusion", got.Conclusion, *got.FinalAnalysis)
	}
}

func hasTool(a *Ask, name string) bool {
	for _, t := range a.Request.Tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

func TestFailureResilienceAndPropagation(t *testing.T) {
	for name, c := range map[string]struct {
		policy  Policy
		broken  map[string]bool
		status  Status
		stages  []string
		message string
	}{
		"any: one agent fails": {policy: Any, broken: map[string]bool{"a": true}, status: StatusCompleted, stages: []string{
			"work investigation completed a=failed b=completed", "work - Synthesis synthesis completed SynthesisAgent=completed", "end investigation completed writer=completed"}},
		"all: one agent fails": {policy: All, broken: map[string]bool{"a": true}, status: StatusFailed, stages: []string{"work investigation failed a=failed b=completed"},
			message: `the stage "work" failed: 1 of 2 agents failed: a: the provider gemini: no answer`},
		"any: both fail": {policy: Any, broken: map[string]bool{"a": true, "b": true}, status: StatusFailed, stages: []string{"work investigation failed a=failed b=failed"},
			message: `the stage "work" failed: 2 of 2 agents failed: a: the provider gemini: no answer; b: the provider gemini: no answer`},
		"the synthesis fails": {policy: Any, broken: map[string]bool{"SynthesisAgent": true}, status: StatusFailed, stages: []string{
			"work investigation completed a=completed b=completed", "work - Synthesis synthesis failed SynthesisAgent=failed"},
			message: `the stage "work - Synthesis" failed: the provider gemini: no answer`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSim(t, testPlan(testStage("work", c.policy, testAgent("a"), testAgent("b")), testStage("end", Any, testAgent("writer"))))
			w.answer = func(w *sim, a *Ask) Fact {
				if e := w.s.executions[a.Execution]; e != nil && c.broken[e.agent.Name] {
					return failed(a, "no answer")
				}
				return text(a, "fine")
			}
			s := w.run()
			if s.Status() != c.status || s.err != c.message {
				t.Errorf("status %s, error %q; want %s, %q", s.Status(), s.err, c.status, c.message)
			}
			if diff := cmp.Diff(c.stages, statuses(s)); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFallbackIsStickyWithinItsExecution(t *testing.T) {
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes")), testStage("end", Any, testAgent("b"))))
	w.answer = func(_ *sim, a *Ask) Fact {
		switch {
		case a.Provider.Name == "claude" && hasTool(a, excerpt.ToolName):
			return failed(a, "overloaded")
		case hasTool(a, excerpt.ToolName) && len(a.Request.Messages) == 1:
			return calls(a, model.Call{Name: "kubernetes__pods_list"})
		}
		return text(a, "fine")
	}
	s := w.run()
	want := []string{"iteration claude", "iteration gemini", "iteration gemini", "iteration claude", "executive_summary gemini"}
	if diff := cmp.Diff(want, w.asked); diff != "" {
		t.Errorf("model calls (-want +got):\n%s", diff)
	}
	n := 0
	for _, e := range Timeline(s, 0, 1000).Events {
		if e.EventType == EventFallback && e.Metadata["from"] == "claude" && e.Metadata["to"] == "gemini" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d fallbacks in the timeline, want 1", n)
	}
}

func TestTimeouts(t *testing.T) {
	t.Run("two iterations in a row", func(t *testing.T) {
		w := newSim(t, testPlan(testStage("work", Any, testAgent("a"))))
		w.answer = func(*sim, *Ask) Fact { return Fact{} }
		s := w.run()
		if want := `the stage "work" failed: 2 iterations in a row took longer than 6m0s`; s.Status() != StatusFailed || s.err != want {
			t.Errorf("status %s, error %q; want failed, %q", s.Status(), s.err, want)
		}
		if got := w.now.Sub(testStart).Round(time.Minute); got != 12*time.Minute {
			t.Errorf("it took %s, want 12m", got)
		}
	})
	t.Run("a provider that stalls, then the next one", func(t *testing.T) {
		w := newSim(t, testPlan(testStage("work", Any, testAgent("a"))))
		stalled := map[string]bool{}
		w.answer = func(_ *sim, a *Ask) Fact {
			kind := string(a.Purpose) + " " + a.Provider.Name
			if kind == "iteration claude" || kind == "executive_summary gemini" {
				stalled[kind] = true
				return Fact{}
			}
			return text(a, "fine")
		}
		s := w.run()
		want := []string{"iteration claude", "iteration gemini", "executive_summary gemini", "executive_summary claude"}
		if diff := cmp.Diff(want, w.asked); diff != "" {
			t.Errorf("model calls (-want +got):\n%s", diff)
		}
		if got := Summary(s); s.Status() != StatusCompleted || got.ExecutiveSummary == nil || *got.ExecutiveSummary != "fine" || len(stalled) != 2 {
			t.Errorf("status %s (%s), summary %v; want completed with the summary of the next provider", s.Status(), s.err, got.ExecutiveSummary)
		}
		fallbacks := 0
		for _, e := range Timeline(s, 0, 1000).Events {
			if e.EventType == EventFallback {
				fallbacks++
			}
		}
		if got := w.now.Sub(testStart).Round(time.Minute); fallbacks != 2 || got != 12*time.Minute {
			t.Errorf("%d fallbacks after %s, want 2 after 12m", fallbacks, got)
		}
	})
	t.Run("each provider of the chain is asked", func(t *testing.T) {
		for name, c := range map[string]struct {
			answers string // the provider that does
			asked   []string
			status  Status
			took    time.Duration
		}{
			"the third answers": {"third", []string{"iteration claude", "iteration gemini", "iteration third", "executive_summary gemini"}, StatusCompleted, 12 * time.Minute},
			"none answers":      {"", []string{"iteration claude", "iteration gemini", "iteration third"}, StatusFailed, 18 * time.Minute},
		} {
			a := testAgent("a")
			a.Fallbacks = append(a.Fallbacks, testProvider("third"))
			w := newSim(t, testPlan(testStage("work", Any, a)))
			w.answer = func(_ *sim, a *Ask) Fact {
				if a.Provider.Name == c.answers || a.Purpose == PurposeExecutiveSummary {
					return text(a, "fine")
				}
				return Fact{}
			}
			s := w.run()
			if diff := cmp.Diff(c.asked, w.asked); diff != "" {
				t.Errorf("%s: model calls (-want +got):\n%s", name, diff)
			}
			if got := w.now.Sub(testStart).Round(time.Minute); s.Status() != c.status || got != c.took {
				t.Errorf("%s: status %s (%s) after %s, want %s after %s", name, s.Status(), s.err, got, c.status, c.took)
			}
		}
	})
	t.Run("a tool, then an answer", func(t *testing.T) {
		w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
		w.tool = func(*CallTool) string { return "" }
		w.answer = func(_ *sim, a *Ask) Fact {
			if a.Purpose == PurposeIteration && len(a.Request.Messages) == 1 {
				return calls(a, model.Call{ID: "c", Name: "kubernetes__pods_list"})
			}
			return text(a, "fine")
		}
		s := w.run()
		if r := w.requests[1].Messages[2]; s.Status() != StatusCompleted || r.Text != prompt.Fenced(testID, "the result", errIteration) || !r.IsError {
			t.Errorf("status %s, result %+v; want completed, and the result %q", s.Status(), r, errIteration)
		}
	})
	t.Run("the session", func(t *testing.T) {
		p := testPlan(testStage("work", Any, testAgent("a", "kubernetes")))
		p.Timeout = 5 * time.Minute
		w := newSim(t, p)
		w.answer = func(*sim, *Ask) Fact { return Fact{} }
		s := w.run()
		if s.Status() != StatusTimedOut || s.err != "the session took longer than 5m0s" || statuses(s)[0] != "work investigation timed_out a=timed_out" {
			t.Errorf("status %s, error %q, stages %v; want all timed out", s.Status(), s.err, statuses(s))
		}
	})
}

// TestTimeoutInTheSummary: the session's time-out falls into the executive summary, whose failure
// fails nothing.
func TestTimeoutInTheSummary(t *testing.T) {
	p := testPlan(testStage("work", Any, testAgent("a", "kubernetes")))
	p.Timeout = 5 * time.Minute // before the end of a call's time
	w := newSim(t, p)
	w.answer = func(_ *sim, a *Ask) Fact {
		if a.Purpose == PurposeExecutiveSummary {
			return Fact{}
		}
		return text(a, "the pool is too small")
	}
	s := w.run()
	d := DetailOf(s, nil)
	if want := "not written: the session took longer than 5m0s"; s.Status() != StatusCompleted || str(d.ExecutiveSummaryError) != want || d.ErrorMessage != nil {
		t.Errorf("status %s, summary's error %q, error %q; want completed, %q and none", s.Status(), str(d.ExecutiveSummaryError), str(d.ErrorMessage), want)
	}
	if got := str(d.FinalAnalysis); got != "the pool is too small" {
		t.Errorf("the analysis is %q, want that of the stage", got)
	}
}

func TestForcedConclusions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Plan)
		reason string
		note   bool
	}{
		"turns":      {change: func(*Plan) {}, reason: "these were your 5 turns"},
		"tokens":     {change: func(p *Plan) { p.Limits.MaxTokens = 300 }, reason: "limit of 300 tokens", note: true},
		"cost":       {change: func(p *Plan) { p.Limits.MaxCostUSD = 0.001 }, reason: "limit of 0.001 USD", note: true},
		"tool calls": {change: func(p *Plan) { p.Limits.MaxToolCalls = 2 }, reason: "limit of 2 tool calls", note: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPlan(testStage("work", Any, testAgent("a", "kubernetes")))
			c.change(&p)
			w := newSim(t, p)
			n := 0
			w.answer = func(_ *sim, a *Ask) Fact {
				if a.Purpose != PurposeIteration {
					if len(a.Request.Tools) > 0 {
						t.Errorf("the %s has %d tools, want none", a.Purpose, len(a.Request.Tools))
					}
					return text(a, "what I know")
				}
				n++
				return calls(a, model.Call{Name: "kubernetes__pods_log", Arguments: `{"n":` + strings.Repeat("1", n) + `}`})
			}
			s := w.run()
			trace := Trace(s).Stages[0].Executions[0].LLMInteractions
			last := w.requests[len(trace)-1].Messages
			if got := trace[len(trace)-1].InteractionType; got != "forced_conclusion" || !strings.Contains(last[len(last)-1].Text, c.reason) {
				t.Errorf("the last call is %s with %q, want forced_conclusion with %q", got, last[len(last)-1].Text, c.reason)
			}
			if s.Status() != StatusCompleted || strings.Contains(s.analysis, c.reason) != c.note || !strings.HasPrefix(s.analysis, "what I know") {
				t.Errorf("status %s, analysis %q; want completed, the reason named: %t", s.Status(), s.analysis, c.note)
			}
		})
	}
}

func TestAnswersToBadCalls(t *testing.T) {
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
	w.answer = func(_ *sim, a *Ask) Fact {
		if a.Purpose == PurposeIteration && len(a.Request.Messages) == 1 {
			return calls(a,
				model.Call{ID: "same", Name: "kubernetes__pods_list", Arguments: `{"a":1,"b":2}`},
				model.Call{ID: "same", Name: "kubernetes__pods_list", Arguments: `{"b":2, "a":1}`},
				model.Call{ID: "x", Name: "kubernetes__rm"},
				model.Call{ID: "y", Name: conclusion.ToolName, Arguments: `{"cause":"x","confidence":"likely"}`},
				model.Call{ID: "z", Name: excerpt.ToolName, Arguments: `{"id":"nothing"}`},
				model.Call{ID: "l", Name: excerpt.ToolName, Arguments: `{"id":"alert","search":"CrashLoop"}`})
		}
		return text(a, "fine")
	}
	w.run()
	var got []string
	for _, m := range w.requests[1].Messages[2:] {
		got = append(got, m.CallID+": "+m.Text)
	}
	want := []string{
		"same: " + prompt.Fenced(testID, "the result", "result of pods_list"),
		`call_2: Not called again: you made the same call before, with the id "same". Its result stands there.`,
		`x: There is no tool "kubernetes__rm". The tools are: conclude, kubernetes__pods_delete, kubernetes__pods_list, kubernetes__pods_log, read_result.`,
		"y: Not accepted: `conclude` is your final answer and has to be called alone. Read the results of the other calls first.",
		"z: " + prompt.Fenced(testID, "the result", `There is no result with the id "nothing".`),
		"l: " + prompt.Fenced(testID, "the result", "1 places in 30 bytes.\noffset 0: CrashLoopBackOff shop/checkout\n"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestConclusionThatBreaksTheSchemaTwiceIsProse(t *testing.T) {
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a"))))
	w.answer = func(_ *sim, a *Ask) Fact {
		if hasTool(a, conclusion.ToolName) {
			return calls(a, model.Call{Name: conclusion.ToolName, Arguments: `{"no":"cause"}`})
		}
		return text(a, "short")
	}
	s := w.run()
	if got := Summary(s); *got.FinalAnalysis != `{"no":"cause"}` || !strings.Contains(string(got.Conclusion), `"structured":false`) || len(w.asked) != 3 {
		t.Errorf("analysis %q, conclusion %s after %v; want the arguments as prose after 2 calls and the summary", *got.FinalAnalysis, got.Conclusion, w.asked)
	}
}

func TestEmptyAnswers(t *testing.T) {
	for empties, want := range map[int]Status{2: StatusCompleted, 3: StatusFailed} {
		w := newSim(t, testPlan(testStage("work", Any, testAgent("a"))))
		n := 0
		w.answer = func(_ *sim, a *Ask) Fact {
			if n++; n <= empties {
				return text(a, " \n")
			}
			return text(a, "fine")
		}
		if s := w.run(); s.Status() != want {
			t.Errorf("after %d empty answers the session is %s (%s), want %s", empties, s.Status(), s.err, want)
		}
	}
}

func TestLargeResults(t *testing.T) {
	a := testAgent("a", "kubernetes", "metrics")
	a.Provider.ContextWindow, a.MaxIterations = 40_000, 10
	a.Servers[1].Summarization = &Summarization{Threshold: 1000, MaxTokens: 100, Provider: testProvider("gemini")}
	w := newSim(t, testPlan(testStage("work", Any, a)))
	w.tool = func(c *CallTool) string { return strings.Repeat(c.CallID+" line\n", 100_000) }
	n := 0
	w.answer = func(_ *sim, a *Ask) Fact {
		switch a.Purpose {
		case PurposeSummarization:
			if a.Source != nil && !strings.Contains(a.WithSource("the whole").Messages[0].Text, "the whole") {
				t.Error("WithSource has not the source")
			}
			return text(a, "a summary")
		case PurposeIteration:
			if n++; n <= 6 {
				server := []string{"kubernetes", "metrics"}[n/6]
				f := calls(a, model.Call{ID: "c" + strings.Repeat("i", n), Name: server + "__pods_log", Arguments: `{"n":` + strings.Repeat("1", n) + `}`})
				f.ModelAnswered.Usage.Input = RequestTokens(a.Request)
				return f
			}
		default:
		}
		return text(a, "fine")
	}
	s := w.run()
	first := w.requests[1].Messages[2].Text
	if max := 40_000 * 15 / 100 * 4; len(first) > max || !strings.Contains(first, `read_result with the id "ci"`) {
		t.Errorf("the first result has %d bytes, want at most %d, with the way to the rest", len(first), max)
	}
	summaries := 0
	for _, e := range Timeline(s, 0, 1000).Events {
		if e.EventType == EventToolSummary {
			summaries++
		}
		if e.EventType == EventToolCall && len(e.Content) > maxEventResult {
			t.Errorf("a tool's event has %d bytes, want at most %d", len(e.Content), maxEventResult)
		}
	}
	if s.Status() != StatusCompleted || summaries < 3 {
		t.Errorf("status %s with %d summaries; want completed, the new result and older ones summarized", s.Status(), summaries)
	}
}

func TestTakeovers(t *testing.T) {
	t.Run("five at the same step", func(t *testing.T) {
		w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
		w.answer = func(_ *sim, a *Ask) Fact {
			return calls(a, model.Call{ID: "c", Name: "kubernetes__pods_list"})
		}
		w.tool = func(*CallTool) string { w.crash(); return "" }
		s := w.run()
		if want := "the process ended 5 times at the same step: a called kubernetes.pods_list"; s.Status() != StatusFailed || s.err != want {
			t.Errorf("status %s, error %q; want failed, %q", s.Status(), s.err, want)
		}
	})
	t.Run("drains are none", func(t *testing.T) {
		w := newSim(t, testPlan(testStage("work", Any, testAgent("a"))))
		for range 8 {
			w.claim()
			w.store(Fact{Released: &Released{Epoch: w.epoch}})
		}
		w.claim()
		if s := w.run(); s.Status() != StatusCompleted {
			t.Errorf("status %s (%s), want completed", s.Status(), s.err)
		}
	})
	t.Run("a call that can't be repeated", func(t *testing.T) {
		w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
		n := 0
		w.tool = func(*CallTool) string { n++; w.crash(); return "" }
		w.answer = func(_ *sim, a *Ask) Fact {
			if len(a.Request.Messages) == 1 && a.Purpose == PurposeIteration {
				return calls(a, model.Call{ID: "c", Name: "kubernetes__pods_delete"})
			}
			return text(a, "fine")
		}
		s := w.run()
		if m := w.requests[1].Messages[2]; n != 1 || !strings.Contains(m.Text, "\nunknown: the process ended during the call\n") || s.Status() != StatusCompleted {
			t.Errorf("%d calls, result %q, status %s; want one call whose result is unknown", n, m.Text, s.Status())
		}
	})
}

func TestRetryKeepsCompletedStages(t *testing.T) {
	plan := testPlan(testStage("one", Any, testAgent("a")), testStage("two", Any, testAgent("b")))
	w := newSim(t, plan)
	broken := true
	w.answer = func(w *sim, a *Ask) Fact {
		if broken && w.s.current() != nil && w.s.current().Name == "two" {
			return failed(a, "no answer")
		}
		return text(a, "fine")
	}
	if s := w.run(); s.Status() != StatusFailed {
		t.Fatalf("status %s, want failed", s.Status())
	}
	broken = false
	facts, err := Retry(w.s, "cli:me", plan)
	if err != nil {
		t.Fatal(err)
	}
	w.store(facts...)
	if it := ItemOf(w.s); it.Status != StatusPending || it.StartedAt != nil || it.ErrorMessage != nil || it.CompletedStages != 1 {
		t.Errorf("after the retry: %+v, want pending with one completed stage", it)
	}
	w.claim()
	s := w.run()
	want := []string{"one investigation completed a=completed", "two investigation failed b=failed", "two investigation completed b=completed"}
	if diff := cmp.Diff(want, statuses(s)); diff != "" || s.Status() != StatusCompleted {
		t.Errorf("status %s, stages (-want +got):\n%s", s.Status(), diff)
	}
	if got := DetailOf(s, nil).Stages[2]; got.Attempt != 2 || got.StageIndex != 2 {
		t.Errorf("the second stage has attempt %d and index %d, want 2 and 2", got.Attempt, got.StageIndex)
	}
	if _, err := Retry(s, "me", plan); err == nil {
		t.Error("a completed session is retried, want an error")
	}
}

func TestAlertResolved(t *testing.T) {
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
	w.store(Resolve(w.s, "a1", "ready again")...)
	if w.s.Status() != StatusCancelled || !strings.Contains(w.s.err, "ready again") {
		t.Errorf("a queued session is %s (%q), want cancelled", w.s.Status(), w.s.err)
	}
	w = newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
	w.tool = func(*CallTool) string { w.store(Resolve(w.s, "a1", "ready again")...); return "fine" }
	w.answer = func(_ *sim, a *Ask) Fact {
		if len(a.Request.Messages) == 1 && a.Purpose == PurposeIteration {
			return calls(a, model.Call{ID: "c", Name: "kubernetes__pods_list"})
		}
		return text(a, "fine")
	}
	w.run()
	if m := w.requests[1].Messages; len(m) != 4 || !strings.Contains(m[3].Text, "ready again") {
		t.Errorf("the next turn has %d messages, want 4 with the end of the alert last", len(m))
	}
}

// A model reads that the middle of its own long answer is left out.
func TestLongAnswers(t *testing.T) {
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
	long := strings.Repeat("a thought\n", MaxInline/5)
	w.answer = func(_ *sim, a *Ask) Fact {
		f := text(a, "fine")
		if a.Purpose != PurposeExecutiveSummary {
			f.ModelAnswered.Text, _ = NewText(long)
		}
		if len(a.Request.Messages) == 1 && a.Purpose == PurposeIteration {
			f.ModelAnswered.Calls = []model.Call{{ID: "c", Name: "kubernetes__pods_list"}}
		}
		return f
	}
	s := w.run()
	const note = " bytes left out: the rest is stored ...]"
	if got := w.requests[1].Messages[1]; got.Role != model.RoleAssistant || len(got.Text) > maxExcerpt || strings.Count(got.Text, note) != 1 {
		t.Errorf("the model reads its answer as a %s message of %d bytes with %d notes, want at most %d bytes with one note", got.Role, len(got.Text), strings.Count(got.Text, note), maxExcerpt)
	}
	if got := *Summary(s).FinalAnalysis; len(got) > maxExcerpt || strings.Count(got, note) != 1 {
		t.Errorf("the final analysis has %d bytes and %d notes, want at most %d bytes and one note", len(got), strings.Count(got, note), maxExcerpt)
	}
}

func TestViewsOfAPendingSession(t *testing.T) {
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a"))))
	b, err := json.Marshal(DetailOf(w.s, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"01JD3ZK9Q2W4X6Y8Z0A1B2C3D4","alert_type":"kubernetes","chain_id":"kubernetes","status":"pending","author":"api-client","created_at":"2026-03-04T05:06:07.009Z","started_at":null,"completed_at":null,"duration_ms":null,"error_message":null,"executive_summary":null,"current_stage_index":null,"total_stages":1,"completed_stages":0,"llm_interaction_count":0,"mcp_interaction_count":0,"input_tokens":0,"output_tokens":0,"cached_tokens":0,"estimated_cost_usd":0,"chat_message_count":0,"alert_id":null,"dedup_key":null,"alert_data":"CrashLoopBackOff shop/checkout","final_analysis":null,"conclusion":null,"executive_summary_error":null,"runbook_url":null,"mcp_selection":null,"chat_enabled":true,"chat":null,"waiting_for":null,"stages":[]}`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
}
