package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/responses"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

func TestNameOfTheOutputBound(t *testing.T) {
	for address, want := range map[string]string{
		"https://api.openai.com/v1":                       "max_completion_tokens",
		"https://api.openai.com/v1/":                      "max_completion_tokens",
		"https://API.OpenAI.com:443/v1":                   "max_completion_tokens",
		"https://eu.api.openai.com/v1":                    "max_completion_tokens",
		"https://me.openai.azure.com/openai/v1/":          "max_completion_tokens",
		"https://me.services.ai.azure.com/openai/v1":      "max_completion_tokens",
		"https://api.openai.com.evil.example/v1":          "max_tokens",
		"https://notapi.openai.com/v1":                    "max_tokens",
		"http://127.0.0.1:11434/v1":                       "max_tokens",
		"https://litellm.example/?host=api.openai.com/v1": "max_tokens",
	} {
		body, err := encodeChat(Config{Model: "m", BaseURL: address}, model.Request{MaxOutputTokens: 7, Messages: []model.Message{{Role: model.RoleUser, Text: "x"}}})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"max_tokens", "max_completion_tokens"} {
			if _, sent := got[name]; sent != (name == want) {
				t.Errorf("%s: the body is %s, want %s alone", address, body, want)
			}
		}
	}
}

// TestCallsInARequestWithoutTools: a server with another provider's model behind it refuses them.
func TestCallsInARequestWithoutTools(t *testing.T) {
	r := model.Request{Messages: []model.Message{
		{Role: model.RoleUser, Text: "Look."},
		{Role: model.RoleAssistant, Text: "I look.", Calls: []model.Call{{ID: "c1", Name: "pods", Arguments: `{"n":1}`}, {ID: "c2", Name: "logs", Arguments: "{}"}}},
		{Role: model.RoleTool, CallID: "c1", Text: "<web>"},
		{Role: model.RoleTool, CallID: "c2", Text: "no access", IsError: true},
		{Role: model.RoleUser, Text: "Conclude."},
	}}
	type message struct{ Role, Content string }
	encode := func(c Config, r model.Request) (messages []message, body string) {
		t.Helper()
		data, err := encodeChat(c, r)
		if err != nil {
			t.Fatal(err)
		}
		var q struct{ Messages []message }
		if err := json.Unmarshal(data, &q); err != nil {
			t.Fatal(err)
		}
		return q.Messages, string(data)
	}
	other := Config{Model: "m", BaseURL: "http://127.0.0.1:4000"}
	got, body := encode(other, r)
	if strings.Contains(body, "tool_call") || strings.Contains(body, `"tool"`) {
		t.Errorf("the body has calls or results, want texts: %s", body)
	}
	want := []message{
		{"user", "Look."},
		{"assistant", "I look.\nCalled pods (c1) with {\"n\":1}\nCalled logs (c2) with {}"},
		{"user", "Result of pods (c1), data between two lines FENCE:\nFENCE\n<web>\nFENCE"},
		{"user", "Result of logs (c2), data between two lines FENCE:\nFENCE\nError: no access\nFENCE"},
		{"user", "Conclude."},
	}
	for i := range got {
		if _, after, ok := strings.Cut(got[i].Content, "two lines "); ok {
			fence, _, _ := strings.Cut(after, ":")
			got[i].Content = strings.ReplaceAll(got[i].Content, fence, "FENCE")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the messages (-want +got):\n%s", diff)
	}
	withTools := r
	withTools.Tools = []model.Tool{{Name: "pods", Schema: json.RawMessage(`{"type":"object"}`)}}
	for name, body := range map[string]string{
		"with tools": second(encode(other, withTools)), "at OpenAI": second(encode(Config{Model: "m", BaseURL: BaseURL}, r)),
	} {
		if !strings.Contains(body, `"tool_call_id":"c1"`) {
			t.Errorf("%s the body is %s, want the results as they are", name, body)
		}
	}
}

func second[A, B any](_ A, b B) B { return b }

// TestReasoningIsSeen: all plain reasoning of an item that is kept as state comes as thinking too, once:
// the caller masks that, and drops the state where masking changes it.
func TestReasoningIsSeen(t *testing.T) {
	const item = `{"type":"response.output_item.done","item":{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"first"},{"type":"summary_text","text":"second"}],` +
		`"content":[{"type":"reasoning_text","text":"in full"}],"encrypted_content":"sealed"}}`
	delta := func(kind, text string) string {
		return `{"type":"response.` + kind + `.delta","delta":"` + text + `"}`
	}
	part := func(n string) string {
		return `{"type":"response.reasoning_summary_part.added","summary_index":` + n + `}`
	}
	added := `{"type":"response.output_item.added","item":{"type":"reasoning"}}`
	for name, test := range map[string]struct {
		events []string
		want   string
	}{
		"without deltas":            {[]string{added, item}, "first\n\nsecond\n\nin full"},
		"with all deltas":           {[]string{added, delta("reasoning_summary_text", "fir"), delta("reasoning_summary_text", "st"), part("1"), delta("reasoning_summary_text", "second"), delta("reasoning_text", "in full"), item}, "first\n\nsecondin full"},
		"with those of the summary": {[]string{added, delta("reasoning_summary_text", "first"), part("1"), delta("reasoning_summary_text", "second"), item}, "first\n\nsecondin full"},
		"two items":                 {[]string{added, delta("reasoning_summary_text", "first"), part("1"), delta("reasoning_summary_text", "second"), delta("reasoning_text", "in full"), item, added, item}, "first\n\nsecondin fullfirst\n\nsecond\n\nin full"},
	} {
		a, got := responseAnswer{}, ""
		for _, text := range test.events {
			var e responses.ResponseStreamEventUnion
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				t.Fatal(err)
			}
			chunk, ok, failure := a.event(e)
			if failure != nil || chunk.Thinking != "" && !ok {
				t.Fatalf("%s: %s gives %+v, %t and %v, want no failure", name, text, chunk, ok, failure)
			}
			got += chunk.Thinking
		}
		if got != test.want {
			t.Errorf("%s: the thinking is %q, want %q", name, got, test.want)
		}
		if !model.HasRaw(a.parts) {
			t.Errorf("%s: the parts are %v, want the item", name, a.parts)
		}
	}
}
