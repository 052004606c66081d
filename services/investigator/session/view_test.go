package session

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

var update = flag.Bool("update", false, "write the golden files")

// endedSession is a session of two stages, one of them with a synthesis, whose timeline has an event
// of each type.
func endedSession(t *testing.T) *Session {
	t.Helper()
	a, b, broken := testAgent("triage-1", "kubernetes", "metrics"), testAgent("triage-2", "kubernetes"), testAgent("audit")
	a.Servers[0].Summarization = &Summarization{Threshold: 50, MaxTokens: 20, Provider: testProvider("gemini")}
	broken.Fallbacks = nil
	p := testPlan(testStage("investigation", Any, a, b, broken), testStage("conclusion", Any, testAgent("writer")))
	p.RunbookURL = "https://runbooks.example/crash"
	w := newSim(t, p)
	w.messages[0][0].Submitted.Alert = &alert.Alert{ID: "01JD3ZK9Q0A1B2C3D4E5F6G7H8"}
	w.messages[0][0].Submitted.DedupKey = "shop/checkout/crash"
	w.messages[0][0].Submitted.Selection = json.RawMessage(`{"servers":[{"name":"kubernetes","tools":[]}]}`)
	w.s = &Session{}
	if err := w.s.Apply(w.messages[0], 1); err != nil {
		t.Fatal(err)
	}
	list := w.list
	w.list = func(server string) Listed {
		if server == "metrics" {
			return Listed{Error: "connection refused", Duration: 2 * time.Second}
		}
		l := list(server)
		l.Duration = 40 * time.Millisecond
		return l
	}
	w.tool = func(*CallTool) string { return strings.Repeat("exit code 137\n", 30) }
	w.answer = func(w *sim, a *Ask) Fact {
		e := w.s.executions[a.Execution]
		switch {
		case a.Purpose == PurposeSummarization:
			return text(a, "30 exits with code 137")
		case a.Purpose == PurposeExecutiveSummary && a.Provider.Name == "gemini":
			return failed(a, "overloaded")
		case a.Purpose == PurposeExecutiveSummary:
			return text(a, "The container exceeds its memory limit.")
		case e.agent.Name == "audit":
			return failed(a, "the key is refused")
		case e.agent.Name == "writer":
			return calls(a, model.Call{ID: "end", Name: conclusion.ToolName, Arguments: `{"cause":"A memory limit that is too low.","confidence":"proven","evidence":[{"claim":"it is killed","call_id":"k1","quote":"checkout 1.4.2"}],"next_steps":["Raise the limit"]}`})
		case e.agent.Name == "triage-1" && len(a.Request.Messages) == 1:
			f := calls(a, model.Call{ID: "c1", Name: "kubernetes__pods_log", Arguments: `{"name":"checkout"}`}, model.Call{ID: "c2", Name: "kubernetes__rm", Arguments: `all: yes`})
			f.ModelAnswered.Text, f.ModelAnswered.Thinking = Text{Inline: "I read the log."}, Text{Inline: "It may be the memory."}
			f.ModelAnswered.Usage.Thinking, f.ModelAnswered.Usage.Cached = 5, 60
			f.ModelAnswered.Duration = 1500 * time.Millisecond
			return f
		}
		return text(a, "The container is killed.")
	}
	return w.run()
}

// golden compares the JSON of a view with a file.
func golden(t *testing.T, name string, view any) {
	t.Helper()
	got, err := json.MarshalIndent(view, "", "  ")
	if err != nil {
		t.Fatalf("encoding %s: %v", name, err)
	}
	got = append(got, '\n')
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestViewsOfAnEndedSession(t *testing.T) {
	s := endedSession(t)
	golden(t, "item", ItemOf(s))
	golden(t, "detail", DetailOf(s, nil))
	golden(t, "summary", Summary(s))
	golden(t, "progress", ProgressOf(s))
	timeline := Timeline(s, 0, 1000)
	golden(t, "timeline", timeline)
	kinds := map[EventType]bool{}
	for _, e := range timeline.Events {
		kinds[e.EventType] = true
	}
	for _, kind := range []EventType{EventThinking, EventResponse, EventToolCall, EventToolSummary, EventError, EventExecutiveSummary, EventFinalAnalysis, EventFallback, EventNote} {
		if !kinds[kind] {
			t.Errorf("the timeline has no event %s, want one of each type", kind)
		}
	}
	trace := Trace(s)
	golden(t, "trace", trace)
	first := trace.Stages[0].Executions[0]
	llm := func(name, id string) {
		v, ok := LLMInteractionOf(s, id)
		if !ok {
			t.Fatalf("there is no interaction %s", id)
		}
		for i := range v.Conversation { // the prompts have golden files of their own
			if turn := &v.Conversation[i]; turn.Role == "system" || i == 1 {
				turn.Content = Head(turn.Content, 40)
			}
		}
		golden(t, name, v)
	}
	llm("llm_iteration", first.LLMInteractions[0].ID)
	llm("llm_summarization", first.LLMInteractions[1].ID)
	llm("llm_final_analysis", first.LLMInteractions[2].ID)
	llm("llm_failed", trace.SessionInteractions[0].ID)
	llm("llm_executive_summary", trace.SessionInteractions[1].ID)
	mcp := func(name, id string) {
		v, ok := MCPInteractionOf(s, id, nil)
		if !ok {
			t.Fatalf("there is no interaction %s", id)
		}
		golden(t, name, v)
	}
	mcp("mcp_list", first.MCPInteractions[0].ID)
	mcp("mcp_list_failed", first.MCPInteractions[1].ID)
	mcp("mcp_call", first.MCPInteractions[2].ID)
	if _, ok := LLMInteractionOf(s, first.MCPInteractions[0].ID); ok {
		t.Error("a tool's interaction is found as one of a model, want none")
	}
	if _, ok := MCPInteractionOf(s, testID, nil); ok {
		t.Error("an unknown interaction is found, want none")
	}
}

// TestFailedToolCallInTrace: a tool call that failed has an error_message.
func TestFailedToolCallInTrace(t *testing.T) {
	long := strings.Repeat("no route to host\n", maxErrorMessage)
	for _, test := range []struct {
		name   string
		answer ToolAnswered
		want   *string
	}{
		{"a result", ToolAnswered{Result: Text{Inline: "exit code 137"}}, nil},
		{"an error of the tool", ToolAnswered{Result: Text{Inline: "the pod is gone"}, IsError: true}, orNull("the pod is gone")},
		{"a long one", ToolAnswered{Result: Text{Inline: long}, IsError: true}, orNull(Head(long, maxErrorMessage))},
		{"no result", ToolAnswered{Error: "the result could not be stored", IsError: true}, orNull("the result could not be stored")},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newSim(t, testPlan(testStage("look", Any, testAgent("triage", "kubernetes"))))
			w.answer = func(_ *sim, a *Ask) Fact {
				return calls(a, model.Call{ID: "c1", Name: "kubernetes__pods_log", Arguments: `{}`})
			}
			w.block = func(e Effect) bool { return e.Call != nil }
			w.claim()
			for !w.blocked && w.step() {
			}
			answer := test.answer
			answer.Execution, answer.CallID = w.s.stages[0].execs[0].id, "c1"
			w.store(Fact{ToolAnswered: &answer})
			used := Trace(w.s).Stages[0].Executions[0].MCPInteractions
			got := used[len(used)-1]
			if got.InteractionType != "tool_call" || !cmp.Equal(got.ErrorMessage, test.want) {
				t.Errorf("got a %s with error_message %.100q, want a tool_call with %.100q", got.InteractionType, str(got.ErrorMessage), str(test.want))
			}
		})
	}
}

var nullList = regexp.MustCompile(`"(stages|executions|events|llm_interactions|mcp_interactions|session_interactions|conversation|tool_calls|available_tools|metadata)":null`)

// checkViews checks that no list of a view is null.
func checkViews(t tester, s *Session) {
	t.Helper()
	trace := Trace(s)
	views := []any{ItemOf(s), DetailOf(s, nil), Timeline(s, 0, 1000), Timeline(s, 1<<40, 1), trace, Summary(s), ProgressOf(s)}
	for _, it := range s.models {
		v, _ := LLMInteractionOf(s, it.id)
		views = append(views, v)
	}
	for _, u := range s.tools {
		v, _ := MCPInteractionOf(s, u.id, nil)
		views = append(views, v)
		if s.Ended() && v.DurationMS == nil {
			t.Fatalf("the tool interaction %+v has not ended, but its session has", v)
		}
	}
	for _, v := range views {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("encoding %T: %v", v, err)
		}
		if bad := nullList.Find(b); bad != nil {
			t.Fatalf("%T has %s, want a list", v, bad)
		}
	}
	for _, it := range s.models {
		if s.Ended() && !it.done {
			t.Fatalf("the interaction %+v has not ended, but its session has", it.view())
		}
	}
}
