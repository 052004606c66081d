package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

const claude = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"claude-code","version":"2.1.210"}}`

// TestClaudeChannel: Claude Code is offered a channel, which carries the alerts that pass
// the filters; the inbox has them all the same.
func TestClaudeChannel(t *testing.T) {
	r := newRig(t)
	c := r.dial(t, "")
	greeting := c.ask(t, "initialize", claude)
	if !strings.Contains(string(greeting.Result), `"experimental":{"claude/channel":{}}`) {
		t.Errorf("initialize = %s, want the capability claude/channel", greeting.raw)
	}
	var greeted struct{ Instructions string }
	if err := json.Unmarshal(greeting.Result, &greeted); err != nil || !strings.Contains(greeted.Instructions, `<channel source="tocsin"`) || len(greeted.Instructions) > 1024 {
		t.Errorf("got %d bytes of instructions, want at most 1024 with the channel: %s", len(greeted.Instructions), greeted.Instructions)
	}
	c.delivered(t)
	enabled := c.call(t, "configure", `{"action":"streaming","streaming_action":"enable","severity_min":"error"}`).blocks
	if !strings.HasSuffix(enabled[0], `,"via":["message","channel"]}`) {
		t.Errorf("got %s, want %q at its end", enabled[0], `,"via":["message","channel"]}`)
	}
	r.Publish(t, r.Alert(alert.Warning)) // does not pass
	a := r.Alert(alert.Error)
	r.Publish(t, a)
	if m := c.next(t); m.Method != "notifications/message" {
		t.Errorf("got %s, want %v", m.raw, "notifications/message")
	}
	m := c.next(t)
	var params struct {
		Content string            `json:"content"`
		Meta    map[string]string `json:"meta"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		t.Fatal(err)
	}
	if m.Method != "notifications/claude/channel" || !strings.Contains(params.Content, a.ID) || params.Meta["severity"] != "error" {
		t.Errorf("got %s, want a channel message with the alert, severity error", m.raw)
	}
	if blocks := c.call(t, "observe", `{}`).blocks; len(blocks) != 2 || !strings.Contains(blocks[1], a.ID) {
		t.Errorf("observe = %v, want the alert %s: a channel does not take it out of the inbox", blocks, a.ID)
	}
}

// TestVia: an agent may choose its delivery channels; the answers to others do not
// mention them.
func TestVia(t *testing.T) {
	r := newRig(t)
	c := r.dial(t, "plain")
	greeting := c.ask(t, "initialize", strings.Replace(claude, "claude-code", "another", 1))
	if strings.Contains(greeting.raw, "experimental") {
		t.Errorf("got %s, want no %q in it", greeting.raw, "experimental")
	}
	for _, tt := range []struct{ arguments, want string }{
		{`{"action":"enable"}`, `"url":""}}`},
		{`{"action":"status"}`, `"dropped":0}`},
		{`{"action":"enable","via":["channel"]}`, `"url":""},"via":["channel"],"note":"This client did not announce that it takes channel messages: it may not show them. observe has the alerts all the same."}`},
		{`{"action":"status"}`, `has the alerts all the same."}`},
		{`{"action":"enable","via":["message"]}`, `"via":["message"]}`},
	} {
		if got := c.call(t, "configure_streaming", tt.arguments).blocks; !strings.HasSuffix(got[0], tt.want) {
			t.Errorf("%s: got %s, want %s at its end", tt.arguments, got[0], tt.want)
		}
	}
	for _, wrong := range []string{`{"action":"enable","via":["pigeon"]}`, `{"action":"enable","via":[]}`} {
		if r := c.call(t, "configure_streaming", wrong); !r.isError || r.blocks[0] != "via must be a list with at least one of message, channel, events" {
			t.Errorf("%s: got %v, want the refusal of via", wrong, r)
		}
	}
}

// TestChannelsOfTheNewestProtocol: it forbids unsolicited messages, and the answer lists
// what works.
func TestChannelsOfTheNewestProtocol(t *testing.T) {
	r := newRig(t)
	s, messages := join(t, r.serve(t, mcpserver.Latest, mcpserver.HTTPConfig{}))
	got := tool(t, s, "configure_streaming", map[string]any{"action": "enable"})[0]
	if !strings.Contains(got, `"via":[],"note":"This protocol forbids unsolicited messages.`) {
		t.Errorf("got %s, want %q in it", got, `"via":[],"note":"This protocol forbids unsolicited messages.`)
	}
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{
		Name: "configure_streaming", Arguments: map[string]any{"action": "enable", "via": []string{"message", "channel"}},
	})
	if err != nil || !result.IsError {
		t.Errorf("got %+v, %v, want a tool error", result, err)
	}
	r.Publish(t, r.Alert(alert.Error))
	if blocks := tool(t, s, "observe", map[string]any{"wait_seconds": 10}); len(blocks) != 2 {
		t.Errorf("got %v, want 2 blocks", blocks)
	}
	if len(messages) > 0 {
		t.Errorf("got %d messages, want none", len(messages))
	}
}

// TestAnotherClientOnTheConnection: the settings of the first do not apply to the second.
func TestAnotherClientOnTheConnection(t *testing.T) {
	r := newRig(t)
	c := r.dial(t, "")
	other := strings.Replace(claude, "claude-code", "another", 1)
	for _, tt := range []struct {
		who     string
		channel bool
	}{{claude, true}, {other, false}, {claude, true}} {
		if greeting := c.ask(t, "initialize", tt.who); strings.Contains(greeting.raw, "claude/channel") != tt.channel ||
			strings.Contains(greeting.raw, "<channel source") != tt.channel {
			t.Errorf("%s: got %s, want a channel in it: %v", tt.who, greeting.raw, tt.channel)
		}
		if text := c.call(t, "configure_streaming", `{"action":"status"}`).blocks[0]; strings.Contains(text, "via") {
			t.Errorf("%s: got %s, want no via in it", tt.who, text)
		}
		if text := c.call(t, "configure_streaming", `{"action":"enable"}`).blocks[0]; strings.Contains(text, `"via":["message","channel"]`) != tt.channel {
			t.Errorf("%s: got %s, want via in it: %v", tt.who, text, tt.channel)
		}
	}
	if text := c.call(t, "configure_streaming", `{"action":"enable","via":["channel","channel"]}`).blocks[0]; !strings.HasSuffix(text, `"via":["channel"]}`) {
		t.Errorf("got %v, want %q at its end", text, `"via":["channel"]}`)
	}
}
