// Package model asks language models. It has the types of a request and its answer, which are
// the same for all providers; the folders below it speak to the providers.
//
// The types hold no secrets and know no transport, so that a conversation can be stored with
// its session and continued by another process.
package model

import (
	"context"
	"encoding/json"
	"iter"
)

// Model is one entry of llm_providers.
type Model interface {
	// Generate asks once: without retries, and without a limit of time other than that of
	// ctx and the provider's time-outs. The answer is a sequence of chunks; the last has
	// Done. A failure is an [*Error], after which nothing follows. The sequence may be
	// ranged over once.
	Generate(ctx context.Context, r Request) iter.Seq2[Chunk, error]
}

// Request is a conversation, and what may be answered to it.
type Request struct {
	// System has the instructions, apart from the conversation.
	System string `json:"system"`
	// Messages begin with one of RoleUser. Each call of an assistant's message is followed by
	// its result, in the order of the calls, before the next message of another role.
	Messages []Message `json:"messages"`
	// Tools may be called; none means that the answer is text.
	Tools []Tool `json:"tools,omitempty"`
	// MaxOutputTokens bounds the answer; 0 is the bound of the provider's entry.
	MaxOutputTokens int `json:"max_output_tokens,omitempty"`
}

// Role says whose a message is.
type Role string

// The roles. The instructions are no message: see Request.System.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	// RoleTool is the result of one tool call.
	RoleTool Role = "tool"
)

// Message is one message of a conversation.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`
	// Calls are the tool calls of an assistant's message, in the model's order.
	Calls []Call `json:"calls,omitempty"`
	// CallID, ToolName and IsError belong to a result.
	CallID   string `json:"call_id,omitempty"`
	ToolName string `json:"tool_name,omitempty"`
	IsError  bool   `json:"is_error,omitempty"`
	// State is what the provider wants back with an assistant's message: signatures of
	// thoughts, encrypted reasoning. It is opaque, and only for the entry named in Provider:
	// another one ignores it.
	State    json.RawMessage `json:"state,omitempty"`
	Provider string          `json:"provider,omitempty"`
}

// Call is one tool call of a model.
type Call struct {
	// ID is unique within its execution. Where a provider sends none, or one twice, the
	// caller of [Model] gives it another.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is the text as the model wrote it. It may be no JSON.
	Arguments string `json:"arguments"`
}

// Tool is a tool that a model may call.
type Tool struct {
	// Name has letters, digits, _ and -, at most 64: what all providers accept.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON schema of the arguments, an object.
	Schema json.RawMessage `json:"schema"`
}

// Chunk is a part of an answer. At most one field is set. A chunk with none is a sign of life:
// the model writes something that comes whole later, such as the arguments of a call.
type Chunk struct {
	Text     string
	Thinking string
	// Call is a whole tool call.
	Call *Call
	Done *Done
}

// Done ends an answer.
type Done struct {
	Stop  Stop
	Usage Usage
	// State goes into the message that the answer becomes. See Message.State.
	State json.RawMessage
}

// Stop is why an answer ended.
type Stop string

// The reasons.
const (
	// StopEnd is the end of the model's turn, with or without calls.
	StopEnd Stop = "end"
	// StopLength means that the answer reached its bound of tokens. Calls may be cut.
	StopLength Stop = "length"
	// StopRefused means that the provider withheld the answer.
	StopRefused Stop = "refused"
)

// Usage counts tokens as the provider does.
type Usage struct {
	// Input includes Cached.
	Input  int `json:"input"`
	Cached int `json:"cached,omitempty"`
	// Output includes Thinking.
	Output   int `json:"output"`
	Thinking int `json:"thinking,omitempty"`
}

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Cached: u.Cached + v.Cached,
		Output: u.Output + v.Output, Thinking: u.Thinking + v.Thinking,
	}
}
