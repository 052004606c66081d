package setup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestPlugin: the plugin in deploy holds what install writes, with the program
// found in PATH.
func TestPlugin(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "deploy", "claude-code")
	for _, tt := range []struct{ installed, plugin string }{
		{".mcp.json", ".mcp.json"},
		{".claude/settings.json", "hooks/hooks.json"},
	} {
		want, err := file(t, "claude-code", tt.installed).Install(nil, Options{Program: "tocsin", Hooks: true})
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, tt.plugin)
		if *update {
			if err := os.WriteFile(name, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != string(want) {
			t.Errorf("%s: %v\n%s\nwant:\n%s", name, err, got, want)
		}
	}
	var manifest struct{ Name string }
	var market struct {
		Name    string
		Plugins []struct{ Name, Source string }
	}
	for name, into := range map[string]any{"plugin.json": &manifest, "marketplace.json": &market} {
		data, err := os.ReadFile(filepath.Join(dir, ".claude-plugin", name))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(market.Plugins) != 1 || market.Plugins[0].Name != manifest.Name || market.Plugins[0].Source != "./" || manifest.Name != ServerName || market.Name != ServerName {
		t.Errorf("plugin %+v, marketplace %+v, want one plugin, all named %s", manifest, market, ServerName)
	}
	enabled := []byte(`{"enabledPlugins": {"tocsin@tocsin": true, "other@x": true}}`)
	if found, err := file(t, "claude-code", ".claude/settings.json").Find(enabled); err != nil || found.Plugin != "tocsin@tocsin" {
		t.Errorf("Find = %+v, %v, want the plugin tocsin@tocsin", found, err)
	}
}
