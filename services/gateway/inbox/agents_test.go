package inbox_test

import (
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
)

func TestFindAgent(t *testing.T) {
	for _, want := range inbox.Agents() {
		if got, found := inbox.FindAgent(want.Name); !found || got != want {
			t.Errorf("FindAgent(%q) = %+v, %t, want %+v, true", want.Name, got, found, want)
		}
	}
	if got, found := inbox.FindAgent("foo"); found {
		t.Errorf("FindAgent(foo) = %+v, want none", got)
	}
}

func TestKey(t *testing.T) {
	for _, tt := range []struct{ mcp, want string }{
		{"claude-code", "claude-code in /work"},
		{"gemini-cli-mcp-client", "gemini-cli-mcp-client in /work"},
		{"gemini-cli-mcp-client-tocsin", "gemini-cli-mcp-client in /work"},
		{"gemini-cli-mcp-clients", "gemini-cli-mcp-clients in /work"},
		{"", " in /work"},
	} {
		if got := inbox.Key(tt.mcp, "/work"); got != tt.want {
			t.Errorf("Key(%q) = %q, want %q", tt.mcp, got, tt.want)
		}
	}
	if got, want := inbox.NamedKey("x"), "client x"; got != want {
		t.Errorf("NamedKey = %q, want %q", got, want)
	}
}
