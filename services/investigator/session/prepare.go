package session

import (
	"fmt"
	"strings"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/prompt"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/excerpt"
)

// prepare writes the instructions and the first message of an execution.
func (s *Session) prepare(e *execution) {
	e.prepared = true
	p := e.current()
	a := prompt.Agent{
		Name: e.agent.Name, Session: s.ID(), Now: e.stage.started, Instructions: e.agent.Instructions, MaxIterations: e.agent.MaxIterations,
		HasTools: len(e.tools) > 0, Concludes: e.concludes, Synthesis: e.stage.Synthesis,
	}
	if e.lists() {
		failed := map[string]string{}
		for _, l := range e.listed.Servers {
			failed[l.Server] = l.Error
		}
		for _, srv := range e.agent.Servers {
			a.Servers = append(a.Servers, prompt.Server{Name: srv.Name, Instructions: srv.Instructions, Error: failed[srv.Name]})
		}
	}
	task := s.task(p)
	first, partial := prompt.First(task), task.AlertCut
	if e.stage.Synthesis {
		records, cut := s.records(e, share(p, recordsShare))
		first, partial = prompt.Records(task, s.plan.Stages[e.stage.Plan].Name, records), partial || cut
	}
	if e.reads = partial || e.lists(); e.reads {
		e.tools = append(e.tools, model.Tool{Name: excerpt.ToolName, Description: excerpt.ToolDescription, Schema: excerpt.Schema()})
	}
	if e.concludes {
		e.tools = append(e.tools, concludeTool())
	}
	e.system = excerptFenced(prompt.System(a), share(p, systemShare), "the instructions were too long")
	e.say(first)
	e.fixed = len(e.system) + toolBytes(e.tools)
}

func (s *Session) task(p Provider) prompt.Task {
	whole := s.submitted.Data
	data := whole.excerpt(share(p, alertShare), readFrom(alertResult))
	t := prompt.Task{
		Session: s.ID(), AlertType: s.submitted.AlertType, Alert: data, AlertCut: len(data) < whole.Len(),
		Missing: s.gathered.Missing, Resolved: s.resolved, RunbookURL: s.plan.RunbookURL,
		Runbook: Excerpt(s.plan.Runbook, share(p, runbookShare), "the middle was too long"),
	}
	if n := len(s.gathered.Known); n > 0 {
		for _, k := range s.gathered.Known {
			t.Known = append(t.Known, prompt.Known{ID: k.ID, Title: k.Title, Text: Excerpt(k.Text, share(p, knownShare)/n, "the middle was too long")})
		}
	}
	var earlier []*stage
	running := s.current()
	for i, st := range s.completed {
		next := i + 1
		// The result of a synthesis replaces those of the stage before it, whose records the
		// synthesis itself reads.
		if next < len(s.completed) && s.completed[next].Synthesis && s.completed[next].Plan == st.Plan {
			continue
		}
		if running != nil && running.Synthesis && running.Plan == st.Plan {
			continue
		}
		earlier = append(earlier, st)
	}
	for _, st := range earlier {
		t.Earlier = append(t.Earlier, prompt.Analysis{Stage: st.Name, Text: Excerpt(st.result(), share(p, earlierShare)/len(earlier), "the middle was too long")})
	}
	return t
}

// records returns the work of the agents whose stage a synthesis follows, within limit bytes, and
// whether it has a result that is shown in part.
func (s *Session) records(e *execution, limit int) (out []prompt.Record, partial bool) {
	var st *stage
	for _, c := range s.completed {
		if c.Plan == e.stage.Plan && !c.Synthesis {
			st = c
		}
	}
	if st == nil {
		return nil, false
	}
	for _, x := range st.execs {
		status := string(x.status)
		if x.err != "" {
			status += ": " + Head(x.err, 300)
		}
		each := limit / len(st.execs)
		text, cut := s.record(x, each)
		partial = partial || cut
		out = append(out, prompt.Record{Agent: x.agent.Name, Model: x.current().Model, Status: status, Text: Excerpt(text, each, "the middle was too long")})
	}
	return out, partial
}

// record writes down what an agent thought, called, was answered and said, and returns whether a
// result is shown in part. Where the record would be longer than limit, each result is shortened.
func (s *Session) record(e *execution, limit int) (text string, partial bool) {
	text, partial = s.recordWith(e, resultBytes(e.current()))
	if len(text) > limit && len(e.order) > 0 {
		rest := len(text)
		for _, c := range e.order {
			rest -= min(len(c.result.Shown()), resultBytes(e.current()))
		}
		text, partial = s.recordWith(e, max((limit-rest)/len(e.order), shrunk))
	}
	return text, partial
}

func (s *Session) recordWith(e *execution, result int) (record string, partial bool) {
	b := &strings.Builder{}
	if e.listed != nil {
		for _, l := range e.listed.Servers {
			if l.Error != "" {
				fmt.Fprintf(b, "SERVER %s could not be used: %s\n\n", l.Server, Head(l.Error, 300))
			}
		}
	}
	for _, it := range s.models {
		if it.exec != e || it.call != nil {
			continue
		}
		if it.thinking != "" {
			fmt.Fprintf(b, "THINKING\n%s\n\n", it.thinking)
		}
		if it.text != "" {
			fmt.Fprintf(b, "ANSWER\n%s\n\n", it.text)
		}
		for _, mc := range it.calls {
			c := e.byID[mc.ID]
			name := c.Name
			if c.offered != nil {
				name = c.offered.server + "." + c.offered.tool.Name
			}
			fmt.Fprintf(b, "CALL %s %s with %s\n", s.citedID(c), name, Head(c.Arguments, 2000))
			kind := "RESULT"
			if c.isError {
				kind = "ERROR"
			}
			text, hint := c.result, readFrom(s.citedID(c))
			if c.summary != "" { // its first line names the result
				text, hint = Text{Inline: summaryOf(c.result, s.citedID(c), c.summary)}, func(int) string { return "the middle was too long" }
			}
			partial = partial || c.summary != "" || text.Len() > result
			fmt.Fprintf(b, "%s of %s\n%s\n\n", kind, s.citedID(c), text.excerpt(result, hint))
		}
	}
	if e.conclusion != nil && e.answered {
		fmt.Fprintf(b, "CONCLUSION\n%s\n", e.analysis)
	}
	return b.String(), partial
}

// citedID is the id under which other agents see a call: the model's own, or, where agents of
// the session used it for several calls, that of the interaction.
func (s *Session) citedID(c *call) string {
	if s.callIDs[c.ID] > 1 {
		return s.useID(c)
	}
	return c.ID
}

// stored returns the text that read_result reads under an id, and whether there is one: the alert,
// a result of the execution itself, or one of the stages before it. The ids in the records that a
// synthesis was given come before its own.
func (s *Session) stored(e *execution, reading *call, id string) (Text, bool) {
	if id == alertResult {
		return s.submitted.Data, true
	}
	own := e.byID[id]
	if own == reading {
		own = nil
	}
	if own != nil && !e.stage.Synthesis {
		return own.result, own.answered
	}
	var found []*call
	for _, st := range s.completed {
		for _, x := range st.execs {
			for _, c := range x.order {
				if c.answered && (c.ID == id || s.useID(c) == id) {
					found = append(found, c)
				}
			}
		}
	}
	switch {
	case len(found) == 1: // several have an id that no record names
		return found[0].result, true
	case own != nil:
		return own.result, own.answered
	}
	return Text{}, false
}

// sources returns the texts that evidence of the execution may cite, by id: the known facts, the
// runbook, the alert, the execution's own results, and those of the stages before it. A result has
// the id under which this execution saw it: the id of one of its own results never stands for a
// result of another execution. Records and analyses name the others by the id that the model gave,
// or by that of the interaction where the id was taken twice when they were written; both are kept.
func (s *Session) sources(e *execution) map[string][]Text {
	m := map[string][]Text{alertResult: {s.submitted.Data}}
	own := map[string]bool{}
	add := func(id string, c *call) { m[id] = append(m[id], c.result) }
	for _, c := range e.order {
		if c.answered && c.Name != conclusion.ToolName {
			own[c.ID] = true
			add(c.ID, c)
		}
	}
	for _, st := range s.completed {
		for _, x := range st.execs {
			for _, c := range x.order {
				if x == e || !c.answered || c.Name == conclusion.ToolName {
					continue
				}
				add(s.useID(c), c)
				if !own[c.ID] {
					add(c.ID, c)
				}
			}
		}
	}
	if s.plan.Runbook != "" {
		m[prompt.RunbookID] = append(m[prompt.RunbookID], Text{Inline: s.plan.Runbook})
	}
	if s.gathered != nil {
		for _, k := range s.gathered.Known {
			m[k.ID] = append(m[k.ID], Text{Inline: k.Title + "\n" + k.Text})
		}
	}
	return m
}
