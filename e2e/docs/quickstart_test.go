package docs

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestQuickStart runs the curl and tocsin ci commands of the README and of
// docs/sending.md against a bus, and the .mcp.json of docs/agents.md as an MCP client
// does. Only the addresses differ.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl here")
	}
	b := e2etest.Up(t)
	posted := 0
	for _, block := range append(e2etest.Blocks(t, "README.md", "sh"), e2etest.Blocks(t, "docs/sending.md", "sh")...) {
		if !strings.HasPrefix(block, "curl ") && !strings.HasPrefix(block, "tocsin ci") {
			continue
		}
		script := strings.NewReplacer("http://127.0.0.1:7400", b.IngestURL, "tocsin ci", e2etest.Binary(t)+" ci").Replace(block)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Env = harness.Env(b.StateDir)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), `{"ok":true`) && !strings.HasPrefix(string(out), "posted failure of lint") {
			t.Errorf("got %v and %q, want an accepted post:\n%s", err, out, block)
		}
		posted++
	}
	if posted != 3 {
		t.Errorf("got %d commands, want 3", posted)
	}
	var config struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(e2etest.Block(t, "docs/agents.md", "json", `"mcpServers"`)), &config); err != nil {
		t.Fatal(err)
	}
	server := config.Servers["tocsin"]
	if server.Command != "tocsin" || !slices.Equal(server.Args, []string{"gateway"}) {
		t.Fatalf("the server is %+v, want tocsin gateway", server)
	}
	agent, err := harness.StartAgentWith(t.Context(), e2etest.Binary(t), b.StateDir, "claude-code", nil, server.Args[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := agent.Close(); err != nil {
			t.Error(err)
		}
	}()
	sys := &e2etest.System{Bus: b, Agent: agent}
	titles := map[string]alert.Severity{}
	for _, a := range sys.TakeAlerts(t, 4) {
		titles[a.Title] = a.Severity
	}
	for _, want := range []string{"CI failure: test on main", "CI failure: lint", "New error: TypeError: x is undefined", "Server error: POST /api/users → 500"} {
		if titles[want] != alert.Error {
			t.Errorf("got alerts %v, want %q of severity error among them", titles, want)
		}
	}
}
