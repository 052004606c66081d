// Package openai asks OpenAI's APIs, Chat Completions and Responses, by the official SDK, and
// every other server that speaks one of them. The SDK adds nothing from the environment: no
// key, no address, no header, no organization.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/model/endpoint"
)

// BaseURL is OpenAI's own address.
const BaseURL = "https://api.openai.com/v1"

// API is one of the two APIs.
type API string

// The APIs.
const (
	Chat      API = "chat"
	Responses API = "responses"
)

const (
	// maxIndex bounds the indices of the calls and items of one answer.
	maxIndex = 512
	// errorPrefix marks a failed call: neither API has a field for it.
	errorPrefix = "Error: "
)

// Config is an entry of llm_providers of type openai.
type Config struct {
	// Name is the name of the entry. Only State of the same name is sent back.
	Name  string
	Model string
	Key   string
	// BaseURL is [BaseURL] where it is empty.
	BaseURL string
	// API is [Chat] where it is empty and BaseURL is set, else [Responses].
	API             API
	MaxOutputTokens int
	// ThinkingBudget is the number of tokens for thinking. The APIs know three efforts: low up
	// to 4096, medium up to 16384, else high. 0 is the model's own default.
	ThinkingBudget int
}

// New returns a model. It fails for an address that may not be given the key.
func New(c Config) (model.Model, error) {
	if c.Model == "" {
		return nil, errors.New("model is missing")
	}
	if c.API == "" {
		c.API = Responses
		if c.BaseURL != "" {
			c.API = Chat
		}
	}
	if c.BaseURL == "" {
		c.BaseURL = BaseURL
	}
	if err := endpoint.Check(c.BaseURL, c.Key); err != nil {
		return nil, err
	}
	options := []option.RequestOption{
		option.WithBaseURL(c.BaseURL),
		option.WithHTTPClient(endpoint.NewClient(c.Key)),
		option.WithMaxRetries(0),
	}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	// The services, unlike the SDK's client, read nothing from the environment.
	switch c.API {
	case Chat:
		return &chat{config: c, service: sdk.NewChatCompletionService(options...)}, nil
	case Responses:
		return &response{config: c, service: responses.NewResponseService(options...)}, nil
	}
	return nil, fmt.Errorf("api: %q is neither chat nor responses", c.API)
}

// newNames are hosts that know max_completion_tokens, which newer models require, and endings of such
// hosts. Other servers know max_tokens.
var newNames = []string{"api.openai.com", ".api.openai.com", ".openai.azure.com", ".openai.azure.us", ".services.ai.azure.com", ".cognitiveservices.azure.com"}

// atOpenAI reports whether OpenAI's own models answer, at OpenAI's or Azure's address.
func (c Config) atOpenAI() bool {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	return slices.ContainsFunc(newNames, func(name string) bool {
		return host == name || name[0] == '.' && strings.HasSuffix(host, name)
	})
}

// maxOutput returns the bound of an answer, or 0.
func (c Config) maxOutput(r model.Request) int {
	if r.MaxOutputTokens > 0 {
		return r.MaxOutputTokens
	}
	return c.MaxOutputTokens
}

// effort returns the effort of thinking, or nothing.
func (c Config) effort() string {
	switch {
	case c.ThinkingBudget <= 0:
		return ""
	case c.ThinkingBudget <= 4096:
		return "low"
	case c.ThinkingBudget <= 16384:
		return "medium"
	}
	return "high"
}

// result returns the text of a tool's result.
func result(m model.Message) string {
	if m.IsError {
		return errorPrefix + m.Text
	}
	return m.Text
}

// failure returns the error of a stream.
func (c Config) failure(ctx context.Context, err error, started bool) *model.Error {
	var reported *ssestream.StreamError
	if ctx.Err() == nil && errors.As(err, &reported) {
		var event struct {
			Error json.RawMessage `json:"error"`
		}
		var inner struct {
			Type    string          `json:"type"`
			Code    json.RawMessage `json:"code"`
			Message string          `json:"message"`
		}
		var text string
		if json.Unmarshal(reported.Event.Data, &event) == nil {
			if json.Unmarshal(event.Error, &inner) != nil {
				_ = json.Unmarshal(event.Error, &text) // else the message says it
			}
		}
		if inner.Message == "" {
			inner.Message = text
		}
		if inner.Message == "" {
			inner.Message = reported.Message
		}
		return endpoint.Event(strings.Trim(string(inner.Code), `"`)+" "+inner.Type, inner.Message, c.Key)
	}
	return endpoint.Failure(ctx, err, started, c.Key)
}

// encoded returns the JSON of a request's body.
func encoded(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return out.Bytes(), nil
}

// unencodable is the failure of a request whose schema or state is no JSON.
func unencodable(err error) *model.Error {
	return &model.Error{Kind: model.Refused, Message: "the request can't be encoded", Cause: err}
}
