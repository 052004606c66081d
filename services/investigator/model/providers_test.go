package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/model/anthropic"
	"github.com/tocsin-bus/tocsin/services/investigator/model/endpoint"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/services/investigator/model/openai"
)

var update = flag.Bool("update", false, "write the golden files")

const key = "sk-test-0123456789"

// provider makes a model that asks a server.
type provider struct {
	name string
	new  func(url string) (model.Model, error)
}

func providers() []provider {
	return []provider{
		{"chat", func(url string) (model.Model, error) {
			return openai.New(openai.Config{Name: "entry", Model: "m", Key: key, BaseURL: url + "/v1"})
		}},
		{"responses", func(url string) (model.Model, error) {
			return openai.New(openai.Config{Name: "entry", Model: "m", Key: key, BaseURL: url + "/v1", API: openai.Responses, ThinkingBudget: 8000})
		}},
		{"messages", func(url string) (model.Model, error) {
			return anthropic.New(anthropic.Config{Name: "entry", Model: "m", Key: key, BaseURL: url, ThinkingBudget: 2000})
		}},
	}
}

// each runs a test with each provider.
func each(t *testing.T, answers []modeltest.Answer, test func(t *testing.T, m model.Model, s *modeltest.Server, api string)) {
	for _, p := range providers() {
		t.Run(p.name, func(t *testing.T) {
			s := modeltest.Answers(answers...)
			t.Cleanup(s.Close)
			m, err := p.new(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			test(t, m, s, p.name)
		})
	}
}

// collected is what Generate yielded.
type collected struct {
	text, thinking string
	calls          []model.Call
	done           *model.Done
	err            *model.Error
	after          int // chunks after the end
}

func collect(t testing.TB, m model.Model, r model.Request) collected {
	t.Helper()
	var c collected
	for chunk, err := range m.Generate(t.Context(), r) {
		if c.done != nil || c.err != nil {
			c.after++
		}
		if err != nil && !errors.As(err, &c.err) {
			t.Fatalf("the error is %T (%v), want *model.Error", err, err)
		}
		c.text += chunk.Text
		c.thinking += chunk.Thinking
		if chunk.Call != nil {
			c.calls = append(c.calls, *chunk.Call)
		}
		if chunk.Done != nil {
			c.done = chunk.Done
		}
	}
	if c.after > 0 || (c.done == nil) == (c.err == nil) {
		t.Fatalf("got done %v, error %v and %d chunks after it, want one of both and nothing after it", c.done, c.err, c.after)
	}
	return c
}

func question(text string) model.Request {
	return model.Request{System: "be brief", Messages: []model.Message{{Role: model.RoleUser, Text: text}}}
}

func TestProvidersStreamAnswers(t *testing.T) {
	answer := modeltest.Answer{
		Thinking: "hmm, let me see — äöü", Text: "I look.", Piece: 3,
		Calls: []modeltest.Call{
			{ID: "a1", Name: "get", Arguments: `{"name":"x","n":1}`},
			{ID: "a2", Name: "list", Arguments: `{}`},
		},
		Usage: modeltest.Usage{Input: 100, Cached: 40, Output: 30, Thinking: 12},
	}
	each(t, []modeltest.Answer{answer}, func(t *testing.T, m model.Model, s *modeltest.Server, _ string) {
		got := collect(t, m, question("why?"))
		if got.err != nil {
			t.Fatal(got.err)
		}
		if got.text != answer.Text || got.thinking != answer.Thinking {
			t.Errorf("text %q and thinking %q, want %q and %q", got.text, got.thinking, answer.Text, answer.Thinking)
		}
		want := []model.Call{{ID: "a1", Name: "get", Arguments: `{"name":"x","n":1}`}, {ID: "a2", Name: "list", Arguments: `{}`}}
		if diff := cmp.Diff(want, got.calls); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(model.Usage{Input: 100, Cached: 40, Output: 30, Thinking: 12}, got.done.Usage); diff != "" {
			t.Error(diff)
		}
		if got.done.Stop != model.StopEnd {
			t.Errorf("stop %q, want %q", got.done.Stop, model.StopEnd)
		}
		q := s.Requests()[0]
		if h := q.Header.Get("Authorization") + q.Header.Get("X-Api-Key"); !strings.Contains(h, key) {
			t.Errorf("the key is not in the request: %v", q.Header)
		}
	})
}

func TestProvidersSendStateBackToTheirOwnEntryAlone(t *testing.T) {
	first := modeltest.Answer{Thinking: "because", Calls: []modeltest.Call{{ID: "a1", Name: "get", Arguments: `{}`}}}
	each(t, []modeltest.Answer{first, modeltest.Say("done")}, func(t *testing.T, m model.Model, s *modeltest.Server, api string) {
		r := question("why?")
		r.Tools = []model.Tool{{Name: "get", Schema: json.RawMessage(`{"type":"object"}`)}}
		got := collect(t, m, r)
		if got.err != nil {
			t.Fatal(got.err)
		}
		// The session is stored in between.
		data, err := json.Marshal(model.Message{Role: model.RoleAssistant, Calls: got.calls, State: got.done.State, Provider: "entry"})
		if err != nil {
			t.Fatal(err)
		}
		var stored model.Message
		if err := json.Unmarshal(data, &stored); err != nil {
			t.Fatal(err)
		}
		result := model.Message{Role: model.RoleTool, CallID: "a1", ToolName: "get", Text: "no such pod", IsError: true}
		r.Messages = append(r.Messages, stored, result)
		collect(t, m, r)
		r.Messages[1].Provider = "another"
		collect(t, m, r)
		want := map[string]string{"chat": `"reasoning_content":"because"`, "responses": `"encrypted_content":"sealed:because"`, "messages": `"signature":"signed:because"`}[api]
		if body := s.Requests()[1].Body; !strings.Contains(body, want) || !strings.Contains(body, "no such pod") {
			t.Errorf("the request has no %s and the result: %s", want, body)
		}
		if body := s.Requests()[2].Body; strings.Contains(body, "because") || !strings.Contains(body, `"a1"`) {
			t.Errorf("the request of another entry has the state, or not the call: %s", body)
		}
	})
}

func TestProvidersReportFailures(t *testing.T) {
	failed := func(status int, header map[string]string) modeltest.Answer {
		a := modeltest.Fail(status, "no luck with "+key)
		a.Header = header
		return a
	}
	long := modeltest.Say("a long text")
	long.Piece, long.CutAfter = 1, 5
	tests := []struct {
		name   string
		answer modeltest.Answer
		kind   model.Kind
		status int
		after  time.Duration
	}{
		{"bad request", failed(400, nil), model.Refused, 400, 0},
		{"bad key", failed(401, nil), model.Refused, 401, 0},
		{"forbidden", failed(403, nil), model.Refused, 403, 0},
		{"unknown model", failed(404, nil), model.Refused, 404, 0},
		{"limited", failed(429, map[string]string{"Retry-After": "7"}), model.Limited, 429, 7 * time.Second},
		{"limited, milliseconds", failed(429, map[string]string{"Retry-After-Ms": "1500", "Retry-After": "9"}), model.Limited, 429, 1500 * time.Millisecond},
		{"broken", failed(500, nil), model.Unavailable, 500, 0},
		{"overloaded", failed(529, nil), model.Unavailable, 529, 0},
		{"redirect", modeltest.Answer{Status: 307, Header: map[string]string{"Location": "http://example.com/x"}}, model.Refused, 307, 0},
		{"a page", modeltest.Answer{Status: 200, Body: "<html>", Header: map[string]string{"Content-Type": "text/html"}}, model.Malformed, 200, 0},
		{"garbage", modeltest.Answer{Raw: "event: message_start\ndata: {{{\n\n"}, model.Malformed, 0, 0},
		{"nothing", modeltest.Answer{Raw: "\n"}, model.Cut, 0, 0},
		{"cut", long, model.Cut, 0, 0},
		{"cut in a call", modeltest.Answer{Calls: []modeltest.Call{{ID: "a", Name: "get", Arguments: `{"a":"bcdefg"}`}}, Piece: 1, CutAfter: 6}, model.Cut, 0, 0},
		{"overload in the stream", modeltest.Answer{Raw: "event: error\ndata: {\"type\":\"error\",\"code\":\"overloaded\",\"message\":\"busy\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n"}, model.Unavailable, 0, 0},
		{"endless arguments", modeltest.Answer{Calls: []modeltest.Call{{ID: "a", Name: "get", Arguments: `{"a":"` + strings.Repeat("x", model.MaxArgumentBytes) + `"}`}}, Piece: 4096}, model.Malformed, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			each(t, []modeltest.Answer{test.answer}, func(t *testing.T, m model.Model, s *modeltest.Server, _ string) {
				got := collect(t, m, question("why?"))
				if got.err == nil || got.err.Kind != test.kind || got.err.Status != test.status || got.err.RetryAfter != test.after {
					t.Fatalf("got %#v, want kind %s, status %d, retry after %s", got.err, test.kind, test.status, test.after)
				}
				if strings.Contains(got.err.Error(), key) || got.err.Message == "" || len([]rune(got.err.Message)) > 500 {
					t.Errorf("message %q, want one without the key, of at most 500 characters", got.err.Message)
				}
				if n := len(s.Requests()); n != 1 {
					t.Errorf("%d requests, want 1: the SDK must not retry", n)
				}
			})
		})
	}
}

func TestProvidersStopReasons(t *testing.T) {
	for stop, want := range map[string]model.Stop{"length": model.StopLength, "refused": model.StopRefused, "": model.StopEnd} {
		t.Run(string(want), func(t *testing.T) {
			each(t, []modeltest.Answer{{Text: "no", Stop: stop, NoUsage: true}}, func(t *testing.T, m model.Model, _ *modeltest.Server, _ string) {
				got := collect(t, m, question("why?"))
				if got.err != nil || got.done.Stop != want || got.text != "no" || got.done.Usage != (model.Usage{}) {
					t.Errorf("got %+v, want stop %s, the text and no usage", got, want)
				}
			})
		})
	}
}

func TestProvidersAreSilenced(t *testing.T) {
	stalled := modeltest.Say("a text")
	stalled.StallAfter = 2
	each(t, []modeltest.Answer{stalled}, func(t *testing.T, m model.Model, _ *modeltest.Server, _ string) {
		m = model.WithTimeouts(m, model.Timeouts{FirstChunk: 50 * time.Millisecond, BetweenChunks: 50 * time.Millisecond})
		if got := collect(t, m, question("why?")); got.err == nil || got.err.Kind != model.Silent {
			t.Errorf("got %v, want kind silent", got.err)
		}
	})
}

// A stream that is cut after its first chunk is asked again: nothing of the first answer is in the
// second one, and its chunks have the next attempt.
func TestProvidersAskAgainAfterACut(t *testing.T) {
	call := modeltest.Call{ID: "a1", Name: "get", Arguments: `{"name":"x"}`}
	whole := modeltest.Answer{Text: "I look again.", Calls: []modeltest.Call{call}, Piece: 2, Usage: modeltest.Usage{Input: 100, Output: 30}}
	for name, cut := range map[string]modeltest.Answer{
		"in the text":     {Text: "I look at the pods.", Piece: 1, CutAfter: 8},
		"in the thinking": {Thinking: "What could it be?", Text: "I look.", Piece: 1, CutAfter: 8},
		"in a call":       {Text: "I look.", Calls: []modeltest.Call{{ID: "a0", Name: "list", Arguments: `{"namespace":"shop"}`}}, Piece: 4, CutAfter: 8},
		"between calls":   {Calls: []modeltest.Call{{ID: "a0", Name: "list", Arguments: `{}`}, {ID: "a2", Name: "list", Arguments: `{"namespace":"shop"}`}}, Piece: 2, CutAfter: 8},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, []modeltest.Answer{cut, whole}, func(t *testing.T, m model.Model, s *modeltest.Server, _ string) {
				client := model.NewClient(m, model.Retry{Tries: 3, Wait: time.Millisecond}, &model.Breaker{})
				shown := ""
				got, err := client.Ask(t.Context(), question("why?"), func(attempt int, c model.Chunk) {
					if attempt == 1 {
						shown += c.Text
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				want := []model.Call{{ID: "a1", Name: "get", Arguments: `{"name":"x"}`}}
				if diff := cmp.Diff(want, got.Calls); diff != "" || got.Text != whole.Text || got.Thinking != "" || got.Usage != (model.Usage{Input: 100, Output: 30}) {
					t.Errorf("got %+v, want the second answer alone; calls (-want +got):\n%s", got, diff)
				}
				if got.Attempts != 2 || len(s.Requests()) != 2 || shown != whole.Text {
					t.Errorf("%d attempts, %d requests, the text %q in the chunks of attempt 1; want 2 requests, and the text of the second answer", got.Attempts, len(s.Requests()), shown)
				}
				if first, second := s.Requests()[0].Body, s.Requests()[1].Body; first != second {
					t.Errorf("the second request is %s, want the same as the first: %s", second, first)
				}
			})
		})
	}
}

// A stream has its bounds with each API: those of a line and of the whole.
func TestProvidersBoundStreams(t *testing.T) {
	for want, raw := range map[string]string{
		"a line of the stream is over 16 MiB": "data: " + strings.Repeat("x", endpoint.MaxLine+1<<20),
		"the stream is over 64 MiB":           strings.Repeat(": "+strings.Repeat("x", 1021)+"\n", endpoint.MaxBody>>10+1<<10),
	} {
		t.Run(want, func(t *testing.T) {
			each(t, []modeltest.Answer{{Raw: raw}}, func(t *testing.T, m model.Model, _ *modeltest.Server, _ string) {
				got := collect(t, m, question("why?"))
				if got.err == nil || got.err.Kind != model.Malformed || !strings.Contains(got.err.Message, want) {
					t.Errorf("got %v, want kind malformed: %s", got.err, want)
				}
			})
		})
	}
}

// A failed request has the usage that its provider reported before: Anthropic's Messages begin with
// it, the Responses end a failed answer with it, and Chat Completions may send it before the end.
func TestProvidersReportUsageOfFailures(t *testing.T) {
	usage := modeltest.Usage{Input: 100, Cached: 40, Output: 30}
	cut := modeltest.Answer{Text: "a long text", Piece: 1, CutAfter: 5, Usage: usage}
	stalled := modeltest.Answer{Text: "a long text", Piece: 1, StallAfter: 5, Usage: usage}
	failed := modeltest.Answer{Raw: `event: response.failed
data: {"type":"response.failed","response":{"error":{"code":"server_error","message":"busy"},"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":40},"output_tokens":30}}}

`}
	counted := modeltest.Answer{Raw: `data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens":30}}

`}
	begun := model.Usage{Input: 100, Cached: 40, Output: 1}
	whole := model.Usage{Input: 100, Cached: 40, Output: 30}
	tests := []struct {
		name   string
		answer modeltest.Answer
		want   map[string]model.Usage // by API; none: it is not tried there
	}{
		{"cut", cut, map[string]model.Usage{"messages": begun, "chat": {}, "responses": {}}},
		{"silent", stalled, map[string]model.Usage{"messages": begun, "chat": {}, "responses": {}}},
		{"failed", failed, map[string]model.Usage{"responses": whole}},
		{"cut after the usage", counted, map[string]model.Usage{"chat": whole}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			each(t, []modeltest.Answer{test.answer}, func(t *testing.T, m model.Model, _ *modeltest.Server, api string) {
				want, ok := test.want[api]
				if !ok {
					return
				}
				m = model.WithTimeouts(m, model.Timeouts{FirstChunk: time.Second, BetweenChunks: 50 * time.Millisecond})
				if got := collect(t, m, question("why?")); got.err == nil || got.err.Usage != want {
					t.Errorf("got %+v, want an error with the usage %+v", got.err, want)
				}
			})
		})
	}
}

func TestProvidersEndWithTheirContext(t *testing.T) {
	each(t, []modeltest.Answer{{Stall: true}}, func(t *testing.T, m model.Model, _ *modeltest.Server, _ string) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range m.Generate(ctx, question("why?")) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want it to wrap %v", err, context.Canceled)
			}
		}
	})
}

// conversation has everything that a request can have.
func conversation() model.Request {
	zero := 0
	state, _ := json.Marshal(map[string][]model.Part{
		"chat":      {{Raw: json.RawMessage(`{"reasoning_content":"so"}`)}, {Call: &zero}},
		"responses": {{Raw: json.RawMessage(`{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"xyz=="}`)}, {Call: &zero}},
		"messages":  {{Raw: json.RawMessage(`{"type":"thinking","thinking":"so","signature":"xyz=="}`)}, {Text: true}, {Call: &zero}},
	})
	return model.Request{
		System: "Investigate <the> alert & conclude.",
		Messages: []model.Message{
			{Role: model.RoleUser, Text: "shop is down"},
			{Role: model.RoleAssistant, Text: "I look.", Calls: []model.Call{{ID: "c1", Name: "k8s__get", Arguments: `{"pod":"shop"}`}, {ID: "c2", Name: "k8s__logs", Arguments: `broken`}}, State: state, Provider: "entry"},
			{Role: model.RoleTool, CallID: "c1", ToolName: "k8s__get", Text: "CrashLoopBackOff"},
			{Role: model.RoleTool, CallID: "c2", ToolName: "k8s__logs", Text: "arguments are no object", IsError: true},
			{Role: model.RoleUser, Text: "The alert resolved."},
		},
		Tools: []model.Tool{
			{Name: "k8s__get", Description: "Gets a pod.", Schema: json.RawMessage(`{"type":"object","properties":{"pod":{"type":"string"}}}`)},
			{Name: "k8s__logs", Schema: json.RawMessage(`{"type":"object"}`)},
		},
		MaxOutputTokens: 4000,
	}
}

func TestProvidersRequestBodies(t *testing.T) {
	each(t, []modeltest.Answer{modeltest.Say("ok")}, func(t *testing.T, m model.Model, s *modeltest.Server, api string) {
		r := conversation()
		var states map[string]json.RawMessage
		if err := json.Unmarshal(r.Messages[1].State, &states); err != nil {
			t.Fatal(err)
		}
		r.Messages[1].State = states[api]
		if got := collect(t, m, r); got.err != nil {
			t.Fatal(got.err)
		}
		var got bytes.Buffer
		if err := json.Indent(&got, []byte(s.Requests()[0].Body), "", "  "); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", api+".json")
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNewRefusesKeysInTheOpen(t *testing.T) {
	tests := []struct {
		url, key string
		ok       bool
	}{
		{"http://127.0.0.1:1/v1", key, true},
		{"http://[::1]:1/v1", key, true},
		{"http://localhost:1/v1", key, true},
		{"http://models.example/v1", "", true},
		{"https://models.example/v1", key, true},
		{"http://models.example/v1", key, false},
		{"http://127.0.0.1.example/v1", key, false},
		{"http://10.0.0.1/v1", key, false},
		{"https://user:secret@models.example/v1", "", false},
		{"ftp://models.example", "", false},
		{"models.example", "", false},
		{"https://models.example/v1", "a\r\nX-Other: b", false},
	}
	for _, test := range tests {
		_, chat := openai.New(openai.Config{Model: "m", BaseURL: test.url, Key: test.key})
		_, messages := anthropic.New(anthropic.Config{Model: "m", BaseURL: test.url, Key: test.key})
		if (chat == nil) != test.ok || (messages == nil) != test.ok {
			t.Errorf("%s with key %q: openai %v, anthropic %v, want ok %t", test.url, test.key, chat, messages, test.ok)
		}
	}
}

// TestProvidersReadNothingFromTheEnvironment sets every variable that the SDKs read, and the
// profiles that Anthropic's reads, and finds them in no request.
func TestProvidersReadNothingFromTheEnvironment(t *testing.T) {
	const needle = "needle"
	for _, name := range sdkVariables(t) {
		value := needle
		switch {
		case strings.HasSuffix(name, "CUSTOM_HEADERS"):
			value = "X-Needle: needle"
		case strings.HasSuffix(name, "URL"):
			value = "http://needle.invalid/needle"
		}
		t.Setenv(name, value)
	}
	for _, variant := range []string{"all", "profile", "bare"} {
		t.Run(variant, func(t *testing.T) {
			dir := t.TempDir()
			if variant != "all" { // without the variables of a key, a profile would be next
				for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"} {
					t.Setenv(name, "")
				}
			}
			if variant == "bare" {
				t.Setenv("ANTHROPIC_PROFILE", "")
				t.Setenv("ANTHROPIC_FEDERATION_RULE_ID", "")
			}
			for _, name := range []string{"configs/needle.json", "configs/default.json", "credentials/needle.json", "credentials/default.json"} {
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				text := `{"base_url":"http://needle.invalid","organization_id":"needle","access_token":"needle","authentication":{"type":"user_oauth"}}`
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("ANTHROPIC_CONFIG_DIR", dir)
			t.Setenv("XDG_CONFIG_HOME", dir)
			each(t, []modeltest.Answer{modeltest.Say("ok")}, func(t *testing.T, m model.Model, s *modeltest.Server, _ string) {
				if got := collect(t, m, conversation()); got.err != nil {
					t.Fatalf("the request failed: %v", got.err)
				}
				q := s.Requests()[0]
				var header bytes.Buffer
				if err := q.Header.Write(&header); err != nil {
					t.Fatal(err)
				}
				if all := q.Path + header.String() + q.Body; strings.Contains(strings.ToLower(all), needle) {
					t.Errorf("a value of the environment is in the request: %s", all)
				}
			})
		})
	}
}
