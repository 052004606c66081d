package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

var codexCLI = codingAgent{
	name:     "Codex CLI",
	folder:   "clients/codex",
	inbox:    "codex-mcp-client",
	installs: "codex",
	shell:    model.Turn{Tool: "exec_command", Args: map[string]any{"cmd": "echo hello"}},
	// The gateway may take a minute to start, and not Codex CLI's 10 s, which are short on a busy
	// machine: Codex CLI works without the tools of a server that takes longer.
	installed: func(t *testing.T, d *account) {
		t.Helper()
		const table = "[mcp_servers.tocsin]\n"
		for _, folder := range []string{d.home, d.project} {
			path := filepath.Join(folder, ".codex", "config.toml")
			config, err := os.ReadFile(path)
			if err != nil || !strings.Contains(string(config), table) {
				continue
			}
			e2etest.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(config), table, table+"startup_timeout_sec = 60\n", 1)), 0o600))
			return
		}
		t.Fatalf("no configuration of Codex CLI has %q", table)
	},
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
mcp_optional_startup_grace_ms = 0 # wait for the gateway: by default the first turn does for 1 s

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
