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

// TestReadme runs what the README tells a newcomer to: its curl and tocsin ci
// lines against a bus, its .mcp.json as an MCP client reads it. Only the
// address is another one.
func TestReadme(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl here")
	}
	b := e2etest.Up(t)
	posted := 0
	for _, block := range e2etest.Blocks(t, "README.md", "sh") {
		if !strings.HasPrefix(block, "curl ") && !strings.HasPrefix(block, "bin/tocsin ci") {
			continue
		}
		script := strings.NewReplacer("http://127.0.0.1:7400", b.IngestURL, "bin/tocsin", e2etest.Binary(t)).Replace(block)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Env = harness.Env(b.StateDir)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), `{"ok":true`) && !strings.HasPrefix(string(out), "posted failure of lint") {
			t.Errorf("%v: %s\n%s", err, out, block)
		}
		posted++
	}
	if posted != 3 {
		t.Errorf("%d commands were run", posted)
	}
	var config struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(e2etest.Block(t, "README.md", "json", `"mcpServers"`)), &config); err != nil {
		t.Fatal(err)
	}
	server := config.Servers["tocsin"]
	if server.Command != "bin/tocsin" || !slices.Equal(server.Args, []string{"gateway"}) {
		t.Fatalf("%+v", server)
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
			t.Errorf("%q is not among %v", want, titles)
		}
	}
}
