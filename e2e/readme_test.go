package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestReadme runs what the README tells a newcomer to: its curl and tocsin ci
// lines against a bus, its .mcp.json as an MCP client reads it. Only the
// address is another one.
func TestReadme(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl here")
	}
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	b := up(t)
	posted := 0
	for _, block := range fences(string(text), "sh") {
		if !strings.HasPrefix(block, "curl ") && !strings.HasPrefix(block, "bin/tocsin ci") {
			continue
		}
		script := strings.NewReplacer("http://127.0.0.1:7400", b.IngestURL, "bin/tocsin", binary).Replace(block)
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
	if err := json.Unmarshal([]byte(fences(string(text), "json")[0]), &config); err != nil {
		t.Fatal(err)
	}
	server := config.Servers["tocsin"]
	if server.Command != "bin/tocsin" || !slices.Equal(server.Args, []string{"gateway"}) {
		t.Fatalf("%+v", server)
	}
	agent, err := harness.StartAgentWith(t.Context(), binary, b.StateDir, "claude-code", nil, server.Args[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := agent.Close(); err != nil {
			t.Error(err)
		}
	}()
	w := &world{bus: b, agent: agent}
	titles := map[string]alert.Severity{}
	for _, a := range w.alerts(t, 4) {
		titles[a.Title] = a.Severity
	}
	for _, want := range []string{"CI failure: test on main", "CI failure: lint", "New error: TypeError: x is undefined", "Server error: POST /api/users → 500"} {
		if titles[want] != alert.Error {
			t.Errorf("%q is not among %v", want, titles)
		}
	}
}

// fences are the code blocks of a language.
func fences(text, language string) []string {
	var all []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		all = append(all, strings.TrimSpace(m[1]))
	}
	return all
}
