package openai

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/respjson"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// chat asks Chat Completions.
type chat struct {
	config  Config
	service sdk.ChatCompletionService
}

// Generate implements [model.Model].
func (m *chat) Generate(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		body, err := encodeChat(m.config, r)
		if err != nil {
			yield(model.Chunk{}, unencodable(err))
			return
		}
		var params sdk.ChatCompletionNewParams
		param.SetJSON(body, &params)
		stream := m.service.NewStreaming(ctx, params)
		defer func() { _ = stream.Close() }()
		a := chatAnswer{calls: map[int64]*growingCall{}}
		for stream.Next() {
			chunks, failure := a.event(stream.Current())
			if failure != nil {
				failure.Usage = a.usage
				yield(model.Chunk{}, failure)
				return
			}
			for _, c := range chunks {
				if !yield(c, nil) {
					return
				}
			}
		}
		// Servers differ in what follows finish_reason: usage, [DONE], nothing, or a cut.
		if err := stream.Err(); a.finish == "" || (err != nil && ctx.Err() != nil) {
			failure := m.config.failure(ctx, err, a.started)
			failure.Usage = a.usage
			yield(model.Chunk{}, failure)
			return
		}
		for _, c := range a.wholeCalls() {
			if !yield(model.Chunk{Call: &c}, nil) {
				return
			}
		}
		yield(model.Chunk{Done: &model.Done{Stop: a.stop(), Usage: a.usage, State: model.State(a.state())}}, nil)
	}
}

// chatAnswer folds the events of a stream.
type chatAnswer struct {
	calls   map[int64]*growingCall
	finish  string
	usage   model.Usage
	started bool
	refused bool
	// field is the name under which the server sends its thinking, and thinking its text. Some
	// servers require it back in a turn with calls.
	field    string
	thinking strings.Builder
}

// growingCall is a call whose arguments are not complete.
type growingCall struct {
	id, name  string
	arguments strings.Builder
	// extra has fields of the server, such as the signature of a thought.
	extra json.RawMessage
}

func (a *chatAnswer) event(e sdk.ChatCompletionChunk) ([]model.Chunk, *model.Error) {
	if e.JSON.Usage.Valid() {
		a.usage = model.Usage{
			Input: int(max(0, e.Usage.PromptTokens)), Cached: int(max(0, e.Usage.PromptTokensDetails.CachedTokens)),
			Output: int(max(0, e.Usage.CompletionTokens)), Thinking: int(max(0, e.Usage.CompletionTokensDetails.ReasoningTokens)),
		}
	}
	var chunks []model.Chunk
	for _, choice := range e.Choices {
		if choice.Index != 0 {
			continue // one answer was asked for
		}
		if choice.FinishReason != "" {
			a.finish = choice.FinishReason
		}
		d := choice.Delta
		for _, field := range []string{"reasoning_content", "reasoning"} {
			if text := extraText(d.JSON.ExtraFields, field); text != "" {
				a.field = field
				if a.thinking.Len() <= model.MaxThinkingBytes {
					a.thinking.WriteString(text)
				}
				chunks = append(chunks, model.Chunk{Thinking: text})
				break
			}
		}
		if d.Refusal != "" {
			a.refused = true
			chunks = append(chunks, model.Chunk{Text: d.Refusal})
		}
		if d.Content != "" {
			chunks = append(chunks, model.Chunk{Text: d.Content})
		}
		for _, t := range d.ToolCalls {
			if failure := a.call(t); failure != nil {
				return nil, failure
			}
			chunks = append(chunks, model.Chunk{})
		}
	}
	a.started = a.started || len(chunks) > 0
	return chunks, nil
}

// call joins a part of a call to what came before.
func (a *chatAnswer) call(t sdk.ChatCompletionChunkChoiceDeltaToolCall) *model.Error {
	index := t.Index
	// Some servers send all calls whole with the index 0, or none.
	if c := a.calls[index]; c != nil && t.ID != "" && c.id != "" && t.ID != c.id {
		index = int64(len(a.calls))
		for i, c := range a.calls {
			if c.id == t.ID {
				index = i
			}
		}
	}
	if index < 0 || index > maxIndex || len(a.calls) > maxIndex {
		return &model.Error{Kind: model.Malformed, Message: "a tool call with an impossible index"}
	}
	c := a.calls[index]
	if c == nil {
		c = &growingCall{}
		a.calls[index] = c
	}
	if t.ID != "" {
		c.id = t.ID
	}
	if t.Function.Name != "" && c.name == "" {
		c.name = t.Function.Name
	}
	if extra, ok := t.JSON.ExtraFields["extra_content"]; ok && json.Valid([]byte(extra.Raw())) {
		c.extra = json.RawMessage(extra.Raw())
	}
	c.arguments.WriteString(t.Function.Arguments)
	if c.arguments.Len() > model.MaxArgumentBytes {
		return model.TooManyArguments()
	}
	return nil
}

// wholeCalls returns the calls in the order of their indices.
func (a *chatAnswer) wholeCalls() []model.Call {
	var calls []model.Call
	for _, i := range slices.Sorted(maps.Keys(a.calls)) {
		c := a.calls[i]
		calls = append(calls, model.Call{ID: c.id, Name: c.name, Arguments: c.arguments.String()})
	}
	return calls
}

// state returns what the server wants back, in a turn with calls alone.
func (a *chatAnswer) state() []model.Part {
	if len(a.calls) == 0 {
		return nil
	}
	var parts []model.Part
	if a.field != "" {
		raw, err := json.Marshal(map[string]string{a.field: a.thinking.String()})
		if err == nil {
			parts = append(parts, model.Part{Raw: raw})
		}
	}
	for n, i := range slices.Sorted(maps.Keys(a.calls)) {
		parts = append(parts, model.Part{Call: &n, Extra: a.calls[i].extra})
	}
	return parts
}

func (a *chatAnswer) stop() model.Stop {
	switch {
	case a.finish == "length":
		return model.StopLength
	case a.finish == "content_filter", a.refused:
		return model.StopRefused
	}
	return model.StopEnd
}

// extraText returns the text of a field that the SDK does not know.
func extraText(fields map[string]respjson.Field, name string) string {
	var text string
	if f, ok := fields[name]; ok && json.Unmarshal([]byte(f.Raw()), &text) == nil {
		return text
	}
	return ""
}

// The request's JSON.
type (
	chatRequest struct {
		Model               string         `json:"model"`
		Messages            []any          `json:"messages"` // chatMessage, or one with further fields
		Tools               []chatTool     `json:"tools,omitempty"`
		MaxTokens           int            `json:"max_tokens,omitempty"`
		MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
		ReasoningEffort     string         `json:"reasoning_effort,omitempty"`
		StreamOptions       map[string]any `json:"stream_options"`
	}
	chatMessage struct {
		Role       string     `json:"role"`
		Content    *string    `json:"content,omitempty"`
		ToolCalls  []chatCall `json:"tool_calls,omitempty"`
		ToolCallID string     `json:"tool_call_id,omitempty"`
		// Reasoning fields come back under the name under which the server sent them.
		ReasoningContent string `json:"reasoning_content,omitempty"`
		Reasoning        string `json:"reasoning,omitempty"`
	}
	chatCall struct {
		ID           string          `json:"id"`
		Type         string          `json:"type"`
		Function     chatFunction    `json:"function"`
		ExtraContent json.RawMessage `json:"extra_content,omitempty"`
	}
	chatFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	chatTool struct {
		Type     string       `json:"type"`
		Function chatToolSpec `json:"function"`
	}
	chatToolSpec struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
)

// encodeChat returns the body of a request.
func encodeChat(c Config, r model.Request) ([]byte, error) {
	q := chatRequest{
		Model: c.Model, Messages: make([]any, 0, len(r.Messages)+1), ReasoningEffort: c.effort(),
		StreamOptions: map[string]any{"include_usage": true},
	}
	if c.atOpenAI() {
		q.MaxCompletionTokens = c.maxOutput(r)
	} else { // other servers know the older name
		q.MaxTokens = c.maxOutput(r)
	}
	if r.System != "" {
		q.Messages = append(q.Messages, chatMessage{Role: "system", Content: &r.System})
	}
	messages := r.Messages
	if len(r.Tools) == 0 && !c.atOpenAI() {
		messages = withoutCalls(messages)
	}
	for i := range messages {
		m := &messages[i]
		switch m.Role {
		case model.RoleTool:
			text := result(*m)
			q.Messages = append(q.Messages, chatMessage{Role: "tool", Content: &text, ToolCallID: m.CallID})
		case model.RoleAssistant:
			if m.Text != "" || len(m.Calls) > 0 { // servers refuse an empty answer
				q.Messages = append(q.Messages, chatAssistant(*m, c.Name))
			}
		default:
			q.Messages = append(q.Messages, chatMessage{Role: "user", Content: &m.Text})
		}
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, chatTool{Type: "function", Function: chatToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Schema}})
	}
	return encoded(q)
}

// withoutCalls returns the conversation with calls and results as texts. Servers with a model of another
// provider behind them, such as LiteLLM, refuse both in a request without tools. A result is fenced by
// its digest, which it can't have within itself.
func withoutCalls(messages []model.Message) []model.Message {
	names := map[string]string{}
	plain := make([]model.Message, 0, len(messages))
	for _, m := range messages {
		switch {
		case m.Role == model.RoleTool:
			sum := sha256.Sum256([]byte(m.Text))
			fence := hex.EncodeToString(sum[:8])
			m = model.Message{Role: model.RoleUser, Text: fmt.Sprintf("Result of %s (%s), data between two lines %s:\n%s\n%s\n%s", names[m.CallID], m.CallID, fence, fence, result(m), fence)}
		case len(m.Calls) > 0:
			texts := []string{}
			if m.Text != "" {
				texts = append(texts, m.Text)
			}
			for _, call := range m.Calls {
				names[call.ID] = call.Name
				texts = append(texts, fmt.Sprintf("Called %s (%s) with %s", call.Name, call.ID, call.Arguments))
			}
			m = model.Message{Role: model.RoleAssistant, Text: strings.Join(texts, "\n")}
		}
		plain = append(plain, m)
	}
	return plain
}

func chatAssistant(m model.Message, provider string) chatMessage {
	out := chatMessage{Role: "assistant"}
	if m.Text != "" {
		out.Content = &m.Text
	}
	for _, p := range model.Parts(m, provider) {
		switch {
		case p.Call != nil:
			call := m.Calls[*p.Call]
			arguments := call.Arguments
			if !json.Valid([]byte(arguments)) { // some servers read them
				arguments = string(model.Arguments(arguments))
			}
			out.ToolCalls = append(out.ToolCalls, chatCall{
				ID: call.ID, Type: "function", Function: chatFunction{Name: call.Name, Arguments: arguments}, ExtraContent: p.Extra,
			})
		case len(p.Raw) > 0:
			_ = json.Unmarshal(p.Raw, &out) // it is an object of the two fields; see state
			out.Role = "assistant"
		}
	}
	return out
}
