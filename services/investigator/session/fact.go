// Package session holds what a session is: the facts that are stored of it, the state that they
// fold into, and what is due next. It is pure: it knows no bus, no model, no tool and no clock.
//
// A session is a sequence of messages on its subject, and each message is a list of facts that
// belong together. [Session.Apply] folds them in their order. [Next] returns what is due in a
// state; a worker does it and stores the outcome as the next facts. So a worker that ends at any
// moment costs nothing that was stored: another one folds the same facts and goes on.
package session

import (
	"encoding/json"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Fact is one thing that happened. One of the pointers is set; none is where a newer version
// stored a fact that this one does not know.
type Fact struct {
	// Time is when it happened, by the clock of who stored it.
	Time time.Time `json:"time"`

	Submitted *Submitted `json:"submitted,omitempty"`
	Noted     *Noted     `json:"noted,omitempty"`
	Claimed   *Claimed   `json:"claimed,omitempty"`
	Released  *Released  `json:"released,omitempty"`
	Gathered  *Gathered  `json:"gathered,omitempty"`

	StageStarted   *StageStarted   `json:"stage_started,omitempty"`
	ModelAsked     *ModelAsked     `json:"model_asked,omitempty"`
	Streaming      *Streaming      `json:"streaming,omitempty"`
	ModelAnswered  *ModelAnswered  `json:"model_answered,omitempty"`
	ModelFailed    *ModelFailed    `json:"model_failed,omitempty"`
	Spent          *Spent          `json:"spent,omitempty"`
	FellBack       *FellBack       `json:"fell_back,omitempty"`
	ToolsListed    *ToolsListed    `json:"tools_listed,omitempty"`
	ToolCalled     *ToolCalled     `json:"tool_called,omitempty"`
	ToolAnswered   *ToolAnswered   `json:"tool_answered,omitempty"`
	Concluded      *Concluded      `json:"concluded,omitempty"`
	TimedOut       *TimedOut       `json:"timed_out,omitempty"`
	ExecutionEnded *ExecutionEnded `json:"execution_ended,omitempty"`
	StageEnded     *StageEnded     `json:"stage_ended,omitempty"`

	CancelRequested *CancelRequested `json:"cancel_requested,omitempty"`
	AlertResolved   *AlertResolved   `json:"alert_resolved,omitempty"`
	Retried         *Retried         `json:"retried,omitempty"`
	Ended           *Ended           `json:"ended,omitempty"`
}

// Submitted begins a session: always its first fact.
type Submitted struct {
	ID        string `json:"id"`
	AlertType string `json:"alert_type"`
	Author    string `json:"author"`
	// Data is the masked text of the alert.
	Data Text `json:"data"`
	// Alert is the stored alert that is investigated, or nil.
	Alert    *alert.Alert `json:"alert,omitempty"`
	DedupKey string       `json:"dedup_key,omitempty"`
	// Selection is what the alert chose of the servers, as it was submitted.
	Selection   json.RawMessage `json:"selection,omitempty"`
	Fingerprint string          `json:"slack_message_fingerprint,omitempty"`
	// Runbook is the address of a runbook that came with the alert.
	Runbook string `json:"runbook,omitempty"`
	Plan    Plan   `json:"plan"`
}

// Noted is a note in the timeline, such as another alert with the same key.
type Noted struct {
	Text string `json:"text"`
	// Count is how many the note stands for; 0 and 1 mean one.
	Count int `json:"count,omitempty"`
	// Joined means that it stands for alerts that joined the session.
	Joined bool `json:"joined,omitempty"`
}

// Claimed means that a worker has the session. Only facts of the newest epoch's worker are its
// progress; a worker that reads a newer claim than its own stops.
type Claimed struct {
	Worker string `json:"worker"`
	// Epoch rises by one with each claim.
	Epoch int `json:"epoch"`
}

// Released means that a worker gave the session back in good order, as at its shutdown.
type Released struct {
	Epoch int `json:"epoch"`
}

// Gathered has what Tocsin knew before the first model call.
type Gathered struct {
	Known []Known `json:"known"`
	// Missing names what could not be read in time.
	Missing []string `json:"missing,omitempty"`
}

// Known is one thing known without a model. Evidence can cite its ID.
type Known struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// StageStarted starts a stage and all its executions.
type StageStarted struct {
	ID string `json:"id"`
	// Index is the position as run, from 1.
	Index int    `json:"index"`
	Name  string `json:"name"`
	// Plan is the index of the configured stage, from 0. Synthesis reports whether the stage is the
	// synthesis of that one.
	Plan      int  `json:"plan"`
	Synthesis bool `json:"synthesis,omitempty"`
	// Executions are the ids of the executions, one for each agent.
	Executions []string `json:"executions"`
}

// Purpose is what a model is asked for.
type Purpose string

// The purposes.
const (
	PurposeIteration        Purpose = "iteration"
	PurposeForcedConclusion Purpose = "forced_conclusion"
	PurposeSynthesis        Purpose = "synthesis"
	PurposeSummarization    Purpose = "summarization"
	PurposeExecutiveSummary Purpose = "executive_summary"
)

// ModelAsked means that a model call begins. Where no outcome follows, the worker ended and the
// call is made again, with the same id.
type ModelAsked struct {
	// ID is the interaction's id.
	ID string `json:"id"`
	// Execution is empty for the executive summary.
	Execution string  `json:"execution,omitempty"`
	Purpose   Purpose `json:"purpose"`
	Provider  string  `json:"provider"`
	Model     string  `json:"model"`
	// CallID is the tool call whose result is summarized.
	CallID string `json:"call_id,omitempty"`
	// Reason is the reason for a forced conclusion.
	Reason string `json:"reason,omitempty"`
}

// Streaming means that the first chunk of an answer's text, or of its thinking, arrived. It makes
// the timeline event to which the chunks belong; it may be left out.
type Streaming struct {
	ID       string `json:"id"`
	Thinking bool   `json:"thinking,omitempty"`
}

// ModelAnswered is a whole answer, masked.
type ModelAnswered struct {
	ID       string       `json:"id"`
	Text     Text         `json:"text,omitzero"`
	Thinking Text         `json:"thinking,omitzero"`
	Calls    []model.Call `json:"calls,omitempty"`
	Stop     model.Stop   `json:"stop"`
	Usage    model.Usage  `json:"usage"`
	// FailedUsage is what the provider counted for the tries before this answer that failed.
	FailedUsage model.Usage     `json:"failed_usage,omitzero"`
	State       json.RawMessage `json:"state,omitempty"`
	// Cut reports whether the worker ended a repeating stream.
	Cut      bool          `json:"cut,omitempty"`
	Duration time.Duration `json:"duration"`
}

// ModelFailed is a call that failed for good with its provider, all tries included.
type ModelFailed struct {
	ID       string        `json:"id"`
	Error    string        `json:"error"`
	Kind     model.Kind    `json:"kind"`
	Duration time.Duration `json:"duration"`
	// Usage is what the provider counted for the tries, or zero where it sent no count.
	Usage model.Usage `json:"usage,omitzero"`
	// RetryAt is when the provider may be asked again, where it asks to wait for longer than a call
	// waits. The next provider is asked at once; without one the session waits until then.
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// Spent has what the provider counted for a call of a model that was ended before its outcome, such as
// one whose iteration timed out. It may be left out.
type Spent struct {
	// ID is the interaction's id. Each attempt of it counts once.
	ID      string      `json:"id"`
	Attempt int         `json:"attempt"`
	Usage   model.Usage `json:"usage"`
}

// FellBack means that an execution goes on with its next provider.
type FellBack struct {
	// Execution is empty for the executive summary.
	Execution string `json:"execution,omitempty"`
	From      string `json:"from"`
	To        string `json:"to"`
	Reason    string `json:"reason"`
}

// ToolsListed has the tools that an execution may use, as its servers offered them at its start.
type ToolsListed struct {
	Execution string   `json:"execution"`
	Servers   []Listed `json:"servers"`
}

// Listed is what one server offered.
type Listed struct {
	Server string `json:"server"`
	ID     string `json:"id"` // of the interaction
	// Error is the reason why the server could not be asked. Its tools are missing then.
	Error    string        `json:"error,omitempty"`
	Tools    []ListedTool  `json:"tools,omitempty"`
	Duration time.Duration `json:"duration"`
}

// ListedTool is one tool that is offered to the model.
type ListedTool struct {
	// Name is the server's, Tool.Name what the model sees.
	Name string     `json:"name"`
	Tool model.Tool `json:"tool"`
	// Repeatable means readOnlyHint or idempotentHint: a call may be made twice.
	Repeatable bool `json:"repeatable"`
	// Digest is that of the definition. A tool whose definition changes is not called.
	Digest string `json:"digest"`
}

// ToolCalled means that a tool call begins.
type ToolCalled struct {
	Execution string `json:"execution"`
	// ID is the interaction's and the timeline event's id, CallID the model's.
	ID     string `json:"id"`
	CallID string `json:"call_id"`
	Server string `json:"server"`
	Tool   string `json:"tool"`
	// Arguments are masked, as a JSON object.
	Arguments  json.RawMessage `json:"arguments"`
	Repeatable bool            `json:"repeatable"`
}

// ToolAnswered is the outcome of a tool call, masked. Without a [ToolCalled] before it, the
// engine answered the call itself.
type ToolAnswered struct {
	Execution string `json:"execution"`
	CallID    string `json:"call_id"`
	// Result is the whole masked text.
	Result  Text `json:"result"`
	IsError bool `json:"is_error,omitempty"`
	// Error is the failure where the server gave no result.
	Error    string        `json:"error,omitempty"`
	Duration time.Duration `json:"duration"`
}

// Concluded is the conclusion of the agent that ends the chain, with its evidence checked.
type Concluded struct {
	Execution string `json:"execution"`
	CallID    string `json:"call_id"`
	// Conclusion is the checked conclusion as people see it, where the arguments of the call
	// follow the schema. Otherwise Error lists what is wrong with them.
	Conclusion json.RawMessage `json:"conclusion,omitempty"`
	// Markdown is the conclusion as text.
	Markdown string `json:"markdown,omitempty"`
	// Unread are the cited ids with a stored text that could not be read. Their quotes were
	// looked up in its head and tail.
	Unread []string `json:"unread,omitempty"`
	Error  string   `json:"error,omitempty"`
}

// TimedOut means that an iteration of an execution took too long.
type TimedOut struct {
	// Execution is empty for the executive summary.
	Execution string `json:"execution,omitempty"`
	// ID is the interaction that began the iteration.
	ID string `json:"id"`
}

// ExecutionEnded ends an execution.
type ExecutionEnded struct {
	Execution string `json:"execution"`
	Status    Status `json:"status"`
	Analysis  Text   `json:"analysis,omitzero"`
	Error     string `json:"error,omitempty"`
}

// StageEnded ends a stage.
type StageEnded struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
	Error  string `json:"error,omitempty"`
}

// CancelRequested asks to end the session. Reason is shown as its error.
type CancelRequested struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// AlertResolved means that the investigated alert was resolved.
type AlertResolved struct {
	Alert string `json:"alert"` // the id of the alert that resolves it
	Title string `json:"title"`
}

// Retried makes an ended session pending again, with a new plan. Completed stages are kept.
type Retried struct {
	By   string `json:"by"`
	Plan Plan   `json:"plan"`
}

// Ended ends the session.
type Ended struct {
	Status Status `json:"status"`
	Error  string `json:"error,omitempty"`
	// SummaryError is the reason why there is no executive summary.
	SummaryError string `json:"summary_error,omitempty"`
}

// Status is the status of a session, a stage or an execution.
type Status string

// The statuses. A stage or an execution has no StatusPending and no StatusCancelling.
const (
	StatusPending    Status = "pending"
	StatusInProgress Status = "in_progress"
	StatusCancelling Status = "cancelling"
	StatusCompleted  Status = "completed"
	StatusFailed     Status = "failed"
	StatusCancelled  Status = "cancelled"
	StatusTimedOut   Status = "timed_out"
)
