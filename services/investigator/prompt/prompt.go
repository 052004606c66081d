// Package prompt composes what models read: the instructions of an agent, its first message, and
// the short messages of special turns. The texts are the files in parts; golden tests show them
// as a whole.
//
// Texts of alerts, tools and other models are data. [Fenced] puts each between two lines with a
// boundary that does not occur in it. It is pure: equal arguments give equal prompts.
package prompt

import (
	"embed"
	"fmt"
	"strings"
	"text/template"
	"time"
)

//go:embed parts/*.md
var files embed.FS

var parts = template.Must(template.ParseFS(files, "parts/*.md"))

// Agent is what the instructions of an agent depend on.
type Agent struct {
	Name string
	// Session is the id of the session, which the boundaries are derived from.
	Session string
	// Now is when the agent started: it stays the same through its conversation.
	Now           time.Time
	Instructions  string
	Servers       []Server
	MaxIterations int
	// HasTools means that the agent may call tools of servers. Concludes means that its answer
	// ends the chain, with the tool conclude.
	HasTools  bool
	Concludes bool
	// Synthesis means that the agent merges the records of others.
	Synthesis bool
}

// Server is an MCP server of an agent. Error is the reason why it can't be used.
type Server struct {
	Name         string
	Instructions string
	Error        string
}

// Known is a fact with the id that evidence cites.
type Known struct {
	ID    string
	Title string
	Text  string
}

// RunbookID is the id by which evidence cites [Task.Runbook].
const RunbookID = "known-runbook"

// Analysis is the result of an earlier stage.
type Analysis struct {
	Stage string
	Text  string
}

// Task is what the first message has.
type Task struct {
	// Session is the id of the session, which the boundaries are derived from.
	Session   string
	AlertType string
	Alert     string
	// AlertCut means that Alert is a head and tail, and that read_result reads the rest.
	AlertCut   bool
	Known      []Known
	Missing    []string
	Runbook    string
	RunbookURL string
	Earlier    []Analysis
	// Resolved is the title of the alert that resolved this one.
	Resolved string
}

// Record is the work of one agent, for a synthesis.
type Record struct {
	Agent  string
	Model  string
	Status string
	Text   string
}

// System returns the instructions of an agent.
func System(a Agent) string {
	b := &strings.Builder{}
	part := func(name string, data any) {
		if text := render(name, data); text != "" {
			if b.Len() > 0 {
				b.WriteString("\n\n")
			}
			b.WriteString(text)
		}
	}
	if a.Synthesis {
		part("synthesis.md", a)
	} else {
		part("general.md", a)
	}
	now := a.Now.UTC()
	_, week := now.ISOWeek()
	part("clock.md", struct {
		Now, Weekday string
		Week         int
	}{now.Format("2006-01-02 15:04"), now.Weekday().String(), week})
	if a.HasTools {
		part("tools.md", a)
	}
	servers := make([]Server, 0, len(a.Servers))
	for _, s := range a.Servers {
		if s.Error != "" { // it has what the server wrote
			s.Error = Fenced(a.Session, "the error", line(s.Error))
		}
		servers = append(servers, s)
	}
	a.Servers = servers
	part("servers.md", a)
	if a.Instructions != "" {
		b.WriteString("\n\nInstructions for you:\n" + strings.TrimSpace(a.Instructions))
	}
	if a.Concludes {
		part("conclude.md", nil)
	} else if !a.Synthesis {
		part("answer.md", nil)
	}
	return b.String()
}

// First returns the first message of an agent.
func First(t Task) string { return render("task.md", fencedTask(t)) }

// Records returns the first message of a synthesis of the stage.
func Records(t Task, stage string, records []Record) string {
	f := fencedTask(t)
	fenced := make([]Record, 0, len(records))
	for _, r := range records {
		r.Status, r.Text = line(r.Status), Fenced(t.Session, "the record of "+r.Agent, r.Text)
		fenced = append(fenced, r)
	}
	return render("records.md", struct {
		view
		Stage   string
		Records []Record
	}{f, stage, fenced})
}

// view is a task whose texts are fenced.
type view struct {
	Task
	Known []string
}

func fencedTask(t Task) view {
	v := view{Task: t}
	v.Alert = Fenced(t.Session, "the alert", t.Alert)
	for _, k := range t.Known {
		v.Known = append(v.Known, fencedFact(t.Session, k))
	}
	v.Earlier = nil
	for _, e := range t.Earlier {
		v.Earlier = append(v.Earlier, Analysis{Stage: line(e.Stage), Text: Fenced(t.Session, "the analysis", e.Text)})
	}
	v.Missing = nil
	for _, m := range t.Missing {
		v.Missing = append(v.Missing, line(m))
	}
	if t.Runbook != "" {
		v.Runbook = fencedFact(t.Session, Known{ID: RunbookID, Title: "the runbook", Text: t.Runbook})
	}
	if t.AlertType != "" {
		v.AlertType = Fenced(t.Session, "the alert's type", line(t.AlertType))
	}
	if t.RunbookURL != "" {
		v.RunbookURL = Fenced(t.Session, "the runbook's address", line(t.RunbookURL))
	}
	if t.Resolved != "" {
		v.Resolved = fencedTitle(t.Session, t.Resolved)
	}
	return v
}

func fencedFact(session string, k Known) string {
	return Fenced(session, fmt.Sprintf("the fact %s: %s", k.ID, k.Title), k.Text)
}

// Forced returns the message that asks for the final answer. Reason is a clause such as "this
// was your last turn".
func Forced(reason string) string {
	return render("forced.md", struct{ Reason string }{reason})
}

// Empty returns the message that follows an empty answer.
func Empty() string { return render("empty.md", nil) }

// Repeating returns the message that follows an answer that repeated itself.
func Repeating() string { return render("repeating.md", nil) }

// Resolved returns the message that announces that the alert was resolved.
func Resolved(session, title string) string {
	return render("resolved.md", struct{ Title string }{fencedTitle(session, title)})
}

// fencedTitle returns the title of the alert that resolved another one.
func fencedTitle(session, title string) string {
	return Fenced(session, "the title of the resolution", line(title))
}

// Summarize returns the instructions for the summary of a tool's result. The server named the tool.
func Summarize(server, tool string, maxTokens int) string {
	return render("summarize.md", struct {
		Server, Tool string
		MaxTokens    int
	}{server, line(tool), maxTokens})
}

// Result returns the message that has the result of a tool, for a summary.
func Result(session, arguments, result string) string {
	return "The call's arguments:\n" + Fenced(session, "the arguments", arguments) +
		"\n\nThe result:\n" + Fenced(session, "the result", result) + "\n\nWrite the summary now."
}

// Executive returns the instructions for the executive summary.
func Executive() string { return render("executive.md", nil) }

// Final returns the message that has the analysis, for the executive summary.
func Final(session, analysis string) string {
	return Fenced(session, "the analysis", analysis) + "\n\nWrite the summary now."
}

func render(name string, data any) string {
	b := &strings.Builder{}
	if err := parts.ExecuteTemplate(b, name, data); err != nil {
		// The parts and what they are given are fixed, and a golden test renders each.
		panic(fmt.Sprintf("prompt %s: %v", name, err))
	}
	return strings.TrimSpace(b.String())
}

// maxLine bounds a text that stands in a line of ours, outside a fence.
const maxLine = 300

// line returns text as one short line without the characters of a marker.
func line(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = strings.NewReplacer("<<<", "", ">>>", "", "`", "'").Replace(text)
	if r := []rune(text); len(r) > maxLine {
		return string(r[:maxLine])
	}
	return text
}
