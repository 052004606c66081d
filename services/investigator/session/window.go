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

// room is the bytes that a request may have, so that its answer fits beside it.
func room(p Provider) int { return (window(p) - maxOutput(p)) * bytesPerToken }

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

// RequestTokens returns the estimate of what a request has.
func RequestTokens(r model.Request) int {
	n := len(r.System) + toolBytes(r.Tools)
	for _, m := range r.Messages {
		n += messageBytes(m)
	}
	return (n + bytesPerToken - 1) / bytesPerToken
}

// tokens estimates the next request of the execution: what the provider counted last, and the
// estimate of what came after that.
func (e *execution) tokens() int {
	if e.known == 0 {
		return (e.fixed + e.bytes) / bytesPerToken
	}
	n := 0
	for _, m := range e.messages[min(e.knownAt, len(e.messages)):] {
		n += messageBytes(m)
	}
	return e.known + n/bytesPerToken
}

// compactable returns the results of older turns that are being summarized, and, where the
// conversation has more than its share of the window, the oldest ones that are worth it. Those of
// the last turn stay whole.
func (e *execution) compactable() []*call {
	over := e.tokens() > window(e.current())*compactShare/100
	if !over && e.summing == 0 {
		return nil
	}
	last := len(e.messages)
	for last > 0 && e.messages[last-1].Role != model.RoleAssistant {
		last--
	}
	var list []*call
	for _, c := range e.order {
		if c.message == 0 || c.message > last || c.compacted {
			continue
		}
		if c.sum != nil || over && len(list) < maxParallel && len(e.messages[c.message-1].Text) >= minCompact {
			list = append(list, c)
		}
	}
	return list
}

// fit returns the request with at most limit bytes. What is shortened first is what matters
// least: results of older turns, then whole older turns, then the results of the last turn, the
// first message, the instructions and the tools. Each call keeps its result.
func fit(r model.Request, limit int) model.Request {
	size := RequestTokens(r) * bytesPerToken
	if size <= limit {
		return r
	}
	r.Messages = slices.Clone(r.Messages)
	shorten := func(m *model.Message, to int, hint string) {
		if size <= limit || len(m.Text) <= to {
			return
		}
		before := len(m.Text)
		m.Text = Excerpt(m.Text, max(to, before-(size-limit)), hint)
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
			}
		}
		if m := &r.Messages[i]; size > limit && len(m.State) > 0 {
			size -= len(m.State)
			m.State = nil
		}
	}
	for size > limit && len(r.Tools) > 0 {
		n := len(r.Tools) - 1
		size -= toolBytes(r.Tools[n:])
		r.Tools = r.Tools[:n]
	}
	if size > limit {
		before := len(r.System)
		r.System = Excerpt(r.System, max(0, before-(size-limit)), "the instructions do not fit the window")
		size -= before - len(r.System)
	}
	for i := range r.Messages {
		shorten(&r.Messages[i], 0, "")
	}
	return r
}
