package session

import (
	"fmt"
	"slices"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// The bounds of what a model is shown.
const (
	// bytesPerToken is the estimate where the provider did not count.
	bytesPerToken = 4
	// maxResultTokens is the most that a model is shown of one result, and resultShare the
	// share of its window in percent: the smaller one holds.
	maxResultTokens = 25_000
	resultShare     = 15
	// compactShare is the share of the window in percent over which older results are
	// summarized.
	compactShare = 75
	// compactTokens is the most that remains of an older result, and minCompact the bytes from
	// which on it is worth a summary.
	compactTokens = 500
	minCompact    = 3 * compactTokens * bytesPerToken
	// compactBatch is how many older results are replaced before the next turn, also where fewer
	// would do: each change of older messages costs the provider's cache of the conversation.
	compactBatch = 4
	// The shares of the window in percent that the parts of a first message may have.
	alertShare    = 20
	knownShare    = 10
	runbookShare  = 5
	earlierShare  = 15
	recordsShare  = 40
	systemShare   = 20
	defaultWindow = 128_000 // tokens, where the plan has none
	// shrunk is the bytes that are left of a text of an older turn in a request that would not
	// fit its window otherwise.
	shrunk = 200
)

func window(p Provider) int {
	if p.ContextWindow <= 0 {
		return defaultWindow
	}
	return p.ContextWindow
}

// share returns a share of a provider's window in bytes.
func share(p Provider, percent int) int { return window(p) * percent / 100 * bytesPerToken }

// resultBytes is how much of one result a model is shown.
func resultBytes(p Provider) int { return min(share(p, resultShare), maxResultTokens*bytesPerToken) }

// maxOutput is what an answer may have: at most half of the window.
func maxOutput(p Provider) int {
	if p.MaxOutput <= 0 {
		return 0
	}
	return min(p.MaxOutput, window(p)/2)
}

// room is the bytes that a request may have, so that its answer fits beside it. Density is the
// tokens of a byte, as a provider counted them: see [execution.count].
func room(p Provider, density float64) int {
	return int(float64(window(p)-maxOutput(p)) / max(density, minDensity))
}

// The bounds of a density. Text with fewer tokens than the estimate gets no more room, because the
// next text may have more. A token has at least one byte: a provider that counts more adds
// something of its own, which does not grow with the request.
const (
	minDensity = 1.0 / bytesPerToken
	maxDensity = 1.0
)

// count notes the tokens that the provider counted for a request of the execution.
func (e *execution) count(bytes int, u model.Usage) {
	if u.Input > 0 && bytes > 0 {
		e.density = min(float64(u.Input)/float64(bytes), maxDensity)
	}
}

// density is the highest one of the session's executions.
func (s *Session) density() float64 {
	d := 0.0
	for _, e := range s.executions {
		d = max(d, e.density)
	}
	return d
}

func messageBytes(m model.Message) int {
	n := len(m.Text) + len(m.State) + len(m.CallID) + len(m.ToolName)
	for _, c := range m.Calls {
		n += len(c.ID) + len(c.Name) + len(c.Arguments)
	}
	return n
}

func toolBytes(tools []model.Tool) int {
	n := 0
	for _, t := range tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

func requestBytes(r model.Request) int {
	n := len(r.System) + toolBytes(r.Tools)
	for _, m := range r.Messages {
		n += messageBytes(m)
	}
	return n
}

// RequestTokens returns the estimate of what a request has.
func RequestTokens(r model.Request) int {
	return (requestBytes(r) + bytesPerToken - 1) / bytesPerToken
}

// tokens estimates the next request of the execution: what the provider counted last, and the
// estimate of what came after that.
func (e *execution) tokens() int {
	density := max(e.density, minDensity)
	if e.known == 0 {
		return int(float64(e.fixed+e.bytes) * density)
	}
	n := 0
	for _, m := range e.messages[min(e.knownAt, len(e.messages)):] {
		n += messageBytes(m)
	}
	return e.known + int(float64(n)*density)
}

// maxForced is more than the message that asks for a forced conclusion has. It may be part of a
// request before it is part of the conversation.
const maxForced = 2048

// request returns the request of the conversation's next call, within the window.
func (e *execution) request(purpose Purpose, messages []model.Message) model.Request {
	p := e.current()
	r := model.Request{System: e.system, Messages: messages, MaxOutputTokens: maxOutput(p)}
	if purpose != PurposeForcedConclusion {
		r.Tools = e.tools
	}
	if limit := room(p, e.density); e.fixed+e.bytes+maxForced > limit {
		r = fit(r, limit)
	}
	return r
}

// compactable returns the result of an older turn that is being summarized, or, where the
// conversation has more than its share of the window, the oldest one that is worth it; nil where
// there is none. See [compactBatch] for how many follow. One summary is asked for at a time, so that the limits are checked before each.
// The results of the last turn stay whole.
func (e *execution) compactable() *call {
	over := e.tokens() > window(e.current())*compactShare/100 || e.compacted > 0 && e.compacted < compactBatch
	if !over && e.summing == 0 {
		return nil
	}
	last := len(e.messages)
	for last > 0 && e.messages[last-1].Role != model.RoleAssistant {
		last--
	}
	var oldest *call
	for _, c := range e.order {
		switch {
		case c.sum != nil:
			return c
		case c.message == 0 || c.message > last || c.compacted || oldest != nil || !over:
		case len(e.messages[c.message-1].Text) >= minCompact:
			oldest = c
		}
	}
	return oldest
}

// fit returns the request with at most limit bytes. What is shortened first is what matters
// least: results of older turns, then whole older turns, then the results of the last turn, the
// first message, the instructions and the tools. Each call keeps its result, and the last calls of
// the last answer are left out with theirs only where even their names do not fit.
func fit(r model.Request, limit int) model.Request {
	size := requestBytes(r)
	if size <= limit {
		return r
	}
	r.Messages = slices.Clone(r.Messages)
	shorten := func(m *model.Message, to int, hint string) {
		if size <= limit || len(m.Text) <= to {
			return
		}
		before := len(m.Text)
		m.Text = excerptFenced(m.Text, max(to, before-(size-limit)), hint)
		size -= before - len(m.Text)
	}
	last := len(r.Messages)
	for last > 0 && r.Messages[last-1].Role != model.RoleAssistant {
		last--
	}
	last = max(last-1, 0) // the index of the last answer
	for i := 1; i < last; i++ {
		if m := &r.Messages[i]; m.Role == model.RoleTool {
			shorten(m, shrunk, fmt.Sprintf("read_result with the id %q reads it", m.CallID))
		}
	}
	// Whole turns: an answer, its results, and what was said after them.
	for size > limit && last > 1 {
		end := 2
		for end < last && r.Messages[end].Role != model.RoleAssistant {
			end++
		}
		for _, m := range r.Messages[1:end] {
			size -= messageBytes(m)
		}
		r.Messages = slices.Delete(r.Messages, 1, end)
		last -= end - 1
	}
	for i := last; i < len(r.Messages); i++ {
		if m := &r.Messages[i]; m.Role == model.RoleTool {
			shorten(m, shrunk, fmt.Sprintf("read_result with the id %q reads it", m.CallID))
		}
	}
	for i := range r.Messages {
		shorten(&r.Messages[i], shrunk, "it does not fit the window")
	}
	for i := range r.Messages { // arguments as long as a window
		for j, c := range r.Messages[i].Calls {
			if size > limit && len(c.Arguments) > shrunk {
				r.Messages[i].Calls = slices.Clone(r.Messages[i].Calls)
				r.Messages[i].Calls[j].Arguments = "{}"
				size -= len(c.Arguments) - 2
				dropState(&r.Messages[i], &size)
			}
		}
		if size > limit {
			dropState(&r.Messages[i], &size)
		}
	}
	for size > limit && len(r.Tools) > 0 {
		n := len(r.Tools) - 1
		size -= toolBytes(r.Tools[n:])
		r.Tools = r.Tools[:n]
	}
	if size > limit {
		before := len(r.System)
		r.System = excerptFenced(r.System, max(0, before-(size-limit)), "the instructions do not fit the window")
		size -= before - len(r.System)
	}
	for i := range r.Messages {
		shorten(&r.Messages[i], 0, "")
	}
	for size > limit && last > 0 && len(r.Messages[last].Calls) > 0 {
		m := &r.Messages[last]
		n := len(m.Calls) - 1
		size -= messageBytes(*m)
		m.Calls, m.State = m.Calls[:n:n], nil
		size += messageBytes(*m)
		size -= messageBytes(r.Messages[last+1+n])
		r.Messages = slices.Delete(r.Messages, last+1+n, last+2+n)
		if n == 0 && m.Text == "" {
			r.Messages = slices.Delete(r.Messages, last, last+1)
			break
		}
	}
	return r
}

// dropState removes what a provider wants back of an answer. It belongs to the answer as it was
// given: with other calls, the provider would refuse it.
func dropState(m *model.Message, size *int) {
	*size -= len(m.State)
	m.State = nil
}
