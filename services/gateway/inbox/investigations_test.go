package inbox_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// investigator offers the steps of a timeline to an inbox:
//
//	A       the alert A is raised; A' is a repetition with an id of its own
//	A#      a revision of A with another count, A! one that raises its severity
//	A+      its investigation starts, A=, A~ and A- it completes, fails, is cancelled
//	-A      A is resolved
//	|, |n   all alerts, or those up to step n, are taken
//	^n      another reader delivered the alerts up to step n
//	silent  the next step is suppressed
type investigator struct {
	*inbox.Inbox
	seq    uint64
	silent bool
}

var investigationSteps = map[byte]alert.InvestigationStatus{
	'+': alert.InvestigationInProgress, '=': alert.InvestigationCompleted, '~': alert.InvestigationFailed, '-': alert.InvestigationCancelled,
}

// step returns the alert of a step.
func (p *investigator) step(step string) alert.Alert {
	name := strings.TrimLeft(step, "-")[:1]
	a := alert.Alert{
		ID: name, App: "web", DedupKey: name, Severity: alert.Warning, Category: alert.Errors, Title: name,
		Context: map[string]any{"k": "v"}, Timestamp: start, CorrelationID: name,
	}
	switch last := step[len(step)-1]; {
	case step[0] == '-':
		a.ID, a.Resolves = fmt.Sprint("end", p.seq), name
	case last == '\'':
		a.ID = fmt.Sprint(name, p.seq)
	case last == '#' || last == '!':
		a.ID, a.Revises, a.Count = fmt.Sprint("r", p.seq), name, int(p.seq)
		if last == '!' {
			a.Severity = alert.Error
		}
	case investigationSteps[last] != "":
		a = alert.RevisionFor(a, alert.Investigation{SessionID: "s" + name, Status: investigationSteps[last], Summary: "because"})
	}
	return a
}

func (p *investigator) play(timeline string) string {
	var out []string
	for _, step := range strings.Fields(timeline) {
		seq := p.seq
		if _, err := fmt.Sscanf(step[1:], "%d", &seq); err != nil {
			seq = p.seq
		}
		switch {
		case step[0] == '|':
			out = append(out, shownAs(p.Take(seq)))
			continue
		case step[0] == '^':
			p.DiscardDelivered(seq)
			continue
		case step == "silent":
			p.silent = true
			continue
		}
		p.seq++
		a := p.step(step)
		a.Seq = p.seq
		if p.silent {
			p.Suppress(a)
		} else {
			p.Offer(a)
		}
		p.silent = false
	}
	return strings.Join(out, " | ")
}

// shownAs writes alerts as in the timelines: a line about an end in brackets, a resolved alert in
// parentheses.
func shownAs(alerts []alert.Alert) string {
	var all []string
	for _, a := range alerts {
		text := a.DedupKey
		if a.Resolves != "" {
			text = "-" + text
		}
		if a.Severity == alert.Error {
			text += "!"
		}
		if a.Count > 1 {
			text += fmt.Sprint("*", a.Count)
		}
		if i := a.Investigation; i != nil {
			text += "." + string(i.Status)
		}
		switch {
		case a.OnlyInvestigation:
			text = "[" + text + "]"
		case a.Resolved:
			text = "(" + text + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestInvestigation(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"pending, started", "A A+ |", "A.in_progress"},
		{"pending, ended", "A A+ A= | |", "A.completed | "},
		{"pending, cancelled", "A A+ A- |", "A.cancelled"},
		{"delivered, started", "A | A+ |", "A | "},
		{"delivered, ended", "A | A+ A= | |", "A | [A.completed] | "},
		{"delivered, cancelled", "A | A+ A- |", "A | "},
		{"started while pending, ended after", "A A+ | A= |", "A.in_progress | [A.completed]"},
		{"ended twice with one id", "A | A= | A= |", "A | [A.completed] | "},
		{"ended twice while pending", "A A= | A= |", "A.completed | "},
		{"an old end is published again after a newer one", "A | A~ A= A~ |", "A | [A.completed]"},
		{"failed, tried again, completed", "A | A~ | A+ A= |", "A | [A.failed] | [A.completed]"},
		{"failed, tried again before it was delivered", "A | A~ A+ |", "A | [A.in_progress]"},
		{"an unknown alert", "A= |", "[A.completed]"},
		{"a new count keeps it", "A A+ A# |", "A.in_progress"},
		{"a new count keeps the end", "A A= A# |", "A.completed"},
		{"a new count after delivery", "A | A= A# | A# |", "A | [A.completed] | "},
		{"the end after a new count", "A A# A= |", "A.completed"},
		{"a raised severity keeps it", "A A+ A! |", "A!.in_progress"},
		{"a raised severity after delivery has it", "A | A= | A! |", "A | [A.completed] | A!*3.completed"},
		{"a raised severity takes in the line", "A | A= A! | |", "A | A!*3.completed | "},
		{"the end does not lower a raised severity", "A A! A= |", "A!.completed"},
		{"merged alerts, one investigated", "A A' A+ A= |", "A*2.completed"},
		{"investigated, then repeated", "A A+ A' |", "A*2.in_progress"},
		{"ended, then repeated", "A A= A' |", "A*2.completed"},
		{"delivered, repeated, ended", "A | A' A= |", "A | [A.completed] A"},
		{"delivered, ended, repeated", "A | A= A' |", "A | A [A.completed]"},
		{"resolved while pending", "A A+ -A |", "(A.in_progress)"},
		{"resolved while pending, then ended", "A -A A= | |", "(A.completed) | "},
		{"ended, then resolved", "A A= -A |", "(A.completed)"},
		{"delivered, resolved, ended", "A | -A A= |", "A | [A.completed] -A"},
		{"delivered, ended, resolved", "A | A= -A |", "A | -A [A.completed]"},
		{"flapping, one investigated", "A A= -A A' |", "A (A.completed)"},
		{"silenced while pending", "A A+ silent A= | |", "A.completed | "},
		{"silenced after delivery", "A | silent A= | A= |", "A |  | "},
		{"taken up to the alert, the end stays", "A A= |1 | |", "A | [A.completed] | "},
		{"taken up to the end", "A A= |2 |", "A.completed | "},
		{"another reader delivered the alert", "A A= ^1 | |", "[A.completed] | "},
		{"another reader delivered both", "A A= ^2 |", ""},
		{"another reader delivered the line", "A | A= ^2 |", "A | "},
		{"another reader delivered the first part", "A A' A= ^1 |", "A.completed"},
		{"the first part is taken with the end", "A A= A' |2 |", "A.completed | A"},
	} {
		p := &investigator{Inbox: inbox.New()}
		if got := p.play(tt.in); strings.TrimSpace(got) != strings.TrimSpace(tt.want) {
			t.Errorf("%s: play(%q) = %q, want %q", tt.name, tt.in, got, tt.want)
		}
	}
}

// TestInvestigationLine: the line repeats neither detail nor context and has the alert's id.
func TestInvestigationLine(t *testing.T) {
	p := &investigator{Inbox: inbox.New()}
	p.play("A | A=")
	if p.Len() != 1 {
		t.Fatalf("%d alerts pending, want 1", p.Len())
	}
	a, found := p.Find("A")
	if !found || a.ID != "A" || a.Title != "Investigation completed: A" || a.Context != nil || a.Revises != "" || a.Count != 0 || a.Investigation.Summary != "because" {
		t.Errorf("found %t %+v, want the line about A without context, count and revises, with the summary", found, a)
	}
}

// TestInvestigationAfterRestart: an end that was delivered before is known from the alerts that
// are recorded at the start.
func TestInvestigationAfterRestart(t *testing.T) {
	for _, record := range []func(*inbox.Inbox, alert.Alert){(*inbox.Inbox).RecordElsewhere, func(b *inbox.Inbox, a alert.Alert) { b.RecordDelivered([]alert.Alert{a}) }} {
		p := &investigator{Inbox: inbox.New()}
		for _, step := range []string{"A", "A="} {
			record(p.Inbox, p.step(step))
		}
		if got := p.play("A= |"); got != "" {
			t.Errorf("delivered %q again, want nothing", got)
		}
		if got := p.play("A! |"); got != "A!*2.completed" {
			t.Errorf("the raised severity was delivered as %q, want %q", got, "A!*2.completed")
		}
	}
}

// TestInvestigationProperties: in any interleaving of counts, investigations and takes, also by
// another reader, each end is delivered once, with the alert or as a line; and the newest
// investigation stays.
func TestInvestigationProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &investigator{Inbox: inbox.New()}
		names := []string{"A", "B"}
		ended, delivered := map[string]int{}, map[string]int{}
		pending, newest := map[string]bool{}, map[string]alert.InvestigationStatus{}
		collect := func(alerts []alert.Alert) {
			for _, a := range alerts {
				if a.Investigation.Ended() {
					delivered[a.ID+string(a.Investigation.Status)]++
				}
			}
		}
		for _, name := range names {
			p.play(name)
			pending[name] = true
		}
		other := &investigator{Inbox: inbox.New()} // another reader of the same client
		other.play("A B")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "alert")
			switch kind := rapid.SampledFrom([]string{"#", "+", "-", "=", "=", "~", "|", "^"}).Draw(t, "step"); kind {
			case "|":
				collect(p.Take(p.seq))
				other.DiscardDelivered(p.seq)
				clear(pending)
			case "^":
				collect(other.Take(other.seq))
				p.DiscardDelivered(other.seq)
				clear(pending)
			default:
				step := name + kind
				if status := investigationSteps[kind[0]]; status != "" {
					if id := name + string(status); kind == "=" || kind == "~" {
						if ended[id] > 0 {
							continue // the same end again is another test
						}
						ended[id]++
					}
					newest[name] = status
				}
				p.play(step)
				other.play(step)
				if a, found := p.Find(name); found && !a.OnlyInvestigation && newest[name] != "" {
					if a.Investigation == nil || a.Investigation.Status != newest[name] {
						t.Fatalf("after %s: investigation %+v, want status %s", step, a.Investigation, newest[name])
					}
				}
			}
		}
		collect(p.Take(p.seq))
		for id, n := range delivered {
			if n > 1 || ended[id] == 0 {
				t.Fatalf("%s was delivered %d times, want at most once and only what ended", id, n)
			}
		}
		for _, name := range names {
			if status := newest[name]; status == alert.InvestigationCompleted || status == alert.InvestigationFailed {
				if delivered[name+string(status)] != 1 {
					t.Fatalf("the last end %s of %s was delivered %d times, want once", status, name, delivered[name+string(status)])
				}
			}
		}
	})
}
