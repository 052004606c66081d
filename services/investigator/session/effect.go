package session

import (
	"encoding/json"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// Due is what a state asks for.
//
// A worker stores Facts first, with the time, folds them and asks [Next] again. Without facts it
// compares Effects with those that it has under way, by their keys: it starts what is new, and
// ends what is no longer named. Before it starts an effect it stores the effect's own Before
// facts. An effect ends with the facts that its field names, which the worker stores.
type Due struct {
	Facts   []Fact
	Effects []Effect
	// Wake is when time alone changes what is due: ask again then. It is zero where nothing
	// but a fact does.
	Wake time.Time
}

// Effect is one thing for the worker to do. Exactly one of the pointers is set.
type Effect struct {
	// Key is stable: it is the same each time the effect is named, and no other effect of the
	// session has it.
	Key string
	// Before is stored before the effect starts; the worker sets the time. It is empty where
	// the current worker stored it already.
	Before []Fact
	// Deadline is when the effect is given up. [Next] decides what follows.
	Deadline time.Time

	Gather *Gather
	List   *ListTools
	Ask    *Ask
	Call   *CallTool
	Read   *ReadResult
	Check  *CheckConclusion
}

// Gather collects what Tocsin knows without a model. It ends with [Gathered].
type Gather struct{}

// ListTools asks the servers of an execution for their tools. It ends with [ToolsListed].
type ListTools struct {
	Execution string
	Servers   []Server
	// IDs are the interactions' ids, one for each server.
	IDs []string
}

// Ask asks a model. It ends with [ModelAnswered] or [ModelFailed] for ID; [Streaming] may come
// before that.
type Ask struct {
	ID        string
	Execution string // empty for the executive summary
	Purpose   Purpose
	Provider  Provider
	// Last means that no fallback is left: a call waits for the trial of a provider that failed often.
	Last bool
	// Attempt counts the calls with this ID, from 1.
	Attempt int
	Request model.Request
	// Source is set for a summarization of a result that is an object: the worker reads it and
	// sends what [Ask.WithSource] returns instead of Request.
	Source *Text

	source func(string) model.Request
}

// WithSource returns the request with the text of a.Source.
func (a *Ask) WithSource(text string) model.Request {
	if a.source == nil {
		return a.Request
	}
	return a.source(text)
}

// CallTool calls one tool. It ends with [ToolAnswered].
type CallTool struct {
	Execution string
	ID        string
	CallID    string
	Server    string
	Tool      ListedTool
	// Arguments is a JSON object.
	Arguments json.RawMessage
	// Timeout is that of one call.
	Timeout time.Duration
}

// ReadResult answers a call of read_result. The worker reads Text, and stores what
// [ReadResult.Answer] returns.
type ReadResult struct {
	Execution string
	CallID    string
	Text      Text
	Offset    int
	Search    string
	limit     int // bytes that are shown
}

// CheckConclusion checks the evidence of a conclusion. The worker stores what
// [CheckConclusion.Check] returns.
type CheckConclusion struct {
	Execution string
	CallID    string
	// Arguments is the text as the model wrote it.
	Arguments string
	// Sources are the texts that the evidence may cite, by the ids under which the model saw
	// them. One id may stand for several texts, because the ids of calls are unique only
	// within their execution.
	Sources map[string][]Text
}
