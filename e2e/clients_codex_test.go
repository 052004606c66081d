package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

var codexCLI = codingAgent{
	name:   "Codex CLI",
	folder: "clients/codex",
	inbox:  "codex-mcp-client",
	shell:  model.Turn{Tool: "exec_command", Args: map[string]any{"cmd": "echo hello"}},
	command: func(t *testing.T, packages string, d *desk) []string {
		t.Helper()
		// An MCP server gets nothing of Codex's environment but what its entry says.
		d.write(t, ".codex/config.toml", fmt.Sprintf(`
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
approval_policy = "never"
sandbox_mode = "danger-full-access"
analytics.enabled = false
feedback.enabled = false
history.persistence = "none"

[model_providers.scripted]
name = "scripted"
base_url = %q
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[mcp_servers.tocsin]
command = %q
args = ["gateway"]
env = { TOCSIN_STATE_DIR = %q, GORACE = %q }
`, d.model.URL+"/v1", binary, d.state, d.gorace()))
		d.env = append(d.env, "SCRIPTED_KEY=made-up")
		return []string{filepath.Join(packages, "node_modules", ".bin", "codex"), "exec", "--skip-git-repo-check", "what happened?"}
	},
}
