// Package anthropic asks Anthropic's Messages API by its official SDK, which adds nothing from
// the environment: no key, no address, no header, no profile, no telemetry.
package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/model/endpoint"
)

// BaseURL is Anthropic's own address.
const BaseURL = "https://api.anthropic.com"

// DefaultMaxOutputTokens bounds an answer where neither the request nor the entry does: the
// API requires a bound.
const DefaultMaxOutputTokens = 8192

const (
	// minBudget is the least budget for thinking that the API accepts.
	minBudget = 1024
	// maxBlocks bounds the blocks of one answer.
	maxBlocks = 512
)

// Config is an entry of llm_providers of type anthropic.
type Config struct {
	// Name is the name of the entry. Only State of the same name is sent back.
	Name  string
	Model string
	Key   string
	// BaseURL is [BaseURL] where it is empty.
	BaseURL         string
	MaxOutputTokens int
	// ThinkingBudget is the number of tokens for thinking; 0 means no thinking.
	ThinkingBudget int
}

// New returns a model. It fails for an address that may not be given the key.
func New(c Config) (model.Model, error) {
	if c.BaseURL == "" {
		c.BaseURL = BaseURL
	}
	if c.Model == "" {
		return nil, errors.New("model is missing")
	}
	if err := endpoint.Check(c.BaseURL, c.Key); err != nil {
		return nil, err
	}
	if c.ThinkingBudget > 0 && c.ThinkingBudget < minBudget {
		return nil, fmt.Errorf("thinking.budget_tokens must be at least %d", minBudget)
	}
	options := []option.RequestOption{
		option.WithBaseURL(c.BaseURL),
		option.WithHTTPClient(endpoint.NewClient(c.Key)),
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(),
		option.WithOpenTelemetryPropagation(false),
	}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	// The service, unlike the SDK's client, reads nothing from the environment.
	return &messages{config: c, service: sdk.NewMessageService(options...)}, nil
}

type messages struct {
	config  Config
	service sdk.MessageService
}

// Generate implements [model.Model].
func (m *messages) Generate(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		body, err := encode(m.config, r)
		if err != nil {
			yield(model.Chunk{}, &model.Error{Kind: model.Refused, Message: "the request can't be encoded", Cause: err})
			return
		}
		var params sdk.MessageNewParams
		param.SetJSON(body, &params)
		stream := m.service.NewStreaming(ctx, params)
		defer func() { _ = stream.Close() }()
		a := answer{blocks: map[int64]*block{}}
		for stream.Next() {
			chunk, ok, failure := a.event(stream.Current())
			if failure != nil {
				failure.Usage = a.usage
				yield(model.Chunk{}, failure)
				return
			}
			if ok && !yield(chunk, nil) {
				return
			}
			if a.stopped {
				break
			}
		}
		if a.stop == "" || (!a.stopped && stream.Err() != nil) {
			failure := m.failure(ctx, stream.Err(), a.started)
			failure.Usage = a.usage
			yield(model.Chunk{}, failure)
			return
		}
		yield(model.Chunk{Done: &model.Done{Stop: a.reason(), Usage: a.usage, State: model.State(a.parts)}}, nil)
	}
}

// failure returns the error of a stream.
func (m *messages) failure(ctx context.Context, err error, started bool) *model.Error {
	var reported *sdk.Error
	if ctx.Err() == nil && errors.As(err, &reported) {
		var event struct {
			Error struct {
				Type    string `json:"type"`
				Message string `json:"message"`
			} `json:"error"`
		}
		if json.Unmarshal([]byte(reported.RawJSON()), &event) == nil {
			return endpoint.Event(event.Error.Type, event.Error.Message, m.config.Key)
		}
		return &model.Error{Kind: model.Malformed, Message: "an error in the stream that can't be read"}
	}
	return endpoint.Failure(ctx, err, started, m.config.Key)
}

// answer folds the events of a stream.
type answer struct {
	blocks  map[int64]*block
	parts   []model.Part
	calls   int
	usage   model.Usage
	stop    string
	stopped bool
	// started reports that a chunk came.
	started bool
}

// block is a part of the answer that is not complete.
type block struct {
	kind, id, name  string
	input           json.RawMessage
	text, signature strings.Builder
}

// event takes one event and returns the chunk that it makes, if any.
func (a *answer) event(e sdk.MessageStreamEventUnion) (model.Chunk, bool, *model.Error) {
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		a.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens, 0)
	case "content_block_start":
		return a.begin(e)
	case "content_block_delta":
		return a.delta(e)
	case "content_block_stop":
		return a.end(e.Index)
	case "message_delta":
		if e.Delta.StopReason != "" {
			a.stop = string(e.Delta.StopReason)
		}
		u := e.Usage
		a.count(u.InputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
	case "message_stop":
		a.stopped = true
		if a.stop == "" {
			a.stop = string(sdk.StopReasonEndTurn)
		}
	}
	return model.Chunk{}, false, nil
}

// count takes the figures of an event, which count from the beginning and may be missing.
func (a *answer) count(input, read, written, output, thinking int64) {
	if n := int(input + read + written); n > 0 {
		a.usage.Input = max(a.usage.Input, n)
	}
	a.usage.Cached = max(a.usage.Cached, int(read))
	a.usage.Output = max(a.usage.Output, int(output))
	a.usage.Thinking = max(a.usage.Thinking, int(thinking))
}

func (a *answer) begin(e sdk.MessageStreamEventUnion) (model.Chunk, bool, *model.Error) {
	if len(a.blocks) >= maxBlocks {
		return model.Chunk{}, false, &model.Error{Kind: model.Malformed, Message: "the answer has too many blocks"}
	}
	var start struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Text  string          `json:"text"`
		Input json.RawMessage `json:"input"`
	}
	raw := e.ContentBlock.RawJSON()
	if err := json.Unmarshal([]byte(raw), &start); err != nil {
		return model.Chunk{}, false, &model.Error{Kind: model.Malformed, Message: "a block of the answer can't be read", Cause: err}
	}
	a.blocks[e.Index] = &block{kind: start.Type, id: start.ID, name: start.Name, input: start.Input}
	switch start.Type {
	case "text":
		a.parts = append(a.parts, model.Part{Text: true})
		if start.Text != "" {
			a.started = true
			return model.Chunk{Text: start.Text}, true, nil
		}
	case "redacted_thinking":
		a.parts = append(a.parts, model.Part{Raw: json.RawMessage(raw)})
	}
	return model.Chunk{}, false, nil
}

func (a *answer) delta(e sdk.MessageStreamEventUnion) (model.Chunk, bool, *model.Error) {
	b := a.blocks[e.Index]
	if b == nil {
		return model.Chunk{}, false, &model.Error{Kind: model.Malformed, Message: "a part of a block that did not begin"}
	}
	a.started = true
	switch e.Delta.Type {
	case "text_delta":
		return model.Chunk{Text: e.Delta.Text}, e.Delta.Text != "", nil
	case "thinking_delta":
		b.text.WriteString(e.Delta.Thinking)
		return model.Chunk{Thinking: e.Delta.Thinking}, e.Delta.Thinking != "", nil
	case "signature_delta":
		b.signature.WriteString(e.Delta.Signature)
	case "input_json_delta":
		b.text.WriteString(e.Delta.PartialJSON)
		if b.text.Len() > model.MaxArgumentBytes {
			return model.Chunk{}, false, model.TooManyArguments()
		}
	}
	return model.Chunk{}, true, nil
}

func (a *answer) end(index int64) (model.Chunk, bool, *model.Error) {
	b := a.blocks[index]
	if b == nil {
		return model.Chunk{}, false, nil
	}
	delete(a.blocks, index)
	switch b.kind {
	case "thinking":
		raw, err := json.Marshal(map[string]string{"type": "thinking", "thinking": b.text.String(), "signature": b.signature.String()})
		if err == nil && b.signature.Len() > 0 { // without a signature it would be refused
			a.parts = append(a.parts, model.Part{Raw: raw})
		}
	case "tool_use":
		arguments := b.text.String()
		if arguments == "" {
			arguments = "{}"
			if len(b.input) > 0 && string(b.input) != "null" {
				arguments = string(b.input)
			}
		}
		n := a.calls
		a.calls++
		a.started = true
		a.parts = append(a.parts, model.Part{Call: &n})
		return model.Chunk{Call: &model.Call{ID: b.id, Name: b.name, Arguments: arguments}}, true, nil
	}
	return model.Chunk{}, false, nil
}

// reason returns why the answer ended.
func (a *answer) reason() model.Stop {
	switch sdk.StopReason(a.stop) {
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return model.StopLength
	case sdk.StopReasonRefusal:
		return model.StopRefused
	default:
		return model.StopEnd
	}
}

// The request's JSON.
type (
	request struct {
		Model     string    `json:"model"`
		MaxTokens int       `json:"max_tokens"`
		System    []content `json:"system,omitempty"`
		Messages  []message `json:"messages"`
		Tools     []tool    `json:"tools,omitempty"`
		Thinking  *thinking `json:"thinking,omitempty"`
	}
	message struct {
		Role    string `json:"role"`
		Content []any  `json:"content"` // content, or raw JSON
	}
	content struct {
		Type         string          `json:"type"`
		Text         string          `json:"text,omitempty"`
		ID           string          `json:"id,omitempty"`
		Name         string          `json:"name,omitempty"`
		Input        json.RawMessage `json:"input,omitempty"`
		ToolUseID    string          `json:"tool_use_id,omitempty"`
		Content      string          `json:"content,omitempty"`
		IsError      bool            `json:"is_error,omitempty"`
		CacheControl *cacheControl   `json:"cache_control,omitempty"`
	}
	tool struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		InputSchema json.RawMessage `json:"input_schema"`
	}
	thinking struct {
		Type         string `json:"type"`
		BudgetTokens int    `json:"budget_tokens"`
	}
	cacheControl struct {
		Type string `json:"type"`
	}
)

// encode returns the body of a request. Two points of it are cached by the provider: the end
// of the instructions, before which the tools stand, and the end of the conversation.
func encode(c Config, r model.Request) ([]byte, error) {
	q := request{Model: c.Model, MaxTokens: DefaultMaxOutputTokens, Messages: make([]message, 0, len(r.Messages))}
	switch {
	case r.MaxOutputTokens > 0:
		q.MaxTokens = r.MaxOutputTokens
	case c.MaxOutputTokens > 0:
		q.MaxTokens = c.MaxOutputTokens
	}
	cached := &cacheControl{Type: "ephemeral"}
	if r.System != "" {
		q.System = []content{{Type: "text", Text: r.System, CacheControl: cached}}
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, tool{Name: t.Name, Description: t.Description, InputSchema: t.Schema})
	}
	signed := true
	for i := range r.Messages {
		m := &r.Messages[i]
		role, blocks := "user", []any(nil)
		switch m.Role {
		case model.RoleTool:
			blocks = []any{&content{Type: "tool_result", ToolUseID: m.CallID, Content: m.Text, IsError: m.IsError}}
		case model.RoleAssistant:
			role = "assistant"
			parts := model.Parts(*m, c.Name)
			signed = signed && (len(m.Calls) == 0 || model.HasRaw(parts))
			blocks = assistant(*m, parts)
		default:
			signed = true // thinking is needed in the turn that goes on alone
			if m.Text != "" {
				blocks = []any{&content{Type: "text", Text: m.Text}}
			}
		}
		if last := len(q.Messages) - 1; last >= 0 && q.Messages[last].Role == role {
			q.Messages[last].Content = append(q.Messages[last].Content, blocks...)
		} else if len(blocks) > 0 {
			q.Messages = append(q.Messages, message{Role: role, Content: blocks})
		}
	}
	// A turn of calls without their thinking, from another provider or a cut answer, is refused
	// where thinking is on.
	if budget := c.ThinkingBudget; budget > 0 && signed && q.MaxTokens > minBudget {
		if budget >= q.MaxTokens {
			budget = max(minBudget, q.MaxTokens/2)
		}
		q.Thinking = &thinking{Type: "enabled", BudgetTokens: budget}
	}
	if n := len(q.Messages); n > 0 {
		blocks := q.Messages[n-1].Content
		if last, ok := blocks[len(blocks)-1].(*content); ok {
			last.CacheControl = cached
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(q); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return out.Bytes(), nil
}

// assistant returns the blocks of an assistant's message.
func assistant(m model.Message, parts []model.Part) []any {
	blocks := make([]any, 0, len(parts))
	for _, p := range parts {
		switch {
		case p.Call != nil:
			call := m.Calls[*p.Call]
			blocks = append(blocks, &content{Type: "tool_use", ID: call.ID, Name: call.Name, Input: model.Arguments(call.Arguments)})
		case p.Text:
			if strings.TrimSpace(m.Text) != "" { // the API refuses blank texts
				blocks = append(blocks, &content{Type: "text", Text: m.Text})
			}
		default:
			blocks = append(blocks, p.Raw)
		}
	}
	return blocks
}
