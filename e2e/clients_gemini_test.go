package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

var geminiCLI = codingAgent{
	name:   "Gemini CLI",
	folder: "clients/gemini",
	inbox:  "gemini-cli-mcp-client",
	shell:  model.Turn{Tool: "run_shell_command", Args: map[string]any{"command": "echo hello", "description": "greets"}},
	command: func(t *testing.T, packages string, d *desk) []string {
		t.Helper()
		settings, err := json.Marshal(map[string]any{
			"security":   map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"}},
			"general":    map[string]any{"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
			"privacy":    map[string]any{"usageStatisticsEnabled": false},
			"telemetry":  map[string]any{"enabled": false},
			"mcpServers": map[string]any{"tocsin": map[string]any{"command": binary, "args": []string{"gateway"}}},
		})
		must(t, err)
		d.write(t, ".gemini/settings.json", string(settings))
		d.env = append(d.env, "GEMINI_API_KEY=made-up", "GOOGLE_GEMINI_BASE_URL="+d.model.URL)
		return []string{
			filepath.Join(packages, "node_modules", ".bin", "gemini"), "--skip-trust", "--yolo", "--model", "gemini-2.5-flash",
			"--prompt", "what happened?",
		}
	},
}
