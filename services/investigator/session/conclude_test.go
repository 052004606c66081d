package session

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

const concludeWith = `{"cause":"a bad flag","confidence":"likely","evidence":[{"claim":"it exits","call_id":"c","quote":"`

// supportedQuotes checks a conclusion with one piece of evidence for each quote, all of the call c.
func supportedQuotes(t *testing.T, load Load, texts []Text, quotes ...string) (supported []bool, f *Concluded) {
	t.Helper()
	args := concludeWith + strings.Join(quotes, `"},{"claim":"it exits","call_id":"c","quote":"`) + `"}]}`
	check := &CheckConclusion{Execution: "e", CallID: "end", Arguments: args, Sources: map[string][]Text{"c": texts}}
	f = check.Check(load, testStart).Concluded
	var got conclusion.Conclusion
	decode(t, f.Conclusion, &got)
	for _, e := range got.Evidence {
		supported = append(supported, e.Supported)
	}
	return supported, f
}

func TestQuotesOfSeveralTextsWithOneID(t *testing.T) {
	texts := []Text{{Inline: "the container exits"}, {Inline: "with code 137"}}
	got, _ := supportedQuotes(t, nil, texts, "container exits", "with code 137", "exits with code", "container exitswith")
	if diff := cmp.Diff([]bool{true, true, false, false}, got); diff != "" {
		t.Errorf("supported (-want +got):\n%s", diff)
	}
}

// Where an object can't be read, quotes of its head and tail are found, and the conclusion and the
// timeline name the result.
func TestQuotesOfATextThatCannotBeRead(t *testing.T) {
	whole := "the first line\n" + strings.Repeat("a line between\n", MaxInline/10) + "fatal: no flag\n" + strings.Repeat("a line between\n", MaxInline/10) + "the last line"
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
	w.tool = func(*CallTool) string { return whole }
	w.answer = func(_ *sim, a *Ask) Fact {
		if len(a.Request.Messages) == 1 && a.Purpose == PurposeIteration {
			return calls(a, model.Call{ID: "c", Name: "kubernetes__pods_log"})
		}
		return text(a, "fine")
	}
	w.run()
	stored := w.s.toolsByID[w.s.tools[1].id].call.result
	quotes := []string{"the first line", "fatal: no flag", "the last line", "bytes left out: the rest is stored"}
	got, f := supportedQuotes(t, w.load, []Text{stored}, quotes...)
	if diff := cmp.Diff([]bool{true, true, true, false}, got); diff != "" || len(f.Unread) > 0 {
		t.Errorf("with the object: unread %v, supported (-want +got):\n%s", f.Unread, diff)
	}
	got, f = supportedQuotes(t, nil, []Text{stored}, quotes...)
	if diff := cmp.Diff([]bool{true, false, true, false}, got); diff != "" {
		t.Errorf("without the object: supported (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c"}, f.Unread); diff != "" || !strings.Contains(f.Markdown, unreadNote([]string{"c"})) {
		t.Errorf("Markdown %q, want the note on c; unread (-want +got):\n%s", f.Markdown, diff)
	}
}

func TestUnreadEvidenceIsNoted(t *testing.T) {
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
	w.tool = func(*CallTool) string { return strings.Repeat("fatal: no flag\n", MaxInline/10) }
	w.answer = func(w *sim, a *Ask) Fact {
		switch {
		case a.Purpose != PurposeIteration:
			return text(a, "short")
		case len(a.Request.Messages) == 1:
			return calls(a, model.Call{ID: "c", Name: "kubernetes__pods_log"})
		}
		clear(w.objects)
		return calls(a, model.Call{ID: "end", Name: conclusion.ToolName, Arguments: concludeWith + `fatal: no flag"}]}`})
	}
	s := w.run()
	note := ""
	for _, e := range Timeline(s, 0, 1000).Events {
		if e.EventType == EventNote {
			note = e.Content
		}
	}
	if want := unreadNote([]string{"c"}); note != want || !strings.Contains(*Summary(s).FinalAnalysis, want) {
		t.Errorf("note %q, analysis %q; want %q in both", note, *Summary(s).FinalAnalysis, want)
	}
}
