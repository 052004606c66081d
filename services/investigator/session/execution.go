package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/prompt"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/excerpt"
)

// The bounds of an execution.
const (
	maxEmpty     = 2  // answers without content that are asked again
	maxTimedOut  = 2  // iterations in a row that may time out before the execution fails, where no provider is left
	maxTurnCalls = 32 // calls of one turn that are made; more are answered with an error
	maxParallel  = 4  // tool calls of one turn side by side
)

// alertResult is the id under which read_result reads the alert's data.
const alertResult = "alert"

// execution is the work of one agent in one stage.
type execution struct {
	id        string
	index     int // from 1
	stage     *stage
	agent     *Agent
	status    Status
	err       string
	concludes bool
	started   time.Time
	ended     time.Time

	providers []Provider // the agent's own, then its fallbacks
	provider  int

	listed  *ToolsListed
	offered map[string]*offered // by the name that the model sees
	tools   []model.Tool

	prepared  bool // system and the first message are there
	reads     bool // read_result is offered
	system    string
	messages  []model.Message // copied before an element changes: requests share it
	bytes     int             // of messages
	fixed     int             // bytes of system and tools
	known     int             // tokens that the provider counted
	knownAt   int             // messages that known covers
	density   float64         // tokens of a byte of the last request, as the provider counted; 0 before
	resolved  bool            // the alert was resolved, and the model does not know it yet
	since     time.Time       // when the iteration began, or was taken over
	iteration string          // the interaction that began it
	ask       *interaction
	turn      []*call // open calls of the last answer, nil between turns
	summing   int     // summaries under way
	compacted int     // results that were replaced since the last answer

	byID       map[string]*call
	order      []*call
	first      map[string]*call // the call to which later ones with the same tool and arguments are referred
	asked      int              // calls of a model in the conversation
	iterations int
	empty      int
	timedOut   int
	late       bool // the open turn timed out
	invalid    int  // conclusions that broke the schema
	forced     string
	failure    *interaction
	resume     time.Time // the provider asks to wait until then
	answered   bool      // the final answer is in analysis
	analysis   string
	conclusion json.RawMessage
	last       *interaction

	usage    model.Usage
	cost     float64
	unpriced bool
}

type offered struct {
	server string
	tool   ListedTool
}

// interaction is one call of a model.
type interaction struct {
	id        string
	exec      *execution // nil for the executive summary
	stage     *stage
	purpose   Purpose
	final     bool
	provider  Provider
	call      *call // whose result is summarized
	epoch     int
	attempts  int
	spent     int // the newest attempt with a [Spent]
	at, began time.Time
	done      bool
	err       string
	usage     model.Usage
	duration  time.Duration
	system    string // as it was sent, with messages, in a request of bytes
	messages  []model.Message
	bytes     int
	summary   func(result string) model.Request // of a summarization
	text      string
	thinking  string
	calls     []model.Call
}

// abort ends a call of a model that has no outcome.
func (it *interaction) abort(reason string, t time.Time) {
	it.done, it.err, it.duration = true, reason, t.Sub(it.began)
}

// call is one tool call of a model.
type call struct {
	model.Call
	exec      *execution
	canonical string
	offered   *offered
	use       *toolUse
	event     *event
	epoch     int // of the worker that calls it; 0 before
	at        time.Time
	answered  bool
	over      bool // more calls than a turn may have
	cut       bool // the answer ended within it
	result    Text
	isError   bool
	err       string
	local     bool // answered without a server
	message   int  // index of its result in the conversation, from 1; 0 before
	sum       *interaction
	sumFailed bool
	summary   string
	compacted bool
	number    int // summaries asked for
}

// toolUse is one interaction with a server.
type toolUse struct {
	id        string
	exec      *execution
	list      bool
	server    string
	tool      string
	arguments json.RawMessage
	call      *call
	err       string
	duration  time.Duration
	done      bool
	at        time.Time
	tools     []ListedTool
}

func (e *execution) current() Provider { return e.providers[e.provider] }

func (e *execution) push(m model.Message) {
	e.messages = append(e.messages, m)
	e.bytes += messageBytes(m)
}

func (e *execution) say(text string) { e.push(model.Message{Role: model.RoleUser, Text: text}) }

// ready reports whether the execution is between turns and may be asked.
func (e *execution) ready() bool {
	return e.prepared && e.ask == nil && len(e.turn) == 0 && !e.answered && !ended(e.status)
}

// settle brings the conversations on after a fact: it writes the first messages, and closes turns
// whose results are complete.
func (s *Session) settle() {
	for _, e := range s.running() {
		if !e.prepared && s.gathered != nil && (e.listed != nil || !e.lists()) {
			s.prepare(e)
		}
		s.closeTurn(e)
		if e.resolved && e.ready() && e.failure == nil {
			e.resolved = false
			e.say(prompt.Resolved(s.ID(), s.resolved))
		}
	}
}

// lists reports whether the execution has servers whose tools are listed first. A synthesis reads
// records and calls no server.
func (e *execution) lists() bool { return !e.stage.Synthesis && len(e.agent.Servers) > 0 }

func (s *Session) applyToolsListed(f *ToolsListed, t time.Time) {
	e := s.executions[f.Execution]
	if e == nil || e.listed != nil || ended(e.status) {
		return
	}
	e.listed = f
	for _, l := range f.Servers {
		tools, changed := s.unchanged(l)
		use := &toolUse{id: l.ID, exec: e, list: true, server: l.Server, err: l.Error, duration: l.Duration, done: true, at: t, tools: tools}
		s.addToolUse(use)
		if l.Error != "" {
			s.note(t, "The server "+l.Server+" can't be used: "+l.Error, map[string]any{"server_name": l.Server, "execution_id": e.id})
			continue
		}
		if len(changed) > 0 {
			s.note(t, changedNote(l.Server, changed), map[string]any{"server_name": l.Server, "execution_id": e.id})
		}
		if missing := e.missing(l); len(missing) > 0 {
			s.note(t, missingNote(l.Server, missing), map[string]any{"server_name": l.Server, "execution_id": e.id})
		}
		for _, tool := range tools {
			name := tool.Tool.Name
			if e.offered[name] != nil || name == conclusion.ToolName || name == excerpt.ToolName {
				continue
			}
			e.offered[name] = &offered{server: l.Server, tool: tool}
			e.tools = append(e.tools, tool.Tool)
		}
	}
}

// definition names a tool of a server.
type definition struct{ server, tool string }

// unchanged returns the tools of a server whose definitions are those that the session saw first,
// and the names of the others. It keeps the definitions that are new to the session.
func (s *Session) unchanged(l Listed) (tools []ListedTool, changed []string) {
	for _, tool := range l.Tools {
		key := definition{l.Server, tool.Name}
		switch first, seen := s.definitions[key]; {
		case !seen:
			s.definitions[key] = tool.Digest
		case first != tool.Digest:
			changed = append(changed, tool.Name)
			continue
		}
		tools = append(tools, tool)
	}
	return tools, changed
}

// changedNote explains that tools of a server are not offered to an execution.
func changedNote(server string, changed []string) string {
	return fmt.Sprintf("The definitions of these tools of %s changed during the session, so they are not used: %s.", server, namedTools(changed))
}

// missing returns the tools that the alert chose, and the server does not offer.
func (e *execution) missing(l Listed) (names []string) {
	for _, server := range e.agent.Servers {
		if server.Name != l.Server {
			continue
		}
		for _, name := range server.Tools {
			if !slices.ContainsFunc(l.Tools, func(t ListedTool) bool { return t.Name == name }) {
				names = append(names, name)
			}
		}
	}
	return names
}

// missingNote explains that an execution lacks tools that the alert chose.
func missingNote(server string, missing []string) string {
	return fmt.Sprintf("The alert chose tools that the server %s does not offer: %s.", server, namedTools(missing))
}

// namedTools lists the names of tools, at most maxNamedTools of them.
func namedTools(names []string) string {
	more := ""
	if len(names) > maxNamedTools {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamedTools)
		names = names[:maxNamedTools]
	}
	return strings.Join(names, ", ") + more
}

func (s *Session) addToolUse(u *toolUse) {
	if s.toolsByID[u.id] == nil {
		s.toolsByID[u.id] = u
		s.tools = append(s.tools, u)
	}
}

func (s *Session) applyAsked(f *ModelAsked, t time.Time) {
	if it := s.interactions[f.ID]; it != nil { // asked again by the next worker
		if !it.done {
			it.began, it.epoch, it.attempts = t, s.epoch, it.attempts+1
			if it.exec != nil && it.exec.ask == it {
				it.exec.since = t
			}
		}
		return
	}
	if s.Ended() {
		return
	}
	it := &interaction{id: f.ID, purpose: f.Purpose, epoch: s.epoch, attempts: 1, at: t, began: t}
	if f.Execution == "" {
		if s.summary.ask != nil || s.summary.over {
			return
		}
		it.provider = s.summaryProvider()
		s.summary.ask = it
	} else {
		e := s.executions[f.Execution]
		if e == nil || ended(e.status) {
			return
		}
		it.exec, it.stage, it.provider = e, e.stage, e.current()
		if f.Purpose == PurposeSummarization {
			c := e.byID[f.CallID]
			if c == nil || c.sum != nil || !c.answered {
				return
			}
			it.call, it.provider = c, s.summarizer(c)
			it.summary = s.summaryRequest(c, it.provider)
			c.sum, c.number = it, c.number+1
			e.summing++
		} else {
			if !e.ready() {
				return
			}
			if f.Reason != "" && e.forced == "" {
				e.forced = f.Reason
				e.say(prompt.Forced(f.Reason))
			}
			e.ask, e.iteration, e.since = it, it.id, t
			e.asked++
			r := e.request(f.Purpose, e.messages[:len(e.messages):len(e.messages)])
			it.system, it.messages, it.bytes = r.System, r.Messages, requestBytes(r)
		}
	}
	s.calls++
	s.interactions[it.id] = it
	s.models = append(s.models, it)
}

func (s *Session) applyStreaming(f *Streaming, t time.Time) {
	it := s.interactions[f.ID]
	if it == nil || it.done || it.purpose == PurposeSummarization || it.exec == nil || it.exec.ask != it {
		return
	}
	s.answerEvent(it, f.Thinking, "", StatusStreaming, t)
}

// answerEvent makes or completes the event of the text, or of the thinking, of an answer.
func (s *Session) answerEvent(it *interaction, thinking bool, text string, status Status, t time.Time) {
	id, kind := ResponseEvent(it.id), EventResponse
	if thinking {
		id, kind = ThinkingEvent(it.id), EventThinking
	}
	ev := s.events[id]
	if ev == nil {
		if text == "" && status != StatusStreaming {
			return
		}
		stageID, execID := "", ""
		if it.exec != nil {
			stageID, execID = it.stage.ID, it.exec.id
		}
		s.addEvent(t, &event{
			id: id, stage: stageID, execution: execID, kind: kind, status: status, content: text,
			metadata: map[string]any{"interaction_id": it.id, "llm_provider": it.provider.Name, "model_name": it.provider.Model},
		})
		return
	}
	if status != StatusStreaming && ev.status == StatusStreaming {
		ev.status, ev.content = status, text
		s.changeEvent(t, ev)
	}
}

func (s *Session) applyAnswered(f *ModelAnswered, t time.Time) {
	it := s.interactions[f.ID]
	if it == nil || it.done {
		return
	}
	it.done, it.duration = true, f.Duration
	it.text, it.thinking = f.Text.Shown(), f.Thinking.Shown()
	s.spend(it, f.Usage.Add(f.FailedUsage))
	e := it.exec
	switch {
	case e == nil:
		s.summaryAnswered(it, t)
		return
	case it.call != nil:
		s.resultSummarized(it, t)
		return
	case e.ask != it:
		return
	}
	e.ask, e.last = nil, it
	e.count(it.bytes, f.Usage)
	s.answerEvent(it, true, it.thinking, StatusCompleted, t)
	s.answerEvent(it, false, it.text, StatusCompleted, t)
	calls := s.newCalls(e, it, f)
	if f.Text.Empty() && len(calls) == 0 && f.Stop == model.StopRefused {
		it.err = "the provider withheld its answer"
		e.failure = it
		return
	}
	e.iterations++
	if len(calls) == 0 && (f.Text.Empty() || f.Cut) {
		e.empty++
		e.timedOut = 0 // it came in time
		if e.empty <= maxEmpty {
			if f.Cut && !f.Text.Empty() {
				s.assistant(e, it, f)
				e.say(prompt.Repeating())
			} else {
				e.say(prompt.Empty())
			}
			return
		}
		if f.Text.Empty() {
			return // Next ends the execution
		}
	} else {
		e.empty = 0
	}
	s.assistant(e, it, f)
	if len(calls) == 0 {
		e.answered, e.analysis, e.timedOut = true, strings.TrimSpace(it.text), 0
		return
	}
	e.turn = calls
}

// assistant adds an answer to the conversation.
func (s *Session) assistant(e *execution, it *interaction, f *ModelAnswered) {
	e.compacted = 0
	e.push(model.Message{Role: model.RoleAssistant, Text: it.text, Calls: it.calls, State: f.State, Provider: it.provider.Name})
	if f.Usage.Input > 0 {
		e.known, e.knownAt = f.Usage.Input+f.Usage.Output, len(e.messages)
	}
}

// newCalls gives the calls of an answer unique ids and their timeline events. A request without
// tools is answered without calls: those of a model that makes some anyway are dropped.
func (s *Session) newCalls(e *execution, it *interaction, f *ModelAnswered) []*call {
	if it.purpose == PurposeForcedConclusion {
		return nil
	}
	var calls []*call
	for i, mc := range f.Calls {
		for n := len(e.order) + 1; mc.ID == "" || e.byID[mc.ID] != nil; n++ {
			mc.ID = "call_" + strconv.Itoa(n)
		}
		c := &call{
			Call: mc, exec: e, offered: e.offered[mc.Name], over: i >= maxTurnCalls,
			canonical: mc.Name + "\x00" + canonical(mc.Arguments),
			cut:       f.Stop == model.StopLength && i == len(f.Calls)-1 && !json.Valid([]byte(mc.Arguments)),
		}
		e.byID[mc.ID] = c
		s.callIDs[mc.ID]++
		e.order = append(e.order, c)
		// Calls that are not made, and one that failed, may be repeated.
		if first := e.first[c.canonical]; (first == nil || first.err != "") && !c.over && !c.cut {
			e.first[c.canonical] = c
		}
		it.calls = append(it.calls, mc)
		calls = append(calls, c)
	}
	return calls
}

// canonical returns JSON in one form, so that equal arguments have equal texts.
func canonical(arguments string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || d.More() {
		return strings.TrimSpace(arguments)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return strings.TrimSpace(arguments)
	}
	return string(b)
}

// callEvent makes the timeline event of a tool call.
func (s *Session) callEvent(c *call, id string, arguments json.RawMessage, t time.Time) {
	if c.event != nil {
		return
	}
	server, tool := "tocsin", c.Name
	switch {
	case c.offered != nil:
		server, tool = c.offered.server, c.offered.tool.Name
	case c.use != nil:
		server, tool = c.use.server, c.use.tool
	}
	var shown any = c.Arguments
	if len(arguments) == 0 && json.Valid([]byte(c.Arguments)) {
		arguments = json.RawMessage(c.Arguments)
	}
	if len(arguments) > 0 {
		shown = arguments
	}
	c.event = s.addEvent(t, &event{
		id: id, stage: c.exec.stage.ID, execution: c.exec.id, kind: EventToolCall, status: StatusStreaming,
		metadata: map[string]any{"server_name": server, "tool_name": tool, "arguments": shown, "call_id": c.ID},
	})
}

// useID is the id of the interaction of a tool call, and of its timeline event.
func (s *Session) useID(c *call) string { return DeriveID(s.ID(), c.exec.id, "call", c.ID) }

func (s *Session) applyToolCalled(f *ToolCalled, t time.Time) {
	e := s.executions[f.Execution]
	if e == nil || ended(e.status) {
		return
	}
	c := e.byID[f.CallID]
	if c == nil || c.answered {
		return
	}
	if c.epoch == 0 {
		s.called++
		c.use = &toolUse{id: f.ID, exec: e, server: f.Server, tool: f.Tool, arguments: f.Arguments, call: c, at: t}
		s.addToolUse(c.use)
		s.callEvent(c, f.ID, f.Arguments, t)
	}
	c.epoch, c.at = s.epoch, t
}

func (s *Session) applyToolAnswered(f *ToolAnswered, t time.Time) {
	e := s.executions[f.Execution]
	if e == nil || ended(e.status) {
		return
	}
	if c := e.byID[f.CallID]; c != nil {
		s.answerCall(c, f, t)
	}
}

func (s *Session) answerCall(c *call, f *ToolAnswered, t time.Time) {
	if c.answered {
		return
	}
	c.answered, c.result, c.isError, c.err = true, f.Result, f.IsError || f.Error != "", f.Error
	c.local = c.epoch == 0
	if c.result.Empty() && c.err != "" {
		c.result = Text{Inline: c.err}
	}
	if c.use != nil {
		c.use.done, c.use.err, c.use.duration = true, c.err, f.Duration
	}
	s.callEvent(c, s.useID(c), nil, t)
	c.event.content = Head(c.result.Shown(), maxEventResult)
	c.event.metadata = maps.Clone(c.event.metadata) // views share it
	c.event.metadata["is_error"] = c.isError
	c.event.status = StatusCompleted
	if c.isError {
		c.event.status = StatusFailed
	}
	s.changeEvent(t, c.event)
}

func (s *Session) applyConcluded(f *Concluded, t time.Time) {
	e := s.executions[f.Execution]
	if e == nil || ended(e.status) {
		return
	}
	c := e.byID[f.CallID]
	if c == nil || c.answered || c.Name != conclusion.ToolName {
		return
	}
	if len(f.Conclusion) > 0 {
		s.answerCall(c, &ToolAnswered{Result: Text{Inline: "The conclusion is stored."}}, t)
		if len(f.Unread) > 0 {
			s.note(t, unreadNote(f.Unread), map[string]any{"execution_id": e.id, "call_ids": f.Unread})
		}
		e.answered, e.analysis, e.conclusion, e.timedOut = true, f.Markdown, f.Conclusion, 0
		return
	}
	s.answerCall(c, &ToolAnswered{Error: f.Error, IsError: true}, t)
	e.invalid++
	if e.invalid < 2 {
		return
	}
	e.answered = true
	e.analysis = strings.TrimSpace(e.last.text)
	if e.analysis == "" {
		e.analysis = c.Arguments
	}
}

// closeTurn adds the results of a turn to the conversation once each call has one, in the order
// of the calls.
func (s *Session) closeTurn(e *execution) {
	if len(e.turn) == 0 {
		return
	}
	for _, c := range e.turn {
		if !c.answered || s.wantsSummary(c) {
			return
		}
	}
	limit := resultBytes(e.current())
	for _, c := range e.turn {
		var text string
		if c.summary != "" {
			text = summaryOf(c.result, c.ID, c.summary)
		} else {
			shown := limit
			if c.result.Len() > limit {
				shown -= fenceBytes
			}
			text = c.result.excerpt(shown, readFrom(c.ID))
			if text == "" {
				text = "(an empty result)"
			}
		}
		c.message = len(e.messages) + 1
		e.push(model.Message{Role: model.RoleTool, Text: s.fenced(c, text), CallID: c.ID, ToolName: c.Name, IsError: c.isError})
	}
	if !e.late {
		e.timedOut = 0
	}
	e.turn, e.late = nil, false
}

// fenced returns what a model is shown of the result of a call: between the lines of a fence, but
// for an answer that the engine composed itself.
func (s *Session) fenced(c *call, text string) string {
	if c.local && (c.Name != excerpt.ToolName || c.offered != nil) {
		return text
	}
	return prompt.Fenced(s.ID(), "the result", text)
}

// readFrom is the hint in a result that is shown in part.
func readFrom(id string) func(offset int) string {
	return func(offset int) string {
		return fmt.Sprintf("%s with the id %q and the offset %d reads on from here", excerpt.ToolName, id, offset)
	}
}

// errIteration is the error of calls whose iteration timed out.
const errIteration = "no result: the turn took longer than it may"

// wantsSummary reports whether a summary has to replace a new result first.
func (s *Session) wantsSummary(c *call) bool {
	if c.message > 0 || c.local || c.isError || c.sumFailed || c.summary != "" {
		return false
	}
	if c.sum != nil {
		return true
	}
	set := c.summarization()
	return set != nil && c.result.Len()/bytesPerToken > set.Threshold && s.budget() == ""
}

// nextSummary returns the result of the open turn that is being summarized, or the first one that
// waits for its summary; nil where there is none. An execution has one call of a model under way at
// a time, so that the limits are checked before each.
func (s *Session) nextSummary(e *execution) *call {
	var first *call
	for _, c := range e.turn {
		switch {
		case c.sum != nil:
			return c
		case first == nil && c.answered && s.wantsSummary(c):
			first = c
		}
	}
	return first
}

func (c *call) summarization() *Summarization {
	if c.offered == nil {
		return nil
	}
	for i := range c.exec.agent.Servers {
		if srv := &c.exec.agent.Servers[i]; srv.Name == c.offered.server {
			return srv.Summarization
		}
	}
	return nil
}

// summarizer is the provider that summarizes the result of a call.
func (s *Session) summarizer(c *call) Provider {
	if set := c.summarization(); set != nil {
		return set.Provider
	}
	return c.exec.current()
}

func (s *Session) resultSummarized(it *interaction, t time.Time) {
	c := it.call
	c.sum = nil
	it.exec.summing--
	text := strings.TrimSpace(it.text)
	if text == "" {
		s.summaryFailed(c)
		return
	}
	text = Excerpt(text, summaryTokens(c)*bytesPerToken*2, "the summary was longer")
	summary := text
	text = summaryOf(c.result, c.ID, summary)
	server, tool := "", c.Name
	if c.offered != nil {
		server, tool = c.offered.server, c.offered.tool.Name
	}
	s.addEvent(t, &event{
		id: DeriveID(it.id, "summary"), stage: it.stage.ID, execution: it.exec.id, kind: EventToolSummary, content: text,
		metadata: map[string]any{"server_name": server, "tool_name": tool, "call_id": c.ID, "interaction_id": it.id},
	})
	if c.message > 0 {
		it.exec.replace(c, s.fenced(c, text))
		return
	}
	c.summary = summary
}

// summaryOf returns what models read instead of the result of a call. The id is the call's.
func summaryOf(result Text, id, summary string) string {
	return fmt.Sprintf("[Summary of a result of %d bytes; %s with the id %q reads it whole.]\n%s", result.Len(), excerpt.ToolName, id, summary)
}

// summaryFailed leaves a result at its head and tail.
func (s *Session) summaryFailed(c *call) {
	c.sumFailed = true
	if c.message > 0 {
		c.exec.replace(c, excerptFenced(c.exec.messages[c.message-1].Text, compactTokens*bytesPerToken, fmt.Sprintf("read_result with the id %q reads the rest", c.ID)))
	}
}

// replace shortens the result of a call in the conversation. Requests that were sent keep theirs.
func (e *execution) replace(c *call, text string) {
	e.messages = slices.Clone(e.messages)
	m := &e.messages[c.message-1]
	if len(text) < len(m.Text) {
		e.bytes -= len(m.Text) - len(text)
		m.Text = text
	}
	c.compacted = true
	e.compacted++
	e.known, e.knownAt = 0, 0
}

func (s *Session) applyModelFailed(f *ModelFailed, t time.Time) {
	it := s.interactions[f.ID]
	if it == nil || it.done {
		return
	}
	it.done, it.err, it.duration = true, f.Error, f.Duration
	if f.Usage != (model.Usage{}) {
		s.spend(it, f.Usage)
	}
	e := it.exec
	switch {
	case e == nil:
		switch {
		case s.summary.ask != it:
		case s.waits(it, f, s.summary.provider < len(s.plan.Fallbacks), t):
			s.summary.ask, s.summary.resume = nil, f.RetryAt
			s.summary.waits++
		default:
			s.summary.ask, s.summary.failed = nil, it
		}
	case it.call != nil:
		it.call.sum = nil
		e.summing--
		s.summaryFailed(it.call)
	case e.ask == it:
		e.ask, e.last = nil, it
		s.answerEvent(it, true, "", StatusFailed, t)
		s.answerEvent(it, false, "", StatusFailed, t)
		if s.waits(it, f, e.provider+1 < len(e.providers), t) {
			e.resume, e.timedOut = f.RetryAt, 0
		} else {
			e.failure = it
		}
	}
}

// waits reports whether the session waits until the provider of a failed call may be asked again:
// where there is no next provider, and that time comes before the session's own end. It notes it.
func (s *Session) waits(it *interaction, f *ModelFailed, next bool, t time.Time) bool {
	if f.RetryAt.IsZero() || next || s.plan.Timeout > 0 && !f.RetryAt.Before(s.started.Add(s.plan.Timeout)) {
		return false
	}
	metadata := map[string]any{"llm_provider": it.provider.Name}
	if it.exec != nil {
		metadata["execution_id"] = it.exec.id
	}
	s.note(t, fmt.Sprintf("%s asks to wait, and is asked again at %s: %s", it.provider.Name, f.RetryAt.UTC().Format(time.RFC3339), f.Error), metadata)
	return true
}

func (s *Session) applyFellBack(f *FellBack, t time.Time) {
	stageID := ""
	if f.Execution == "" {
		if s.summary.failed == nil || s.summary.provider >= len(s.plan.Fallbacks) {
			return
		}
		s.summary.provider++
		s.summary.failed = nil
	} else {
		e := s.executions[f.Execution]
		if e == nil || e.failure == nil || e.provider+1 >= len(e.providers) || ended(e.status) {
			return
		}
		e.provider++
		e.timedOut = min(e.timedOut, maxTimedOut-1) // the next provider is asked before the execution fails
		e.failure, e.known, e.knownAt = nil, 0, 0
		stageID = e.stage.ID
	}
	s.ordinals++
	s.addEvent(t, &event{
		id: DeriveID(s.ID(), "fallback", strconv.Itoa(s.ordinals)), stage: stageID, execution: f.Execution, kind: EventFallback,
		content:  fmt.Sprintf("%s failed: %s. %s goes on.", f.From, f.Reason, f.To),
		metadata: map[string]any{"from": f.From, "to": f.To, "reason": f.Reason},
	})
}

func (s *Session) applyTimedOut(f *TimedOut, t time.Time) {
	it := s.interactions[f.ID]
	if it == nil {
		return
	}
	late := "it took longer than " + s.plan.IterationTimeout.String()
	if f.Execution == "" || it.call != nil {
		if it.done {
			return
		}
		s.applyModelFailed(&ModelFailed{ID: f.ID, Error: late, Duration: t.Sub(it.began)}, t)
		if it == s.summary.failed && s.summary.provider >= len(s.plan.Fallbacks) {
			s.summary.failed, s.summary.over, s.summary.err = nil, true, "the executive summary: "+late
		}
		if it.call != nil && it.call.message > 0 { // the others would take as long
			for c := it.exec.compactable(); c != nil && c.sum == nil; c = it.exec.compactable() {
				s.summaryFailed(c)
			}
		}
		return
	}
	e := it.exec
	if e == nil || ended(e.status) || e.iteration != f.ID || (e.ask == nil && len(e.turn) == 0) {
		return
	}
	// Where the results are there and their summaries are late, the iteration came in time.
	open := slices.ContainsFunc(e.turn, func(c *call) bool { return !c.answered })
	if e.ask == it || open {
		e.timedOut++
	}
	if e.ask == it {
		it.abort(late, t)
		e.ask, e.last = nil, it
		e.iterations++
		s.answerEvent(it, true, "", StatusTimedOut, t)
		s.answerEvent(it, false, "", StatusTimedOut, t)
		if e.provider+1 < len(e.providers) {
			e.failure = it // the next provider is asked
		}
		return
	}
	e.late = open
	for _, c := range e.turn {
		if c.sum != nil {
			c.sum.abort(late, t)
			c.sum = nil
			e.summing--
		}
		if c.answered {
			c.sumFailed = true
			continue
		}
		s.answerCall(c, &ToolAnswered{Error: errIteration, IsError: true, Duration: t.Sub(e.since)}, t)
		c.event.status = StatusTimedOut
	}
}

func (s *Session) applyExecutionEnded(f *ExecutionEnded, t time.Time) {
	e := s.executions[f.Execution]
	if e == nil || ended(e.status) || !ended(f.Status) || e.stage != s.current() {
		return
	}
	if f.Status == StatusCompleted {
		e.analysis = f.Analysis.Shown()
		if e.concludes && e.conclusion == nil {
			e.conclusion = proseConclusion()
		}
		if e.last != nil && e.last.purpose == PurposeIteration {
			e.last.final = true
		}
	}
	s.endExecution(e, f.Status, f.Error, t)
	if f.Status == StatusCompleted {
		metadata := map[string]any{"agent_name": e.agent.Name}
		if e.forced != "" {
			metadata["forced_conclusion"] = e.forced
		}
		s.addEvent(t, &event{id: DeriveID(e.id, "final"), stage: e.stage.ID, execution: e.id, kind: EventFinalAnalysis, content: e.analysis, metadata: metadata})
	}
}

func (s *Session) endExecution(e *execution, status Status, text string, t time.Time) {
	e.status, e.err, e.ended = status, text, t
	reason := "the execution ended: " + string(status)
	if e.ask != nil {
		e.ask.abort(reason, t)
		e.ask = nil
	}
	for _, c := range e.order {
		if c.sum != nil {
			c.sum.abort(reason, t)
			c.sum = nil
			e.summing--
		}
		if c.use != nil && !c.use.done {
			c.use.done, c.use.err, c.use.duration = true, reason, t.Sub(c.at)
		}
	}
	s.closeEvents(e, status, t)
	if status == StatusFailed || status == StatusTimedOut {
		s.addEvent(t, &event{id: DeriveID(e.id, "error"), stage: e.stage.ID, execution: e.id, kind: EventError, status: status, content: text})
	}
}

func (s *Session) summaryProvider() Provider {
	if s.summary.provider == 0 {
		return s.plan.Summary
	}
	return s.plan.Fallbacks[s.summary.provider-1]
}

func (s *Session) summaryAnswered(it *interaction, t time.Time) {
	if s.summary.ask != it || s.Ended() {
		return
	}
	s.summary.ask = nil
	text := strings.TrimSpace(it.text)
	if text == "" {
		it.err = "the answer was empty"
		s.summary.failed = it
		return
	}
	s.summary.text, s.summary.over = text, true
	s.addEvent(t, &event{
		id: DeriveID(s.ID(), "executive_summary", strconv.Itoa(s.attempt)), kind: EventExecutiveSummary, content: text,
		metadata: map[string]any{"interaction_id": it.id, "llm_provider": it.provider.Name, "model_name": it.provider.Model},
	})
}
