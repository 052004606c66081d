package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// offeredTools returns the names of the server's tools in a request.
func offeredTools(r model.Request) string {
	var names []string
	for _, t := range r.Tools {
		if name, ok := strings.CutPrefix(t.Name, "kubernetes__"); ok {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

func notes(s *Session) []string {
	var list []string
	for _, e := range Timeline(s, 0, 1000).Events {
		if e.EventType == EventNote {
			list = append(list, e.Content)
		}
	}
	return list
}

// A tool whose definition is not the one that the session saw first is not offered, whichever
// execution listed it.
func TestChangedDefinitionsAreNotOffered(t *testing.T) {
	const note = "The definitions of these tools of kubernetes changed during the session, so they are not used: pods_log."
	old, changed := map[string]string{"pods_list": "1", "pods_log": "1"}, map[string]string{"pods_list": "1", "pods_log": "2"}
	down := map[string]string{}
	agent := testAgent("a", "kubernetes")
	two := []Stage{testStage("first", Any, agent), testStage("second", Any, agent)}
	replicas := []Stage{testStage("first", Any, agent, agent)}
	for name, c := range map[string]struct {
		stages []Stage
		lists  []map[string]string // by execution: the digests
		want   []string            // by execution: the tools offered
		notes  []string
	}{
		"unchanged":                {two, []map[string]string{old, old}, []string{"pods_list pods_log", "pods_list pods_log"}, nil},
		"changed between stages":   {two, []map[string]string{old, changed}, []string{"pods_list pods_log", "pods_list"}, []string{note}},
		"changed between replicas": {replicas, []map[string]string{old, changed}, []string{"pods_list pods_log", "pods_list"}, []string{note}},
		"a new tool":               {two, []map[string]string{{"pods_list": "1"}, changed}, []string{"pods_list", "pods_list pods_log"}, nil},
		"removed":                  {two, []map[string]string{old, {"pods_log": "1"}}, []string{"pods_list pods_log", "pods_log"}, nil},
		"down at first":            {two, []map[string]string{down, changed}, []string{"", "pods_list pods_log"}, []string{"The server kubernetes can't be used: down"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSim(t, testPlan(c.stages...))
			n := 0
			w.list = func(server string) Listed {
				digests := c.lists[n]
				n++
				if len(digests) == 0 {
					return Listed{Error: "down"}
				}
				var l Listed
				for _, tool := range []string{"pods_list", "pods_log"} {
					if digest := digests[tool]; digest != "" {
						l.Tools = append(l.Tools, ListedTool{Name: tool, Tool: model.Tool{Name: server + "__" + tool}, Digest: digest})
					}
				}
				return l
			}
			var got []string
			w.answer = func(_ *sim, a *Ask) Fact {
				if a.Purpose == PurposeIteration {
					got = append(got, offeredTools(a.Request))
				}
				return text(a, "fine")
			}
			s := w.run()
			if !slices.Equal(got, c.want) {
				t.Errorf("offered %q, want %q", got, c.want)
			}
			if list := notes(s); !slices.Equal(list, c.notes) {
				t.Errorf("notes %q, want %q", list, c.notes)
			}
			for i, want := range c.want {
				if list := names(s.tools[i].tools); list != want {
					t.Errorf("the trace of execution %d shows the tools %q, want %q", i+1, list, want)
				}
			}
		})
	}
}

func names(tools []ListedTool) string {
	var list []string
	for _, t := range tools {
		list = append(list, t.Name)
	}
	return strings.Join(list, " ")
}

// A retry begins with the definitions as they are then.
func TestRetryTakesNewDefinitions(t *testing.T) {
	p := testPlan(testStage("first", Any, testAgent("a", "kubernetes")))
	w := newSim(t, p)
	digest := "1"
	w.list = func(server string) Listed {
		return Listed{Tools: []ListedTool{{Name: "pods_log", Tool: model.Tool{Name: server + "__pods_log"}, Digest: digest}}}
	}
	w.answer = func(_ *sim, a *Ask) Fact { return failed(a, "overloaded") }
	w.run()
	digest = "2"
	facts, err := Retry(w.s, "me", p)
	if err != nil {
		t.Fatal(err)
	}
	w.store(facts...)
	w.answer = func(_ *sim, a *Ask) Fact { return text(a, "fine") }
	w.claim()
	w.requests = nil
	w.run()
	if got := offeredTools(w.requests[0]); got != "pods_log" {
		t.Errorf("after the retry the tools %q are offered, want pods_log", got)
	}
}

func TestNoteOfManyChangedTools(t *testing.T) {
	var changed []string
	for i := range maxNamedTools + 5 {
		changed = append(changed, fmt.Sprintf("tool_%d", i))
	}
	got := changedNote("kubernetes", changed)
	if !strings.HasSuffix(got, "tool_29 and 5 more.") {
		t.Errorf("note %q, want 30 names and the number of the others", got)
	}
}

// Tools that an alert chose, and the server does not offer, are named in the timeline.
func TestChosenToolsThatAreMissing(t *testing.T) {
	for name, c := range map[string]struct {
		chosen []string
		want   []string
	}{
		"none chosen": {nil, nil},
		"all there":   {[]string{"pods_list", "pods_log"}, nil},
		"one missing": {[]string{"pods_list", "pods_top"}, []string{"The alert chose tools that the server kubernetes does not offer: pods_top."}},
		"all missing": {[]string{"a", "b"}, []string{"The alert chose tools that the server kubernetes does not offer: a, b."}},
	} {
		t.Run(name, func(t *testing.T) {
			agent := testAgent("triage", "kubernetes", "metrics")
			agent.Servers[0].Tools = c.chosen
			if got := notes(newSim(t, testPlan(testStage("look", Any, agent))).run()); !slices.Equal(got, c.want) {
				t.Errorf("got the notes %q, want %q", got, c.want)
			}
		})
	}
}
