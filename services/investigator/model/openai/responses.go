package openai

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/model/endpoint"
)

// response asks the Responses API. Nothing is stored there: reasoning comes encrypted, and is
// sent back.
type response struct {
	config  Config
	service responses.ResponseService
}

// Generate implements [model.Model].
func (m *response) Generate(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		body, err := encodeResponses(m.config, r)
		if err != nil {
			yield(model.Chunk{}, unencodable(err))
			return
		}
		var params responses.ResponseNewParams
		param.SetJSON(body, &params)
		stream := m.service.NewStreaming(ctx, params)
		defer func() { _ = stream.Close() }()
		a := responseAnswer{key: m.config.Key}
		for stream.Next() {
			chunk, ok, failure := a.event(stream.Current())
			if failure != nil {
				yield(model.Chunk{}, failure)
				return
			}
			if ok {
				a.started = true
				if !yield(chunk, nil) || chunk.Done != nil {
					return
				}
			}
		}
		yield(model.Chunk{}, m.config.failure(ctx, stream.Err(), a.started))
	}
}

// responseAnswer folds the events of a stream.
type responseAnswer struct {
	key       string
	parts     []model.Part
	calls     int
	arguments int
	refused   bool
	started   bool
	// thinking is what came of the current item's reasoning.
	thinking strings.Builder
}

func (a *responseAnswer) event(e responses.ResponseStreamEventUnion) (model.Chunk, bool, *model.Error) {
	switch e.Type {
	case "response.output_text.delta":
		return model.Chunk{Text: e.Delta}, e.Delta != "", nil
	case "response.refusal.delta":
		a.refused = true
		return model.Chunk{Text: e.Delta}, e.Delta != "", nil
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		if a.thinking.Len() <= model.MaxThinkingBytes {
			a.thinking.WriteString(e.Delta)
		}
		return model.Chunk{Thinking: e.Delta}, e.Delta != "", nil
	case "response.reasoning_summary_part.added":
		if e.SummaryIndex > 0 {
			return model.Chunk{Thinking: "\n\n"}, true, nil
		}
	case "response.output_item.added":
		a.arguments = 0
		a.thinking.Reset()
	case "response.function_call_arguments.delta":
		a.arguments += len(e.Delta)
		if a.arguments > model.MaxArgumentBytes {
			return model.Chunk{}, false, model.TooManyArguments()
		}
		return model.Chunk{}, true, nil
	case "response.output_item.done":
		return a.item(e)
	case "response.completed", "response.incomplete":
		return model.Chunk{Done: a.done(e)}, true, nil
	case "response.failed":
		failure := endpoint.Event(string(e.Response.Error.Code), e.Response.Error.Message, a.key)
		failure.Usage = usage(e)
		return model.Chunk{}, false, failure
	case "error":
		return model.Chunk{}, false, endpoint.Event(e.Code, e.Message, a.key)
	}
	return model.Chunk{}, false, nil
}

// item takes a whole item of the output.
func (a *responseAnswer) item(e responses.ResponseStreamEventUnion) (model.Chunk, bool, *model.Error) {
	var item struct {
		Type      string          `json:"type"`
		CallID    string          `json:"call_id"`
		Name      string          `json:"name"`
		Arguments string          `json:"arguments"`
		Phase     json.RawMessage `json:"phase"`
	}
	raw := e.Item.RawJSON()
	if err := json.Unmarshal([]byte(raw), &item); err != nil || len(a.parts) > maxIndex {
		return model.Chunk{}, false, &model.Error{Kind: model.Malformed, Message: "an item of the answer can't be read", Cause: err}
	}
	switch item.Type {
	case "reasoning":
		if texts, ok := plainTexts(raw); ok { // an unknown form may have any text
			a.parts = append(a.parts, model.Part{Raw: json.RawMessage(raw)})
			missing := a.missing(texts)
			return model.Chunk{Thinking: missing}, missing != "", nil
		}
	case "message":
		part := model.Part{Text: true}
		if string(item.Phase) != "null" {
			part.Extra = item.Phase
		}
		a.parts = append(a.parts, part)
	case "function_call":
		if len(item.Arguments) > model.MaxArgumentBytes {
			return model.Chunk{}, false, model.TooManyArguments()
		}
		n := a.calls
		a.calls++
		a.parts = append(a.parts, model.Part{Call: &n})
		return model.Chunk{Call: &model.Call{ID: item.CallID, Name: item.Name, Arguments: item.Arguments}}, true, nil
	}
	return model.Chunk{}, false, nil
}

// plainText is reasoning that is not encrypted.
type plainText struct {
	Text string `json:"text"`
}

// plainTexts returns the plain texts of a reasoning item. ok is false where it can't be read.
func plainTexts(raw string) (texts []plainText, ok bool) {
	var item struct {
		Summary []plainText `json:"summary"`
		Content []plainText `json:"content"`
	}
	err := json.Unmarshal([]byte(raw), &item)
	return append(item.Summary, item.Content...), err == nil
}

// missing returns the reasoning of an item that did not come in parts before: the item is kept as it
// is, and the caller has to see all of its text.
func (a *responseAnswer) missing(texts []plainText) string {
	came := a.thinking.String()
	a.thinking.Reset()
	var missing []string
	for _, t := range texts {
		if t.Text == "" {
			continue
		}
		if before, after, ok := strings.Cut(came, t.Text); ok {
			came = before + after
		} else {
			missing = append(missing, t.Text)
		}
	}
	return strings.Join(missing, "\n\n")
}

func (a *responseAnswer) done(e responses.ResponseStreamEventUnion) *model.Done {
	d := &model.Done{Stop: model.StopEnd, Usage: usage(e), State: model.State(a.parts)}
	switch reason := e.Response.IncompleteDetails.Reason; {
	case reason == "content_filter", a.refused:
		d.Stop = model.StopRefused
	case reason != "", e.Type == "response.incomplete":
		d.Stop = model.StopLength
	}
	return d
}

// usage returns the figures of an event that ends an answer.
func usage(e responses.ResponseStreamEventUnion) model.Usage {
	u := e.Response.Usage
	return model.Usage{
		Input: int(max(0, u.InputTokens)), Cached: int(max(0, u.InputTokensDetails.CachedTokens)),
		Output: int(max(0, u.OutputTokens)), Thinking: int(max(0, u.OutputTokensDetails.ReasoningTokens)),
	}
}

// The request's JSON.
type (
	responsesRequest struct {
		Model           string          `json:"model"`
		Instructions    string          `json:"instructions,omitempty"`
		Input           []any           `json:"input"` // item, or raw JSON
		Tools           []responsesTool `json:"tools,omitempty"`
		MaxOutputTokens int             `json:"max_output_tokens,omitempty"`
		Reasoning       *reasoning      `json:"reasoning,omitempty"`
		Include         []string        `json:"include,omitempty"`
		Store           bool            `json:"store"`
	}
	reasoning struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	}
	message struct {
		Role    string          `json:"role"`
		Content string          `json:"content"`
		Phase   json.RawMessage `json:"phase,omitempty"`
	}
	functionCall struct {
		Type      string `json:"type"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	functionResult struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
		Output string `json:"output"`
	}
	responsesTool struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	}
)

// encodeResponses returns the body of a request.
func encodeResponses(c Config, r model.Request) ([]byte, error) {
	q := responsesRequest{Model: c.Model, Instructions: r.System, Input: make([]any, 0, len(r.Messages)), MaxOutputTokens: c.maxOutput(r)}
	if effort := c.effort(); effort != "" {
		q.Reasoning = &reasoning{Effort: effort, Summary: "auto"}
	}
	if reasons(c.Model) {
		q.Include = []string{"reasoning.encrypted_content"}
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		switch m.Role {
		case model.RoleTool:
			q.Input = append(q.Input, functionResult{Type: "function_call_output", CallID: m.CallID, Output: result(*m)})
		case model.RoleAssistant:
			for _, p := range model.Parts(*m, c.Name) {
				switch {
				case p.Call != nil:
					call := m.Calls[*p.Call]
					q.Input = append(q.Input, functionCall{Type: "function_call", CallID: call.ID, Name: call.Name, Arguments: call.Arguments})
				case p.Text:
					if m.Text != "" {
						q.Input = append(q.Input, message{Role: "assistant", Content: m.Text, Phase: p.Extra})
					}
				default:
					q.Input = append(q.Input, p.Raw)
				}
			}
		default:
			q.Input = append(q.Input, message{Role: "user", Content: m.Text})
		}
	}
	for _, t := range r.Tools {
		q.Tools = append(q.Tools, responsesTool{Type: "function", Name: t.Name, Description: t.Description, Parameters: t.Schema})
	}
	return encoded(q)
}

// reasons reports whether a model may reason. The API refuses the request for encrypted
// reasoning with those of OpenAI's models that can't.
func reasons(name string) bool {
	name = strings.TrimPrefix(name, "ft:")
	for _, prefix := range []string{"gpt-3", "gpt-4", "chatgpt-"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}
