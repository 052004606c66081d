package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// A result whose summary fails is shown as its head and tail, with the way to the rest, and the
// session goes on: for a new result over the threshold, and for older ones over the share of the
// window.
func TestSummariesThatFail(t *testing.T) {
	failures := map[string]func(w *sim, a *Ask) Fact{
		"the provider fails": func(_ *sim, a *Ask) Fact { return failed(a, "overloaded") },
		"the provider asks to wait": func(w *sim, a *Ask) Fact {
			f := failed(a, "overloaded")
			f.ModelFailed.RetryAt = w.now.Add(time.Minute)
			return f
		},
		"the provider does not answer": func(*sim, *Ask) Fact { return Fact{} },
		"an empty answer":              func(_ *sim, a *Ask) Fact { return text(a, " \n") },
	}
	for name, failure := range failures {
		t.Run("a new result: "+name, func(t *testing.T) {
			a := testAgent("a", "kubernetes")
			a.Servers[0].Summarization = &Summarization{Threshold: 1000, MaxTokens: 100, Provider: testProvider("gemini")}
			w, summaries := simOfSummaries(t, a, 1, failure)
			s := w.run()
			last := w.requests[len(w.requests)-2] // the last one is the executive summary
			checkHeadAndTail(t, s, last, "c1", resultBytes(a.Provider))
			if *summaries != 1 {
				t.Errorf("%d summaries were asked for, want one", *summaries)
			}
		})
		t.Run("older results: "+name, func(t *testing.T) {
			a := testAgent("a", "kubernetes")
			a.Provider.ContextWindow, a.MaxIterations = 40_000, 10
			w, summaries := simOfSummaries(t, a, 6, failure)
			s := w.run()
			last := w.requests[len(w.requests)-2]
			checkHeadAndTail(t, s, last, "c1", compactTokens*bytesPerToken)
			if *summaries == 0 {
				t.Error("no summary was asked for, want some")
			}
			for _, it := range s.models {
				if it.purpose == PurposeSummarization && !it.done {
					t.Errorf("the summary %s of %s has no end", it.id, it.call.ID)
				}
			}
		})
	}
}

// The summaries of results that came in time are no part of what an iteration may take: where they
// don't end, the results are shown as their head and tail, turn after turn.
func TestLateSummariesDoNotFailTheExecution(t *testing.T) {
	a := testAgent("a", "kubernetes")
	a.Servers[0].Summarization = &Summarization{Threshold: 1000, MaxTokens: 100, Provider: testProvider("gemini")}
	a.Fallbacks = nil
	w, summaries := simOfSummaries(t, a, 3, func(*sim, *Ask) Fact { return Fact{} })
	s := w.run()
	if s.Status() != StatusCompleted || *summaries != 3 {
		t.Errorf("status %s (%s) after %d summaries that did not end, want completed after 3", s.Status(), s.err, *summaries)
	}
	checkHeadAndTail(t, s, w.requests[len(w.requests)-2], "c3", resultBytes(a.Provider))
	for _, it := range s.models {
		if !it.done {
			t.Errorf("the call %s for %s has no end", it.id, it.purpose)
		}
	}
}

// A provider that hangs costs the time of one summary for each batch of older results: the others of
// the batch are shown as their head and tail without another wait.
func TestHangingSummariesOfOlderResults(t *testing.T) {
	a := testAgent("a", "kubernetes")
	a.Provider.ContextWindow, a.MaxIterations = 40_000, 30
	w, summaries := simOfSummaries(t, a, 12, func(*sim, *Ask) Fact { return Fact{} })
	s := w.run()
	if took := s.done.Sub(s.started); s.Status() != StatusCompleted || *summaries == 0 || took > 13*time.Minute {
		t.Errorf("status %s (%s) after %s and %d summaries, want completed within 13m", s.Status(), s.err, took, *summaries)
	}
	for _, id := range []string{"c1", "c2"} {
		if c := s.stages[0].execs[0].byID[id]; !c.compacted {
			t.Errorf("the result of %s is whole in the conversation, want its head and tail", id)
		}
	}
}

// simOfSummaries is a session whose agent calls a tool so many times, in turns of their own, with long
// results. Its summaries have the outcome of failure.
func simOfSummaries(t *testing.T, a Agent, turns int, failure func(*sim, *Ask) Fact) (w *sim, summaries *int) {
	w, summaries = newSim(t, testPlan(testStage("work", Any, a))), new(int)
	w.tool = func(c *CallTool) string {
		return "head of " + c.CallID + "\n" + strings.Repeat("line\n", 60_000) + "tail of " + c.CallID
	}
	asked := map[string]bool{}
	w.answer = func(w *sim, a *Ask) Fact {
		switch {
		case a.Purpose == PurposeSummarization:
			if !asked[a.ID] {
				asked[a.ID] = true
				*summaries++
			}
			return failure(w, a)
		case a.Purpose == PurposeIteration && turns > 0:
			turns--
			n := w.s.executions[a.Execution].iterations + 1
			f := calls(a, model.Call{ID: fmt.Sprintf("c%d", n), Name: "kubernetes__pods_log", Arguments: fmt.Sprintf(`{"n":%d}`, n)})
			f.ModelAnswered.Usage.Input = RequestTokens(a.Request)
			return f
		}
		return text(a, "fine")
	}
	return w, summaries
}

// checkHeadAndTail checks that a session went on, and how its last request shows the result of a call.
func checkHeadAndTail(t *testing.T, s *Session, r model.Request, id string, limit int) {
	t.Helper()
	if s.Status() != StatusCompleted {
		t.Fatalf("status %s (%s), want completed", s.Status(), s.err)
	}
	for _, m := range r.Messages {
		if m.Role != model.RoleTool || m.CallID != id {
			continue
		}
		if len(m.Text) > limit || !strings.Contains(m.Text, "head of "+id+"\n") || !strings.Contains(m.Text, "\ntail of "+id+"\n") || !strings.Contains(m.Text, `read_result with the id "`+id+`"`) {
			t.Errorf("the result of %s is shown in %d bytes: %.100q ... %q; want head and tail in at most %d bytes, and how to read the rest", id, len(m.Text), m.Text, m.Text[max(0, len(m.Text)-100):], limit)
		}
		return
	}
	t.Errorf("the last request has no result of %s", id)
}
