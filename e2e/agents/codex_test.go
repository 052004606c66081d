package agents

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

var codexCLI = codingAgent{
	name:     "Codex CLI",
	folder:   "clients/codex",
	inbox:    "codex-mcp-client",
	installs: "codex",
	shell:    model.Turn{Tool: "exec_command", Args: map[string]any{"cmd": "echo hello"}},
	command: func(t *testing.T, packages string, d *account) []string {
		t.Helper()
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
`, d.model.URL+"/v1"))
		d.env = append(d.env, "SCRIPTED_KEY=made-up")
		return []string{filepath.Join(packages, "node_modules", ".bin", "codex"), "exec", "--skip-git-repo-check", "--trust", "--dangerously-bypass-hook-trust", prompt}
	},
}
