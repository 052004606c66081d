package agents

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

var openCode = codingAgent{
	name:   "opencode",
	folder: "clients/opencode",
	inbox:  "opencode",
	shell:  model.Turn{Tool: "bash", Args: map[string]any{"command": "echo hello", "description": "greets"}},
	command: func(t *testing.T, packages string, d *account) []string {
		t.Helper()
		settings, err := json.Marshal(map[string]any{
			"autoupdate":        false,
			"share":             "disabled",
			"lsp":               false,
			"formatter":         false,
			"model":             "scripted/scripted",
			"small_model":       "scripted/scripted",
			"enabled_providers": []string{"scripted"},
			"provider": map[string]any{"scripted": map[string]any{
				"npm":     "@ai-sdk/openai-compatible", // in the binary
				"options": map[string]any{"baseURL": d.model.URL + "/v1", "apiKey": "made-up"},
				"models":  map[string]any{"scripted": map[string]any{}},
			}},
			"mcp": map[string]any{"tocsin": map[string]any{"type": "local", "command": []string{e2etest.Binary(t), "gateway"}, "enabled": true}},
		})
		e2etest.NoError(t, err)
		d.write(t, ".config/opencode/opencode.json", string(settings))
		d.env = append(d.env, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1")
		// The package of this platform. The others were not installed.
		found, err := filepath.Glob(filepath.Join(packages, "node_modules", "opencode-*", "bin", "opencode"))
		e2etest.NoError(t, err)
		if len(found) == 0 {
			t.Skip("there is no opencode for this platform")
		}
		return []string{found[0], "run", prompt}
	},
}
