package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// The errors of [Session.Apply].
var (
	// ErrNotSubmitted is returned for a message that comes before the session's first fact.
	ErrNotSubmitted = errors.New("the session's first fact is missing")
	// ErrSequence is returned for a message that is not newer than the last one.
	ErrSequence = errors.New("the message is not newer than the last one that was applied")
	// ErrEnded is returned for a request that an ended session can't follow.
	ErrEnded = errors.New("the session has ended")
	// ErrNotRetryable is returned for a retry of a session that did not fail.
	ErrNotRetryable = errors.New("only a session that failed, timed out or was cancelled can be retried")
)

// stoppedEarly begins the sentence in an analysis that says which limit ended the session.
const stoppedEarly = "\n\n_The investigation stopped early: "

// maxTakeovers is how many workers may end at one step before the session fails.
const maxTakeovers = 5

// Session is the state that the facts of one session fold into. The zero value is a session
// before its first message. It is not safe for concurrent use.
type Session struct {
	submitted Submitted
	plan      *Plan
	slots     []slot
	seq       uint64
	unknown   int

	status                 Status
	created, started, done time.Time
	err                    string

	claimed   bool
	epoch     int
	worker    string
	takeovers int

	cancel   *CancelRequested
	resolved string
	gathered *Gathered
	attempt  int

	stages     []*stage
	completed  []*stage // those that the current plan need not run again
	executions map[string]*execution
	calls      int // of models, to number them

	interactions map[string]*interaction
	models       []*interaction
	tools        []*toolUse
	toolsByID    map[string]*toolUse
	called       int            // tool calls, for the limit
	callIDs      map[string]int // how many calls of the session have an id
	// definitions has the digest under which each tool was first listed since the last retry: a retry
	// takes the configuration as it is now, and the definitions with it.
	definitions map[definition]string

	usage      model.Usage
	cost       float64
	unpriced   bool
	before     spent // before the last retry
	analysis   string
	conclusion json.RawMessage
	summary    summary

	events   map[string]*event
	changes  []*event // in the order of their changes; see timeline
	open     []*event // those that are streaming
	ordinals int
}

// spent is what counts for the limits.
type spent struct {
	tokens int
	cost   float64
	calls  int // of tools
}

// spent returns what the session spent since its last retry. A retry has the whole limits again:
// with what is left of spent ones it could ask no model.
func (s *Session) spent() spent {
	return spent{
		tokens: s.usage.Input + s.usage.Output - s.before.tokens, cost: s.cost - s.before.cost, calls: s.called - s.before.calls,
	}
}

// slot is a stage to run: a configured one, or the synthesis of one.
type slot struct {
	plan      int
	synthesis bool
	name      string
}

type stage struct {
	StageStarted
	status         Status
	attempt        int
	err            string
	parallel       Parallel
	policy         Policy
	execs          []*execution
	started, ended time.Time
	superseded     bool // by a retry
}

// summary is the state of the executive summary.
type summary struct {
	provider int
	ask      *interaction
	failed   *interaction
	resume   time.Time // the provider asks to wait until then
	waits    int       // calls after which the session waited
	over     bool
	text     string
	err      string
}

// ID returns the session's id.
func (s *Session) ID() string { return s.submitted.ID }

// Status returns the session's status.
func (s *Session) Status() Status { return s.status }

// Ended reports whether the session has ended. A retry makes it pending again.
func (s *Session) Ended() bool { return ended(s.status) }

// EndedAt returns when the session ended, or the zero time.
func (s *Session) EndedAt() time.Time { return s.done }

// Sequence returns the stream sequence of the last message that was applied.
func (s *Session) Sequence() uint64 { return s.seq }

// Submitted returns the first fact, and Plan the configuration in force.
func (s *Session) Submitted() Submitted { return s.submitted }

// Plan returns the configuration in force.
func (s *Session) Plan() Plan {
	if s.plan == nil {
		return Plan{}
	}
	return *s.plan
}

// Epoch returns the number of the last claim, and the worker that made it, which is empty after
// it was released.
func (s *Session) Epoch() (epoch int, worker string) {
	if !s.claimed {
		return s.epoch, ""
	}
	return s.epoch, s.worker
}

// Unknown returns how many facts were of a kind that this version does not know.
func (s *Session) Unknown() int { return s.unknown }

// Conclusion returns the checked conclusion as JSON, or nil.
func (s *Session) Conclusion() json.RawMessage { return s.conclusion }

// Resolved returns the title of the alert that resolved the session's, or "".
func (s *Session) Resolved() string { return s.resolved }

func ended(status Status) bool {
	switch status {
	case StatusCompleted, StatusFailed, StatusCancelled, StatusTimedOut:
		return true
	default:
		return false
	}
}

// Fold returns the state that the messages of one session lead to. Messages are as [Encode]
// makes them, and first is the stream sequence of the first.
func Fold(messages [][]Fact) (*Session, error) {
	s := &Session{}
	for i, m := range messages {
		if err := s.Apply(m, uint64(i)+1); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Apply folds one stored message. Facts that the state can't follow, as those of a worker that
// was replaced, change nothing but the accounts. An error means that the message does not belong
// here; the state is then unchanged.
func (s *Session) Apply(message []Fact, seq uint64) error {
	if seq <= s.seq {
		return fmt.Errorf("message %d after %d: %w", seq, s.seq, ErrSequence)
	}
	if s.plan == nil && (len(message) == 0 || message[0].Submitted == nil) {
		return ErrNotSubmitted
	}
	s.seq = seq
	for i := range message {
		s.apply(&message[i])
	}
	return nil
}

func (s *Session) apply(f *Fact) {
	t := f.Time
	switch {
	case f.Submitted != nil:
		s.applySubmitted(f.Submitted, t)
	case f.Noted != nil:
		s.applyNoted(f.Noted, t)
	case f.Claimed != nil:
		s.applyClaimed(f.Claimed, t)
	case f.Released != nil:
		if f.Released.Epoch == s.epoch {
			s.claimed = false
		}
	case f.CancelRequested != nil:
		if !s.Ended() {
			s.cancel, s.status = f.CancelRequested, StatusCancelling
		}
	case f.AlertResolved != nil:
		s.applyResolved(f.AlertResolved, t)
	case f.Retried != nil:
		s.applyRetried(f.Retried, t)
	case f.Ended != nil:
		s.applyEnded(f.Ended, t)
	case f.Known():
		s.applyProgress(f, t)
	default:
		s.unknown++
	}
	s.settle()
}

// applyProgress folds the facts of a worker.
func (s *Session) applyProgress(f *Fact, t time.Time) {
	if f.ModelAsked == nil && f.ToolCalled == nil && f.Streaming == nil && f.Spent == nil {
		s.takeovers = 0
	}
	switch {
	case f.Gathered != nil:
		if s.gathered == nil {
			s.gathered = f.Gathered
			s.takeovers = 0
		}
	case f.StageStarted != nil:
		s.applyStageStarted(f.StageStarted, t)
	case f.StageEnded != nil:
		s.applyStageEnded(f.StageEnded, t)
	case f.ModelAsked != nil:
		s.applyAsked(f.ModelAsked, t)
	case f.Streaming != nil:
		s.applyStreaming(f.Streaming, t)
	case f.ModelAnswered != nil:
		s.applyAnswered(f.ModelAnswered, t)
	case f.ModelFailed != nil:
		s.applyModelFailed(f.ModelFailed, t)
	case f.Spent != nil:
		if it := s.interactions[f.Spent.ID]; it != nil && f.Spent.Attempt > it.spent {
			it.spent = f.Spent.Attempt
			s.spend(it, f.Spent.Usage)
		}
	case f.FellBack != nil:
		s.applyFellBack(f.FellBack, t)
	case f.TimedOut != nil:
		s.applyTimedOut(f.TimedOut, t)
	case f.ToolsListed != nil:
		s.applyToolsListed(f.ToolsListed, t)
	case f.ToolCalled != nil:
		s.applyToolCalled(f.ToolCalled, t)
	case f.ToolAnswered != nil:
		s.applyToolAnswered(f.ToolAnswered, t)
	case f.Concluded != nil:
		s.applyConcluded(f.Concluded, t)
	case f.ExecutionEnded != nil:
		s.applyExecutionEnded(f.ExecutionEnded, t)
	}
}

func (s *Session) applySubmitted(f *Submitted, t time.Time) {
	if s.plan != nil {
		return
	}
	s.submitted, s.created, s.status, s.attempt = *f, t, StatusPending, 1
	s.executions = map[string]*execution{}
	s.interactions = map[string]*interaction{}
	s.toolsByID = map[string]*toolUse{}
	s.events = map[string]*event{}
	s.callIDs = map[string]int{}
	s.definitions = map[definition]string{}
	s.setPlan(&f.Plan)
	if f.Plan.RunbookURL != "" {
		s.note(t, "The alert names a runbook that was not fetched: "+f.Plan.RunbookURL, nil)
	}
}

func (s *Session) setPlan(p *Plan) {
	s.plan = p
	s.slots = nil
	for i, st := range p.Stages {
		s.slots = append(s.slots, slot{plan: i, name: st.Name})
		if len(st.Agents) > 1 {
			s.slots = append(s.slots, slot{plan: i, synthesis: true, name: st.Name + " - Synthesis"})
		}
	}
}

func (s *Session) applyClaimed(f *Claimed, t time.Time) {
	if f.Epoch <= s.epoch || s.Ended() {
		return
	}
	if s.claimed {
		s.takeovers++
	}
	s.claimed, s.epoch, s.worker = true, f.Epoch, f.Worker
	if s.started.IsZero() {
		s.started = t
	}
	if s.status == StatusPending {
		s.status = StatusInProgress
	}
	// Calls under way begin again, and have their whole time again.
	for _, e := range s.running() {
		e.since = t
	}
}

func (s *Session) applyResolved(f *AlertResolved, t time.Time) {
	if s.Ended() || s.resolved != "" {
		return
	}
	s.resolved = f.Title
	if s.resolved == "" {
		s.resolved = "resolved"
	}
	s.note(t, "The alert was resolved: "+s.resolved, map[string]any{"alert_id": f.Alert})
	for _, e := range s.running() {
		if e.prepared {
			e.resolved = true
		}
	}
}

func (s *Session) applyRetried(f *Retried, t time.Time) {
	if !s.Ended() || s.status == StatusCompleted {
		return
	}
	s.attempt++
	s.setPlan(&f.Plan)
	s.status, s.started, s.done, s.err = StatusPending, time.Time{}, time.Time{}, ""
	s.claimed, s.takeovers, s.cancel = false, 0, nil
	s.summary = summary{}
	s.definitions = map[definition]string{}
	s.before = spent{tokens: s.usage.Input + s.usage.Output, cost: s.cost, calls: s.called}
	s.analysis, s.conclusion = "", nil
	for _, st := range s.stages {
		st.superseded = true
	}
	kept := s.completed[:0:0]
	for i, st := range s.completed {
		if i >= len(s.slots) || s.slots[i] != (slot{plan: st.Plan, synthesis: st.Synthesis, name: st.Name}) {
			break
		}
		kept = append(kept, st)
	}
	s.completed = kept
	if n := len(kept); n > 0 && n == len(s.slots) {
		s.takeResult(kept[n-1])
	}
	s.note(t, "The session was started again by "+f.By+".", nil)
}

func (s *Session) applyStageStarted(f *StageStarted, t time.Time) {
	if s.Ended() || s.current() != nil || f.Plan < 0 || f.Plan >= len(s.plan.Stages) {
		return
	}
	p := &s.plan.Stages[f.Plan]
	agents := s.agents(f.Plan, f.Synthesis)
	if len(f.Executions) != len(agents) || len(agents) == 0 {
		return
	}
	st := &stage{StageStarted: *f, status: StatusInProgress, attempt: 1, policy: p.Policy, started: t}
	if !f.Synthesis {
		st.parallel = p.Parallel
	}
	for _, old := range s.stages {
		if old.Name == f.Name && old.Index == f.Index {
			st.attempt = old.attempt + 1
		}
	}
	for i, id := range f.Executions {
		if s.executions[id] != nil {
			return
		}
		e := &execution{
			id: id, index: i + 1, stage: st, agent: agents[i], status: StatusInProgress, started: t, since: t,
			concludes: f.Index == len(s.slots),
			byID:      map[string]*call{}, first: map[string]*call{}, offered: map[string]*offered{},
		}
		e.providers = append([]Provider{agents[i].Provider}, agents[i].Fallbacks...)
		st.execs = append(st.execs, e)
	}
	for _, e := range st.execs {
		s.executions[e.id] = e
	}
	s.stages = append(s.stages, st)
}

// agents returns the agents of a configured stage, or that of its synthesis.
func (s *Session) agents(plan int, synthesis bool) []*Agent {
	p := &s.plan.Stages[plan]
	var list []*Agent
	if synthesis {
		if p.Synthesis != nil {
			return []*Agent{p.Synthesis}
		}
		if len(p.Agents) > 0 {
			a := p.Agents[0]
			a.Name, a.Agent, a.Servers, a.Instructions = "SynthesisAgent", "SynthesisAgent", nil, ""
			return []*Agent{&a}
		}
		return nil
	}
	for i := range p.Agents {
		list = append(list, &p.Agents[i])
	}
	return list
}

func (s *Session) applyStageEnded(f *StageEnded, t time.Time) {
	st := s.current()
	if st == nil || st.ID != f.ID || !ended(f.Status) {
		return
	}
	for _, e := range st.execs {
		if !ended(e.status) {
			s.endExecution(e, f.Status, f.Error, t)
		}
	}
	st.status, st.err, st.ended = f.Status, f.Error, t
	if f.Status == StatusCompleted {
		s.completed = append(s.completed, st)
		s.takeResult(st)
	}
}

// takeResult makes the result of a stage that of the session, where it is the last one.
func (s *Session) takeResult(st *stage) {
	s.analysis = st.result()
	for _, e := range st.execs {
		if e.status == StatusCompleted && e.conclusion != nil {
			s.conclusion = e.conclusion
		}
	}
}

// result is what later stages read of a stage.
func (st *stage) result() string {
	var texts []string
	for _, e := range st.execs {
		if e.status == StatusCompleted {
			texts = append(texts, e.analysis)
		}
	}
	if len(texts) == 1 {
		return texts[0]
	}
	all := ""
	for _, e := range st.execs {
		if e.status == StatusCompleted {
			all += "## " + e.agent.Name + "\n\n" + e.analysis + "\n\n"
		}
	}
	return all
}

func (s *Session) applyEnded(f *Ended, t time.Time) {
	if s.Ended() || !ended(f.Status) {
		return
	}
	if st := s.current(); st != nil {
		s.applyStageEnded(&StageEnded{ID: st.ID, Status: f.Status, Error: f.Error}, t)
	}
	s.status, s.done, s.err = f.Status, t, f.Error
	if s.status == StatusCompleted {
		s.summary.err = f.SummaryError
		if s.conclusion == nil { // a limit ended the chain before its last stage
			s.conclusion = proseConclusion()
		}
		if n := len(s.completed); n < len(s.slots) && !strings.Contains(s.analysis, stoppedEarly) {
			s.analysis += fmt.Sprintf("%s%s, before the stage %q._", stoppedEarly, s.limited(), s.slots[n].name)
		}
	} else {
		s.analysis, s.conclusion = "", nil
	}
	if it := s.summary.ask; it != nil {
		it.abort("the session ended: "+string(f.Status), t)
		s.summary.ask = nil
	}
	s.summary.over = true
	s.claimed, s.takeovers = false, 0
	switch {
	case f.Status == StatusCancelled && s.cancel != nil:
		text := "The session was cancelled by " + s.cancel.By + "."
		if reason := s.cancel.Reason; reason != "" && reason != "cancelled by "+s.cancel.By {
			text += " Reason: " + reason
		}
		s.note(t, text, nil)
	case f.Error != "":
		s.addEvent(t, &event{id: DeriveID(s.ID(), "end", fmt.Sprint(s.attempt)), kind: EventError, status: f.Status, content: f.Error})
	}
	s.closeEvents(nil, f.Status, t)
}

// current returns the stage that runs, or nil.
func (s *Session) current() *stage {
	if n := len(s.stages); n > 0 && !ended(s.stages[n-1].status) {
		return s.stages[n-1]
	}
	return nil
}

// running returns the executions that have not ended.
func (s *Session) running() []*execution {
	st := s.current()
	if st == nil {
		return nil
	}
	var list []*execution
	for _, e := range st.execs {
		if !ended(e.status) {
			list = append(list, e)
		}
	}
	return list
}

// limited returns which limit the session has reached, or "".
func (s *Session) limited() string {
	l := s.plan.Limits
	if reason := s.budget(); reason != "" {
		return reason
	}
	if l.MaxToolCalls > 0 && s.spent().calls >= l.MaxToolCalls {
		return fmt.Sprintf("the session reached its limit of %d tool calls", l.MaxToolCalls)
	}
	return ""
}

// budget is like limited, for what bounds calls of models.
func (s *Session) budget() string {
	l, spent := s.plan.Limits, s.spent()
	if l.MaxTokens > 0 && spent.tokens >= l.MaxTokens {
		return fmt.Sprintf("the session reached its limit of %d tokens", l.MaxTokens)
	}
	if l.MaxCostUSD > 0 && spent.cost >= l.MaxCostUSD {
		return fmt.Sprintf("the session reached its limit of %g USD", l.MaxCostUSD)
	}
	return ""
}

// spend accounts for what a call of a model used.
func (s *Session) spend(it *interaction, u model.Usage) {
	it.usage = it.usage.Add(u)
	s.account(it.exec, it.provider, u)
}

func (s *Session) account(e *execution, p Provider, u model.Usage) {
	cost := 0.0
	if p.Price == nil {
		s.unpriced = true
	} else {
		cost = p.Price.Cost(u)
	}
	s.usage, s.cost = s.usage.Add(u), s.cost+cost
	if e != nil {
		e.usage, e.cost, e.unpriced = e.usage.Add(u), e.cost+cost, e.unpriced || p.Price == nil
	}
}
