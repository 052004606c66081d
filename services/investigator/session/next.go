package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/prompt"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/arguments"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/excerpt"
)

// maxNamedTools bounds the tools that the answer to an unknown one names.
const maxNamedTools = 30

// Next returns what is due. It changes nothing, and does no I/O.
func Next(s *Session, now time.Time) Due {
	d := &due{s: s, now: now}
	switch {
	case s.plan == nil || s.Ended():
	case s.cancel != nil:
		d.end(StatusCancelled, s.cancel.Reason)
	case s.status == StatusPending:
	case s.takeovers >= maxTakeovers:
		d.end(StatusFailed, fmt.Sprintf("the process ended %d times at the same step: %s", maxTakeovers, s.step()))
	case s.plan.Timeout > 0 && !now.Before(s.started.Add(s.plan.Timeout)):
		text := "the session took longer than " + s.plan.Timeout.String()
		if s.concluded() { // a late summary does not lose what was found
			d.fact(Fact{Ended: &Ended{Status: StatusCompleted, SummaryError: "not written: " + text}})
		} else {
			d.end(StatusTimedOut, text)
		}
	default:
		if s.plan.Timeout > 0 {
			d.wake(s.started.Add(s.plan.Timeout))
		}
		d.session()
	}
	if len(d.facts) > 0 {
		return Due{Facts: d.facts}
	}
	return Due{Effects: d.effects, Wake: d.at}
}

// Cancel returns the facts that cancel the session: none where it is being cancelled already.
// A session that no worker has claimed ends at once.
func Cancel(s *Session, by, reason string) ([]Fact, error) {
	switch {
	case s.plan == nil || s.Ended():
		return nil, ErrEnded
	case s.cancel != nil:
		return nil, nil
	}
	facts := []Fact{{CancelRequested: &CancelRequested{By: by, Reason: reason}}}
	if s.status == StatusPending {
		facts = append(facts, Fact{Ended: &Ended{Status: StatusCancelled, Error: reason}})
	}
	return facts, nil
}

// Retry returns the facts that make an ended session pending again.
func Retry(s *Session, by string, plan Plan) ([]Fact, error) {
	if !s.Ended() || s.status == StatusCompleted {
		return nil, ErrNotRetryable
	}
	return []Fact{{Retried: &Retried{By: by, Plan: plan}}}, nil
}

// Resolve returns the facts that follow from the end of the session's alert: none where the
// session knows it or has ended. A queued session is cancelled.
func Resolve(s *Session, alertID, title string) []Fact {
	if s.plan == nil || s.Ended() || s.resolved != "" {
		return nil
	}
	facts := []Fact{{AlertResolved: &AlertResolved{Alert: alertID, Title: title}}}
	if s.status == StatusPending {
		reason := "the alert was resolved before the investigation started"
		if title != "" {
			reason += ": " + title
		}
		facts = append(facts, Fact{CancelRequested: &CancelRequested{By: "trigger", Reason: reason}}, Fact{Ended: &Ended{Status: StatusCancelled, Error: reason}})
	}
	return facts
}

// due collects what is due in one state.
type due struct {
	s       *Session
	now     time.Time
	facts   []Fact
	effects []Effect
	calls   int // tool calls among effects that no fact counts yet
	at      time.Time
}

func (d *due) wake(t time.Time) {
	if d.at.IsZero() || t.Before(d.at) {
		d.at = t
	}
}

func (d *due) fact(f Fact) {
	f.Time = d.now
	d.facts = append(d.facts, f)
}

// end ends the session and what runs in it.
func (d *due) end(status Status, text string) {
	for _, e := range d.s.running() {
		d.fact(Fact{ExecutionEnded: &ExecutionEnded{Execution: e.id, Status: status, Error: text}})
	}
	if st := d.s.current(); st != nil {
		d.fact(Fact{StageEnded: &StageEnded{ID: st.ID, Status: status, Error: text}})
	}
	d.fact(Fact{Ended: &Ended{Status: status, Error: text}})
}

func (d *due) session() {
	s := d.s
	if s.gathered == nil {
		d.effects = append(d.effects, Effect{Key: "gather/" + strconv.Itoa(s.attempt), Gather: &Gather{}})
	}
	if st := s.current(); st != nil {
		d.stage(st)
		return
	}
	n := len(s.completed)
	switch {
	case s.failed() != nil:
		st := s.failed()
		d.fact(Fact{Ended: &Ended{Status: st.status, Error: fmt.Sprintf("the stage %q failed: %s", st.Name, st.err)}})
	case !s.concluded():
		d.startStage(s.slots[n], n+1)
	default:
		d.summarize()
	}
}

// concluded reports whether no stage is left: only the executive summary is missing.
func (s *Session) concluded() bool {
	n := len(s.completed)
	return s.current() == nil && s.failed() == nil &&
		(n == len(s.slots) || n > 0 && s.limited() != "" && !s.slots[n].synthesis)
}

// failed returns the stage that ended the chain since the last retry, or nil.
func (s *Session) failed() *stage {
	if n := len(s.stages); n > 0 && s.stages[n-1].status != StatusCompleted && !s.stages[n-1].superseded {
		return s.stages[n-1]
	}
	return nil
}

func (d *due) startStage(sl slot, index int) {
	s := d.s
	id := DeriveID(s.ID(), "stage", strconv.Itoa(index), strconv.Itoa(s.attempt))
	f := &StageStarted{ID: id, Index: index, Name: sl.name, Plan: sl.plan, Synthesis: sl.synthesis}
	for i := range s.agents(sl.plan, sl.synthesis) {
		f.Executions = append(f.Executions, DeriveID(id, "execution", strconv.Itoa(i+1)))
	}
	if len(f.Executions) == 0 {
		d.end(StatusFailed, fmt.Sprintf("the stage %q has no agents", sl.name))
		return
	}
	d.fact(Fact{StageStarted: f})
}

func (d *due) stage(st *stage) {
	open := 0
	for _, e := range st.execs {
		if !ended(e.status) {
			open++
			d.execution(e)
		}
	}
	if open > 0 || len(d.facts) > 0 {
		return
	}
	f := &StageEnded{ID: st.ID, Status: StatusCompleted}
	var failed []string
	for _, e := range st.execs {
		if e.status != StatusCompleted {
			failed = append(failed, e.agent.Name+": "+e.err)
		}
	}
	if len(failed) == len(st.execs) || (len(failed) > 0 && st.policy == All) {
		f.Status = StatusFailed
		f.Error = strings.Join(failed, "; ")
		if len(st.execs) > 1 {
			f.Error = fmt.Sprintf("%d of %d agents failed: %s", len(failed), len(st.execs), f.Error)
		} else {
			f.Error = st.execs[0].err
		}
	}
	d.fact(Fact{StageEnded: f})
}

func (d *due) execution(e *execution) {
	s := d.s
	fail := func(text string) {
		d.fact(Fact{ExecutionEnded: &ExecutionEnded{Execution: e.id, Status: StatusFailed, Error: text}})
	}
	switch {
	case e.listed == nil && e.lists():
		ids := make([]string, len(e.agent.Servers))
		for i, srv := range e.agent.Servers {
			ids[i] = DeriveID(e.id, "list", srv.Name)
		}
		d.effects = append(d.effects, Effect{Key: "list/" + e.id, List: &ListTools{Execution: e.id, Servers: e.agent.Servers, IDs: ids}})
	case !e.prepared: // until it is gathered
	case e.answered:
		text := e.analysis
		if e.forced != "" && strings.HasPrefix(e.forced, "the session reached") {
			text += stoppedEarly + e.forced + "._"
		}
		t, store := NewText(text)
		if store { // an answer is bounded by the output of its model
			t = Text{Inline: Excerpt(text, MaxInline, "it was too long")}
		}
		d.fact(Fact{ExecutionEnded: &ExecutionEnded{Execution: e.id, Status: StatusCompleted, Analysis: t}})
	case e.failure != nil:
		if e.provider+1 < len(e.providers) {
			d.fact(Fact{FellBack: &FellBack{Execution: e.id, From: e.current().Name, To: e.providers[e.provider+1].Name, Reason: e.failure.err}})
			return
		}
		fail(fmt.Sprintf("the provider %s: %s", e.current().Name, e.failure.err))
	case e.empty > maxEmpty:
		fail(fmt.Sprintf("the model gave an empty answer %d times in a row", e.empty))
	case e.timedOut >= maxTimedOut && e.ask == nil && len(e.turn) == 0:
		fail(fmt.Sprintf("%d iterations in a row took longer than %s", e.timedOut, s.plan.IterationTimeout))
	case e.ask == nil && len(e.turn) == 0 && d.now.Before(e.resume):
		d.wake(e.resume)
	case d.late(e):
	case e.ask != nil:
		d.ask(e, e.ask.purpose, e.ask.id, e.ask, "")
	case len(e.turn) > 0:
		d.turn(e)
	default:
		d.ready(e)
	}
}

// late stores that an iteration, or a summary of an older result, took too long.
func (d *due) late(e *execution) bool {
	limit := d.s.plan.IterationTimeout
	if limit <= 0 {
		return false
	}
	over := func(id string, since time.Time) bool {
		if at := since.Add(limit); d.now.Before(at) {
			d.wake(at)
			return false
		}
		d.fact(Fact{TimedOut: &TimedOut{Execution: e.id, ID: id}})
		return true
	}
	if e.ask != nil && e.ask.epoch == d.s.epoch || len(e.turn) > 0 {
		return over(e.iteration, e.since)
	}
	if e.summing > 0 {
		for _, c := range e.order {
			if c.sum != nil && c.sum.epoch == d.s.epoch && over(c.sum.id, c.sum.began) {
				return true
			}
		}
	}
	return false
}

// ready decides on an execution between turns.
func (d *due) ready(e *execution) {
	s := d.s
	reason := e.forced
	if reason == "" {
		reason = s.limited()
	}
	if reason == "" && e.agent.MaxIterations > 0 && e.iterations >= e.agent.MaxIterations {
		reason = fmt.Sprintf("these were your %d turns", e.agent.MaxIterations)
	}
	if c := e.compactable(); c != nil && (c.sum != nil || s.budget() == "") {
		d.summary(c)
		return
	}
	purpose := PurposeIteration
	switch {
	case reason != "":
		purpose = PurposeForcedConclusion
	case e.stage.Synthesis:
		purpose = PurposeSynthesis
	}
	d.ask(e, purpose, DeriveID(e.id, "model", strconv.Itoa(e.asked+1)), nil, reason)
}

// ask adds the call of a model in the conversation of the execution.
func (d *due) ask(e *execution, purpose Purpose, id string, it *interaction, reason string) {
	p := e.current()
	msgs := e.messages[:len(e.messages):len(e.messages)]
	if it == nil && purpose == PurposeForcedConclusion && e.forced == "" {
		msgs = append(msgs, model.Message{Role: model.RoleUser, Text: prompt.Forced(reason)})
	}
	a := &Ask{
		ID: id, Execution: e.id, Purpose: purpose, Provider: p, Last: e.provider+1 >= len(e.providers), Attempt: 1,
		Request: e.request(purpose, msgs),
	}
	f := Fact{ModelAsked: &ModelAsked{ID: id, Execution: e.id, Purpose: purpose, Provider: p.Name, Model: p.Model}}
	if e.forced == "" {
		f.ModelAsked.Reason = reason
	}
	d.effects = append(d.effects, d.model(a, f, it))
}

// model completes the effect of a model call: what is stored before it, and its deadline.
func (d *due) model(a *Ask, f Fact, it *interaction) Effect {
	eff := Effect{Key: "ask/" + a.ID, Ask: a}
	began := d.now
	if it != nil {
		a.Attempt = it.attempts
		began = it.began
	}
	if it == nil || it.epoch != d.s.epoch {
		eff.Before = []Fact{f}
		began = d.now
		if it != nil {
			a.Attempt++
		}
	}
	if limit := d.s.plan.IterationTimeout; limit > 0 {
		eff.Deadline = began.Add(limit)
	}
	return eff
}

// summary adds the call of a model that summarizes a result.
func (d *due) summary(c *call) {
	s, e, p := d.s, c.exec, d.s.summarizer(c)
	if c.sum != nil {
		p = c.sum.provider
	}
	id := DeriveID(e.id, "summary", c.ID, strconv.Itoa(c.number+1))
	if c.sum != nil {
		id = c.sum.id
	}
	a := &Ask{ID: id, Execution: e.id, Purpose: PurposeSummarization, Provider: p, Last: true, Attempt: 1}
	request := s.summaryRequest(c, p)
	a.Request = request(c.result.Shown())
	if c.result.Object != "" {
		source := c.result
		a.Source, a.source = &source, request
	}
	f := Fact{ModelAsked: &ModelAsked{ID: id, Execution: e.id, Purpose: PurposeSummarization, Provider: p.Name, Model: p.Model, CallID: c.ID}}
	d.effects = append(d.effects, d.model(a, f, c.sum))
}

// summaryTokens is how long the summary of a result may be.
func summaryTokens(c *call) int {
	if set := c.summarization(); set != nil && set.MaxTokens > 0 && c.message == 0 {
		return set.MaxTokens
	}
	return compactTokens
}

// summaryShare is the share of its window in percent that a result to summarize may have.
const summaryShare = 60

// maxArguments is how many bytes of a call's arguments its summary is asked with.
const maxArguments = 4096

// summaryRequest returns what makes the request of a summary from a result. It may be called while
// the session changes.
func (s *Session) summaryRequest(c *call, p Provider) func(text string) model.Request {
	server, tool := "tocsin", c.Name
	if c.offered != nil {
		server, tool = c.offered.server, c.offered.tool.Name
	}
	id, args, limit := s.ID(), Head(c.Arguments, maxArguments), room(p, c.exec.density)
	system := prompt.Summarize(server, tool, summaryTokens(c))
	return func(text string) model.Request {
		text = Excerpt(text, share(p, summaryShare), "the middle was too long")
		return fit(model.Request{
			System:          system,
			Messages:        []model.Message{{Role: model.RoleUser, Text: prompt.Result(id, args, text)}},
			MaxOutputTokens: maxOutput(p),
		}, limit)
	}
}

// turn decides on the calls of a turn.
func (d *due) turn(e *execution) {
	s := d.s
	open := 0
	if c := s.nextSummary(e); c != nil {
		d.summary(c)
	}
	for _, c := range e.turn {
		if c.answered {
			continue
		}
		if c.epoch == 0 {
			if text, bad := d.refusal(e, c, s.spent().calls+d.calls); text != "" {
				d.fact(Fact{ToolAnswered: &ToolAnswered{Execution: e.id, CallID: c.ID, Result: Text{Inline: text}, IsError: bad}})
				continue
			}
		}
		switch {
		case c.Name == conclusion.ToolName && e.concludes:
			d.effects = append(d.effects, Effect{Key: "check/" + e.id + "/" + c.ID, Check: &CheckConclusion{
				Execution: e.id, CallID: c.ID, Arguments: c.Arguments, Sources: s.sources(e),
			}})
		case c.Name == excerpt.ToolName && c.offered == nil:
			d.read(e, c)
		case c.offered == nil, c.epoch != 0 && c.epoch != s.epoch && !c.offered.tool.Repeatable: // the first: an earlier version called it
			d.fact(Fact{ToolAnswered: &ToolAnswered{Execution: e.id, CallID: c.ID, IsError: true, Error: "unknown: the process ended during the call"}})
		case open < maxParallel:
			open++
			if c.epoch == 0 {
				d.calls++
			}
			d.call(e, c)
		}
	}
}

func (d *due) call(e *execution, c *call) {
	s := d.s
	args, err := arguments.Parse(c.Arguments)
	if err != nil { // refused before
		return
	}
	id := s.useID(c)
	eff := Effect{Key: "call/" + id, Call: &CallTool{
		Execution: e.id, ID: id, CallID: c.ID, Server: c.offered.server, Tool: c.offered.tool, Arguments: args, Timeout: s.plan.ToolTimeout,
	}}
	began := c.at
	if c.epoch != s.epoch {
		began = d.now
		eff.Before = []Fact{{ToolCalled: &ToolCalled{
			Execution: e.id, ID: id, CallID: c.ID, Server: c.offered.server, Tool: c.offered.tool.Name, Arguments: args, Repeatable: c.offered.tool.Repeatable,
		}}}
	}
	if s.plan.ToolTimeout > 0 {
		eff.Deadline = began.Add(s.plan.ToolTimeout)
	}
	// The iteration's own end is no deadline of the call: the call would have an outcome then, which
	// may be stored before [TimedOut], and the iteration would not count as one that timed out.
	d.effects = append(d.effects, eff)
}

// refusal returns the answer to a call that is not made, and whether it is an error.
func (d *due) refusal(e *execution, c *call, calls int) (text string, bad bool) {
	switch {
	case c.over:
		return fmt.Sprintf("Not called: a turn has at most %d calls. Call it in your next turn if you still need it.", maxTurnCalls), true
	case c.cut:
		return "Not called: your answer reached its bound of tokens within the arguments, so they are incomplete. Call it again with shorter arguments.", true
	case c.Name == conclusion.ToolName && e.concludes:
		if len(e.turn) > 1 {
			return "Not accepted: `conclude` is your final answer and has to be called alone. Read the results of the other calls first.", true
		}
		return "", false
	case c.Name == excerpt.ToolName && c.offered == nil && e.reads:
	case c.offered == nil:
		return unknownTool(e, c.Name), true
	}
	if first := e.first[c.canonical]; first != c && (first.err == "" || !first.answered) {
		return fmt.Sprintf("Not called again: you made the same call before, with the id %q. Its result stands there.", first.ID), false
	}
	if _, err := arguments.Parse(c.Arguments); err != nil {
		return "Not called: the arguments can't be read: " + err.Error() + ". Send them as a JSON object that follows the tool's schema.", true
	}
	if limit := d.s.plan.Limits.MaxToolCalls; limit > 0 && calls >= limit && c.offered != nil {
		return fmt.Sprintf("Not called: the session reached its limit of %d tool calls.", limit), true
	}
	return "", false
}

func unknownTool(e *execution, name string) string {
	var names []string
	for _, t := range e.tools {
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return fmt.Sprintf("There is no tool %q, and no other either. Answer with what you know.", name)
	}
	slices.Sort(names)
	more := ""
	if len(names) > maxNamedTools {
		more = fmt.Sprintf(" and %d more", len(names)-maxNamedTools)
		names = names[:maxNamedTools]
	}
	return fmt.Sprintf("There is no tool %q. The tools are: %s%s.", name, strings.Join(names, ", "), more)
}

// read answers a call of read_result, whose text may be an object.
func (d *due) read(e *execution, c *call) {
	answer := func(text string) {
		d.fact(Fact{ToolAnswered: &ToolAnswered{Execution: e.id, CallID: c.ID, Result: Text{Inline: text}, IsError: true}})
	}
	raw, err := arguments.Parse(c.Arguments)
	if err != nil {
		answer("The arguments can't be read: " + err.Error())
		return
	}
	var args struct {
		ID     string `json:"id"`
		Offset int    `json:"offset"`
		Search string `json:"search"`
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		answer("The arguments don't follow the schema: " + err.Error())
		return
	}
	text, ok := d.s.stored(e, c, args.ID)
	if !ok {
		answer(fmt.Sprintf("There is no result with the id %q.", args.ID))
		return
	}
	d.effects = append(d.effects, Effect{Key: "read/" + e.id + "/" + c.ID, Read: &ReadResult{
		Execution: e.id, CallID: c.ID, Text: text, Offset: args.Offset, Search: args.Search, limit: resultBytes(e.current()),
	}})
}

// Answer returns the fact that ends the effect. Text is the whole text of r.Text.
func (r *ReadResult) Answer(text string, at time.Time) Fact {
	out := Excerpt(excerpt.Read(text, r.Offset, r.Search), r.limit, "read less at once")
	return Fact{Time: at, ToolAnswered: &ToolAnswered{Execution: r.Execution, CallID: r.CallID, Result: Text{Inline: out}}}
}

// summarize decides on the executive summary, and ends the session.
func (d *due) summarize() {
	s, sum := d.s, &d.s.summary
	end := func(text string) {
		d.fact(Fact{Ended: &Ended{Status: StatusCompleted, SummaryError: text}})
	}
	switch reason := s.budget(); {
	case sum.over:
		end(sum.err)
	case sum.ask != nil && sum.ask.epoch == s.epoch && s.plan.IterationTimeout > 0 && !d.now.Before(sum.ask.began.Add(s.plan.IterationTimeout)):
		d.fact(Fact{TimedOut: &TimedOut{ID: sum.ask.id}})
	case sum.ask != nil:
		if sum.ask.epoch == s.epoch && s.plan.IterationTimeout > 0 {
			d.wake(sum.ask.began.Add(s.plan.IterationTimeout))
		}
		d.executive(sum.ask.id)
	case sum.failed != nil && sum.provider < len(s.plan.Fallbacks):
		d.fact(Fact{FellBack: &FellBack{From: s.summaryProvider().Name, To: s.plan.Fallbacks[sum.provider].Name, Reason: sum.failed.err}})
	case sum.failed != nil:
		end(fmt.Sprintf("the provider %s: %s", s.summaryProvider().Name, sum.failed.err))
	case d.now.Before(sum.resume):
		d.wake(sum.resume)
	case reason != "":
		end("not written: " + reason)
	default:
		parts := []string{"executive", strconv.Itoa(s.attempt), strconv.Itoa(sum.provider)}
		if sum.waits > 0 {
			parts = append(parts, strconv.Itoa(sum.waits))
		}
		d.executive(DeriveID(s.ID(), parts...))
	}
}

func (d *due) executive(id string) {
	s := d.s
	p := s.summaryProvider()
	a := &Ask{ID: id, Purpose: PurposeExecutiveSummary, Provider: p, Last: s.summary.provider >= len(s.plan.Fallbacks), Attempt: 1, Request: s.executiveRequest(p)}
	f := Fact{ModelAsked: &ModelAsked{ID: id, Purpose: PurposeExecutiveSummary, Provider: p.Name, Model: p.Model}}
	d.effects = append(d.effects, d.model(a, f, s.summary.ask))
}

func (s *Session) executiveRequest(p Provider) model.Request {
	return fit(model.Request{
		System:          prompt.Executive(),
		Messages:        []model.Message{{Role: model.RoleUser, Text: prompt.Final(s.ID(), Excerpt(s.analysis, share(p, summaryShare), "the middle was too long"))}},
		MaxOutputTokens: maxOutput(p),
	}, room(p, s.density()))
}

// step names what the session is at, for people.
func (s *Session) step() string {
	st := s.current()
	if st == nil {
		switch {
		case len(s.completed) < len(s.slots):
			return fmt.Sprintf("starting the stage %q", s.slots[len(s.completed)].name)
		default:
			return "writing the executive summary"
		}
	}
	for _, e := range s.running() {
		for _, c := range e.turn {
			if !c.answered && c.offered != nil {
				return fmt.Sprintf("%s called %s.%s", e.agent.Name, c.offered.server, c.offered.tool.Name)
			}
		}
		if e.ask != nil {
			return fmt.Sprintf("%s asked %s in the stage %q", e.agent.Name, e.ask.provider.Name, st.Name)
		}
		if e.listed == nil && e.lists() {
			return fmt.Sprintf("%s listed its tools", e.agent.Name)
		}
	}
	return fmt.Sprintf("the stage %q", st.Name)
}
