package agents

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

var geminiCLI = codingAgent{
	name:     "Gemini CLI",
	folder:   "clients/gemini",
	inbox:    "gemini-cli-mcp-client",
	installs: "gemini-cli",
	shell:    model.Turn{Tool: "run_shell_command", Args: map[string]any{"command": "echo hello", "description": "greets"}},
	command: func(t *testing.T, packages string, d *account) []string {
		t.Helper()
		settings, err := json.Marshal(map[string]any{
			"security":  map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
			"general":   map[string]any{"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
			"privacy":   map[string]any{"usageStatisticsEnabled": false},
			"telemetry": map[string]any{"enabled": false},
		})
		e2etest.NoError(t, err)
		d.write(t, ".gemini/settings.json", string(settings))
		// The record of a folder that its user trusts. It reads the settings of no
		// other folder, even with --skip-trust.
		trusted, err := json.Marshal(map[string]string{d.project: "TRUST_FOLDER"})
		e2etest.NoError(t, err)
		d.write(t, ".gemini/trustedFolders.json", string(trusted))
		d.env = append(d.env, "GEMINI_API_KEY=made-up", "GOOGLE_GEMINI_BASE_URL="+d.model.URL)
		return []string{
			filepath.Join(packages, "node_modules", ".bin", "gemini"), "--yolo", "--model", "gemini-2.5-flash",
			"--prompt", prompt,
		}
	},
}
