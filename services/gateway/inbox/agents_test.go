package inbox_test

import (
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
)

func TestNamed(t *testing.T) {
	for _, want := range inbox.Agents() {
		if got, found := inbox.FindAgent(want.Name); !found || got != want {
			t.Errorf("%s: %+v %t", want.Name, got, found)
		}
	}
	if got, found := inbox.FindAgent("foo"); found {
		t.Errorf("foo: %+v", got)
	}
}

func TestInbox(t *testing.T) {
	for _, tt := range []struct{ mcp, want string }{
		{"claude-code", "claude-code in /work"},
		{"gemini-cli-mcp-client", "gemini-cli-mcp-client in /work"},
		{"gemini-cli-mcp-client-tocsin", "gemini-cli-mcp-client in /work"},
		{"gemini-cli-mcp-clients", "gemini-cli-mcp-clients in /work"},
		{"", " in /work"},
	} {
		if got := inbox.Key(tt.mcp, "/work"); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.mcp, got, tt.want)
		}
	}
	if got := inbox.NamedKey("x"); got != "client x" {
		t.Error(got)
	}
}
