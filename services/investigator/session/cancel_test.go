package session

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// outline is what a session shows of its statuses.
func outline(s *Session) []string {
	out := []string{"session " + string(s.Status())}
	out = append(out, statuses(s)...)
	for _, e := range Timeline(s, 0, 1000).Events {
		out = append(out, "event "+string(e.EventType)+" "+string(e.Status))
	}
	return out
}

func TestCancellation(t *testing.T) {
	plan := testPlan(testStage("work", All, testAgent("a", "kubernetes"), testAgent("b", "kubernetes")), testStage("end", Any, testAgent("writer")))
	for name, c := range map[string]struct {
		block func(Effect) bool // nil: before a worker claims the session
		want  []string
	}{
		"queued": {want: []string{"session cancelled", "event note completed"}},
		"gathering": {
			block: func(e Effect) bool { return e.Gather != nil },
			want:  []string{"session cancelled", "work investigation cancelled a=cancelled b=cancelled", "event note completed"},
		},
		"listing tools": {
			block: func(e Effect) bool { return e.List != nil },
			want:  []string{"session cancelled", "work investigation cancelled a=cancelled b=cancelled", "event note completed"},
		},
		"model call": {
			block: func(e Effect) bool { return e.Ask != nil },
			want: []string{
				"session cancelled", "work investigation cancelled a=cancelled b=cancelled",
				"event llm_thinking cancelled", "event llm_response cancelled", "event note completed",
			},
		},
		"tool call": {
			block: func(e Effect) bool { return e.Call != nil },
			want: []string{
				"session cancelled", "work investigation cancelled a=cancelled b=completed",
				"event llm_response completed", "event final_analysis completed", "event llm_tool_call cancelled", "event note completed",
			},
		},
		"synthesis": {
			block: func(e Effect) bool { return e.Ask != nil && e.Ask.Purpose == PurposeSynthesis },
			want: []string{
				"session cancelled", "work investigation completed a=completed b=completed",
				"work - Synthesis synthesis cancelled SynthesisAgent=cancelled",
				"event llm_response completed", "event final_analysis completed", "event llm_tool_call completed",
				"event llm_response completed", "event final_analysis completed",
				"event llm_thinking cancelled", "event llm_response cancelled", "event note completed",
			},
		},
		"summary": {
			block: func(e Effect) bool { return e.Ask != nil && e.Ask.Purpose == PurposeExecutiveSummary },
			want: []string{
				"session cancelled", "work investigation completed a=completed b=completed",
				"work - Synthesis synthesis completed SynthesisAgent=completed", "end investigation completed writer=completed",
				"event llm_response completed", "event final_analysis completed", "event llm_tool_call completed",
				"event llm_response completed", "event final_analysis completed",
				"event llm_response completed", "event final_analysis completed",
				"event llm_response completed", "event final_analysis completed", "event note completed",
			},
		},
	} {
		for _, worker := range []string{"with its worker", "without a worker"} {
			if c.block == nil && worker != "without a worker" {
				continue
			}
			t.Run(name+" "+worker, func(t *testing.T) {
				w := newSim(t, plan)
				w.answer = func(w *sim, a *Ask) Fact {
					if e := w.s.executions[a.Execution]; e != nil && e.agent.Name == "a" && len(a.Request.Messages) == 1 {
						return calls(a, model.Call{ID: "c", Name: "kubernetes__pods_list"})
					}
					return text(a, "fine")
				}
				if c.block != nil {
					w.block = c.block
					w.claim()
					for !w.blocked {
						w.step()
					}
					for _, it := range w.s.models {
						if !it.done && it.exec != nil && it.exec.agent.Name != "b" { // b has not streamed yet
							w.store(Fact{Streaming: &Streaming{ID: it.id, Thinking: true}}, Fact{Streaming: &Streaming{ID: it.id}})
						}
					}
				}
				if worker == "without a worker" && c.block != nil {
					w.store(Fact{Released: &Released{Epoch: w.epoch}})
				}
				cancelSession(t, w, c.block == nil)
				if diff := cmp.Diff(c.want, outline(w.s)); diff != "" {
					t.Errorf("statuses (-want +got):\n%s", diff)
				}
				checkViews(t, w.s)
				for _, e := range Timeline(w.s, 0, 1000).Events {
					if e.Status == StatusCancelled && e.UpdatedSequence == e.SequenceNumber {
						t.Errorf("the event %+v ended without a change of its own", e)
					}
				}
			})
		}
	}
}

// cancelSession asks for the end, and stores what [Next] returns then: it needs no claim.
func cancelSession(t *testing.T, w *sim, queued bool) {
	t.Helper()
	facts, err := Cancel(w.s, "me", "not needed")
	if err != nil {
		t.Fatalf("Cancel: %v", err)
	}
	w.store(facts...)
	if !queued {
		if got := w.s.Status(); got != StatusCancelling {
			t.Fatalf("after the request the session is %s, want cancelling", got)
		}
		again, err := Cancel(w.s, "me", "again")
		if len(again) > 0 || err != nil {
			t.Fatalf("the second request has %v and %v, want nothing to store", again, err)
		}
		due := Next(w.s, w.now)
		if len(due.Effects) > 0 || len(due.Facts) == 0 {
			t.Fatalf("due is %+v, want the facts that end the session alone", due)
		}
		w.store(due.Facts...)
	}
	it := ItemOf(w.s)
	if it.ErrorMessage == nil || *it.ErrorMessage != "not needed" || it.CompletedAt == nil || it.ExecutiveSummary != nil {
		t.Errorf("item %+v, want the reason as the error, an end and no summary", it)
	}
	if sum := Summary(w.s); sum.FinalAnalysis != nil || string(sum.Conclusion) != "null" {
		t.Errorf("summary %+v, want no analysis and no conclusion", sum)
	}
	if _, err := Cancel(w.s, "me", ""); !errors.Is(err, ErrEnded) {
		t.Errorf("a request after the end = %v, want %v", err, ErrEnded)
	}
	if due := Next(w.s, w.now); len(due.Facts)+len(due.Effects) > 0 || !due.Wake.IsZero() {
		t.Errorf("due after the end is %+v, want nothing", due)
	}
}

// The name of the person who cancelled a session is there once.
func TestNoteOfACancelledSession(t *testing.T) {
	for reason, want := range map[string]string{
		"":                       "The session was cancelled by ann.",
		"cancelled by ann":       "The session was cancelled by ann.",
		"the alert was resolved": "The session was cancelled by ann. Reason: the alert was resolved",
		"cancelled by mistake":   "The session was cancelled by ann. Reason: cancelled by mistake",
	} {
		w := newSim(t, testPlan(testStage("look", Any, testAgent("triage"))))
		facts, err := Cancel(w.s, "ann", reason)
		if err != nil {
			t.Fatalf("Cancel: %v", err)
		}
		w.store(facts...)
		if got := notes(w.s); !slices.Equal(got, []string{want}) {
			t.Errorf("for the reason %q: got the notes %q, want %q", reason, got, want)
		}
	}
}
