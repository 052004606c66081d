package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

// The bounds of what an effect stores. Together with two texts they fit into one message.
const (
	// maxCalls bounds the encoded tool calls of one answer. An answer with more is malformed.
	maxCalls = 256 << 10
	// maxState bounds the state of a provider. A larger one is left out, and the provider
	// reads the conversation without it.
	maxState = 128 << 10
	// maxListed bounds the encoded definitions of an execution's tools. Those after it are left
	// out, and logged.
	maxListed = 512 << 10
	// maxOffered is how many tools of servers a model is offered: OpenAI's APIs take 128 in one
	// request, and the engine has a few of its own. Those after it are left out, with a note.
	maxOffered = 120
	// maxNamed bounds the tools that such a note names.
	maxNamed = 30
	// maxKnown bounds the text of one known thing.
	maxKnown = 16 << 10
	// maxErrorText bounds the text of an error.
	maxErrorText = 4 << 10
)

// withheld stands for text that could not be masked.
const withheld = "[withheld: the text could not be masked]"

// effect is one effect under way.
type effect struct {
	session.Effect
	ctx    context.Context
	cancel context.CancelFunc
}

// pending returns the deadline while it lies ahead. The time alone changes what is due then.
func (e *effect) pending() time.Time {
	if e.ctx.Err() != nil {
		return time.Time{}
	}
	return e.Deadline
}

// start begins an effect. Where it is given up before its end, it has no outcome.
func (r *run) start(e session.Effect) {
	eff := &effect{Effect: e}
	if e.Deadline.IsZero() {
		eff.ctx, eff.cancel = context.WithCancel(r.base)
	} else {
		eff.ctx, eff.cancel = context.WithDeadline(r.base, e.Deadline)
	}
	r.effects[e.Key] = eff
	var set ToolSet
	switch {
	case e.List != nil:
		set = r.openSet(e.List.Execution, e.List.Servers)
	case e.Call != nil:
		set = r.setOf(e.Call.Execution)
	}
	r.working.Go(func() {
		facts := r.perform(eff, set)
		if len(facts) == 0 { // given up
			return
		}
		eff.cancel()
		size := 0
		if data, err := session.Encode(facts); err == nil {
			size = len(data)
		}
		r.deliver(outcome{of: eff, facts: facts, size: size, final: true})
	})
}

// perform does an effect and returns its outcome. A panic is a failure of the effect.
func (r *run) perform(eff *effect, set ToolSet) (facts []session.Fact) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("panic in an effect", "effect", eff.Key, "panic", p, "stack", string(debug.Stack()))
			facts = failure(&eff.Effect, r.mask(fmt.Sprintf("internal error: %v", p)))
		}
	}()
	begin := time.Now()
	switch e := &eff.Effect; {
	case e.Gather != nil:
		return r.gather(eff.ctx)
	case e.List != nil:
		return r.list(eff.ctx, e.List, set)
	case e.Ask != nil:
		return r.ask(eff, e.Ask)
	case e.Call != nil:
		facts = r.callTool(eff.ctx, e.Call, set)
		if facts != nil {
			answer := facts[0].ToolAnswered
			r.cfg.Observer.ToolCalled(e.Call.Server, answer.IsError, time.Since(begin))
		}
		return facts
	case e.Read != nil:
		text, err := r.text(eff.ctx, e.Read.Text)
		if err != nil {
			if eff.ctx.Err() != nil {
				return nil
			}
			r.log.Error("a stored text can't be read", "error", err)
			return failure(e, "the stored text can't be read")
		}
		return []session.Fact{e.Read.Answer(text, now())}
	case e.Check != nil:
		load := func(t session.Text) (string, error) { return r.text(eff.ctx, t) }
		fact := e.Check.Check(load, now())
		if eff.ctx.Err() != nil {
			return nil
		}
		return []session.Fact{fact}
	}
	panic("an effect without content")
}

// failure returns the outcome of an effect that failed in the engine.
func failure(e *session.Effect, text string) []session.Fact {
	f := session.Fact{Time: now()}
	answer := func(execution, call string) {
		f.ToolAnswered = &session.ToolAnswered{Execution: execution, CallID: call, IsError: true, Error: text}
	}
	switch {
	case e.Gather != nil:
		f.Gathered = &session.Gathered{Missing: []string{text}}
	case e.List != nil:
		f.ToolsListed = &session.ToolsListed{Execution: e.List.Execution}
		for i, s := range e.List.Servers {
			f.ToolsListed.Servers = append(f.ToolsListed.Servers, session.Listed{Server: s.Name, ID: e.List.IDs[i], Error: text})
		}
	case e.Ask != nil:
		f.ModelFailed = &session.ModelFailed{ID: e.Ask.ID, Error: text, Kind: model.Malformed}
	case e.Call != nil:
		answer(e.Call.Execution, e.Call.CallID)
	case e.Read != nil:
		answer(e.Read.Execution, e.Read.CallID)
	case e.Check != nil:
		f.Concluded = &session.Concluded{Execution: e.Check.Execution, CallID: e.Check.CallID, Error: text}
	}
	return []session.Fact{f}
}

// gather collects what is known. What the gatherer does not answer in time is missing.
func (r *run) gather(ctx context.Context) []session.Fact {
	inner, cancel := context.WithTimeout(ctx, gatherTimeout)
	defer cancel()
	g := r.cfg.Known.Gather(inner, r.submitted)
	if ctx.Err() != nil {
		return nil
	}
	known := make([]session.Known, 0, len(g.Known))
	size := 0
	for _, k := range g.Known {
		k.Title, k.Text = r.mask(k.Title), session.Excerpt(r.mask(k.Text), maxKnown, "it was too long")
		if size += len(k.Title) + len(k.Text); size > session.MaxInline {
			g.Missing = append(g.Missing, "more facts were left out, because they were too long")
			break
		}
		known = append(known, k)
	}
	g.Known = known
	return []session.Fact{{Time: now(), Gathered: &g}}
}

// list lists the tools of an execution.
func (r *run) list(ctx context.Context, l *session.ListTools, set ToolSet) []session.Fact {
	begin := time.Now()
	listed := set.List(ctx)
	if ctx.Err() != nil {
		return nil
	}
	f := &session.ToolsListed{Execution: l.Execution}
	size, offered := 0, 0
	var left []string
	for i, server := range l.Servers {
		one := session.Listed{Server: server.Name, Error: "its tools were not listed"}
		for _, found := range listed {
			if found.Server == server.Name {
				one = found
			}
		}
		one.ID, one.Duration = l.IDs[i], time.Since(begin)
		one.Error = session.Head(one.Error, maxErrorText)
		for n, tool := range one.Tools {
			encoded, err := json.Marshal(tool)
			if size += len(encoded); err != nil || size > maxListed || offered == maxOffered {
				r.log.Warn("tools are left out: the definitions are too many or too large together", "server", server.Name, "from", tool.Name, "tools", len(one.Tools)-n)
				for _, tool := range one.Tools[n:] {
					left = append(left, server.Name+"."+tool.Name)
				}
				one.Tools = one.Tools[:n]
				break
			}
			offered++
		}
		f.Servers = append(f.Servers, one)
	}
	facts := []session.Fact{{Time: now(), ToolsListed: f}}
	if len(left) > 0 {
		more := ""
		if len(left) > maxNamed {
			more = ", ..."
		}
		text := fmt.Sprintf("%d tools are not offered, because a model takes %d with %d KiB of definitions (narrow the tools of the servers in the configuration): %s%s",
			len(left), maxOffered, maxListed>>10, strings.Join(left[:min(len(left), maxNamed)], ", "), more)
		facts = append(facts, session.Fact{Time: now(), Noted: &session.Noted{Text: r.mask(text)}})
	}
	return facts
}

// callTool makes one tool call. Its time is over at the effect's deadline or after the call's own
// time-out.
func (r *run) callTool(ctx context.Context, c *session.CallTool, set ToolSet) []session.Fact {
	begin := time.Now()
	answer := &session.ToolAnswered{Execution: c.Execution, CallID: c.CallID}
	within, cancel := ctx, context.CancelFunc(func() {})
	if c.Timeout > 0 {
		within, cancel = context.WithTimeout(ctx, c.Timeout)
	}
	defer cancel()
	result := ToolResult{IsError: true, Text: "the tools of the execution are not open"}
	if set != nil {
		result = set.Call(within, c.Server, c.Tool, c.Arguments)
	}
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	answer.Duration, answer.IsError = time.Since(begin), result.IsError
	var err error
	if answer.Result, err = r.newText(ctx, result.Text); err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil
		}
		answer.Result, answer.IsError, answer.Error = session.Text{}, true, "the result could not be stored: "+r.mask(err.Error())
	}
	return []session.Fact{{Time: now(), ToolAnswered: answer}}
}

// ask asks a model.
func (r *run) ask(eff *effect, a *session.Ask) []session.Fact {
	ctx, begin := eff.ctx, time.Now()
	cost := func(u model.Usage) float64 {
		if a.Provider.Price == nil {
			return 0
		}
		return a.Provider.Price.Cost(u)
	}
	failed := func(kind model.Kind, text string, u model.Usage) []session.Fact {
		r.cfg.Observer.ModelAsked(a.Provider.Name, string(a.Purpose), string(kind), time.Since(begin), u, cost(u))
		return []session.Fact{{Time: now(), ModelFailed: &session.ModelFailed{
			ID: a.ID, Error: session.Head(r.mask(text), maxErrorText), Kind: kind, Duration: time.Since(begin), Usage: u,
		}}}
	}
	m, ok := r.cfg.Models.Model(a.Provider, a.Last)
	if !ok {
		return failed(model.Refused, fmt.Sprintf("the configuration has no provider %q any more", a.Provider.Name), model.Usage{})
	}
	request := a.Request
	if a.Source != nil {
		text, err := r.text(ctx, *a.Source)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return failed(model.Malformed, "the text to summarize can't be read: "+err.Error(), model.Usage{})
		}
		request = a.WithSource(text)
	}
	stream := r.newStream(eff, a)
	answer, err := m.Ask(ctx, request, stream.add)
	stream.close()
	if ctx.Err() != nil {
		r.spent(eff, a, answer.Usage.Add(answer.FailedUsage))
		return nil
	}
	if err != nil {
		var failure *model.Error
		if errors.As(err, &failure) {
			facts := failed(failure.Kind, failure.Error(), failure.Usage)
			if failure.Later {
				facts[0].ModelFailed.RetryAt = now().Add(failure.RetryAfter)
			}
			return facts
		}
		return failed(model.Unavailable, err.Error(), model.Usage{})
	}
	f, problem := r.answered(ctx, a, &answer)
	if ctx.Err() != nil {
		r.spent(eff, a, answer.Usage.Add(answer.FailedUsage))
		return nil
	}
	if problem != "" {
		return failed(model.Malformed, problem, answer.Usage.Add(answer.FailedUsage))
	}
	f.Duration = time.Since(begin)
	spent := f.Usage.Add(f.FailedUsage)
	r.cfg.Observer.ModelAsked(a.Provider.Name, string(a.Purpose), "answered", f.Duration, spent, cost(spent))
	return []session.Fact{{Time: now(), ModelAnswered: f}}
}

// spent reports what a call that was given up used, where its provider counted it.
func (r *run) spent(eff *effect, a *session.Ask, u model.Usage) {
	if u != (model.Usage{}) {
		r.deliver(outcome{of: eff, facts: []session.Fact{{Time: now(), Spent: &session.Spent{ID: a.ID, Attempt: a.Attempt, Usage: u}}}, late: true})
	}
}

// answered returns the fact of an answer, masked, and stores its long texts; or the problem for
// which it can't be stored.
func (r *run) answered(ctx context.Context, a *session.Ask, answer *model.Answer) (f *session.ModelAnswered, problem string) {
	f = &session.ModelAnswered{ID: a.ID, Stop: answer.Stop, Usage: answer.Usage, FailedUsage: answer.FailedUsage, State: answer.State, Cut: answer.Cut}
	thinking := r.mask(answer.Thinking)
	if thinking != answer.Thinking || len(f.State) > maxState {
		f.State = nil // it has the thinking as it was
	}
	var err error
	if f.Text, err = r.newText(ctx, r.mask(answer.Text)); err != nil {
		return nil, "the answer could not be stored: " + err.Error()
	}
	if f.Thinking, err = r.newText(ctx, thinking); err != nil {
		return nil, "the thinking could not be stored: " + err.Error()
	}
	for _, c := range answer.Calls {
		c.Arguments = r.mask(c.Arguments)
		f.Calls = append(f.Calls, c)
	}
	if encoded, err := json.Marshal(f.Calls); err != nil || len(encoded) > maxCalls {
		return nil, fmt.Sprintf("the tool calls of the answer are over %d KiB", maxCalls>>10)
	}
	return f, ""
}

// mask returns text masked, or withheld where that fails.
func (r *run) mask(text string) (masked string) {
	if text == "" {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("text is withheld: it could not be masked", "panic", p)
			masked = withheld
		}
	}()
	return r.cfg.Mask(r.submitted.Plan, text)
}

// newText returns a text for a fact. A long one is stored before; that is tried until ctx ends.
func (r *run) newText(ctx context.Context, whole string) (session.Text, error) {
	whole = strings.ToValidUTF8(whole, "\uFFFD")
	t, store := session.NewText(whole)
	if !store {
		return t, nil
	}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		_, err := r.cfg.Texts.Put(ctx, r.id, []byte(whole))
		if err == nil || ctx.Err() != nil || errors.Is(err, journal.ErrTooLarge) || errors.Is(err, journal.ErrSession) {
			return t, err
		}
		r.log.Warn("cannot store a text; it is tried again", "error", err)
		sleep(ctx, pause)
	}
}

// text returns a whole text. That is tried until ctx ends, or it is known to be missing.
func (r *run) text(ctx context.Context, t session.Text) (string, error) {
	if t.Object == "" {
		return t.Inline, nil
	}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		text, err := r.cfg.Texts.Get(ctx, r.id, t.Object)
		if err == nil {
			return string(text), nil
		}
		if ctx.Err() != nil || errors.Is(err, journal.ErrMissing) || errors.Is(err, journal.ErrDamaged) || errors.Is(err, journal.ErrSession) {
			return "", err
		}
		sleep(ctx, pause)
	}
}

// setOf returns the tools of an execution, which another worker may have listed.
func (r *run) setOf(execution string) ToolSet {
	for _, running := range r.s.Running() {
		if running.Execution == execution {
			return r.openSet(execution, running.Servers)
		}
	}
	return nil
}

// openSet opens the tools of an execution once.
func (r *run) openSet(execution string, servers []session.Server) ToolSet {
	set := r.sets[execution]
	if set == nil {
		set = r.cfg.Tools.Open(r.submitted, servers)
		r.sets[execution] = set
	}
	return set
}

// reopenSets opens the tools that another worker has listed, so that they are ready when the
// model calls them.
func (r *run) reopenSets() {
	for _, running := range r.s.Running() {
		if running.Listed && len(running.Servers) > 0 {
			r.openSet(running.Execution, running.Servers)
		}
	}
}

// closeEndedSets closes the tools of executions that have ended.
func (r *run) closeEndedSets() {
	if len(r.sets) == 0 {
		return
	}
	open := map[string]bool{}
	for _, running := range r.s.Running() {
		open[running.Execution] = true
	}
	for execution, set := range r.sets {
		if !open[execution] {
			delete(r.sets, execution)
			r.closing.Go(set.Close)
		}
	}
}

// closeSets closes all tools.
func (r *run) closeSets() {
	for execution, set := range r.sets {
		delete(r.sets, execution)
		r.closing.Go(set.Close)
	}
}
