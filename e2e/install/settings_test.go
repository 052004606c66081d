package install

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestDoctorOnSettings checks that doctor does not promise what a client's own settings
// turn off, and reports what is broken or missing with a fix.
func TestDoctorOnSettings(t *testing.T) {
	t.Parallel()
	const entry = `"mcpServers":{"tocsin":{"command":"BIN","args":["gateway"]}}`
	for _, tt := range []struct {
		name, client string
		// files are written to the home after the install.
		files map[string]string
		bad   bool
		want  string
	}{
		{"codex: the server", "codex", map[string]string{"my project/.codex/config.toml": "[mcp_servers.tocsin]\ncommand = 'BIN'\nargs = ['gateway']\nenabled = false\n"},
			false, "by hooks; observe is missing: its MCP server is turned off by mcp_servers.tocsin.enabled in "},
		{"gemini: excluded", "gemini-cli", map[string]string{".gemini/settings.json": `{"mcp":{"excluded":["tocsin"]}}`}, false, "turned off by mcp.excluded in "},
		{"gemini: allowed", "gemini-cli", map[string]string{".gemini/settings.json": `{"mcp":{"allowed":["other"]}}`}, false, "turned off by mcp.allowed in "},
		{"claude: disabled", "claude-code", map[string]string{"my project/.claude/settings.local.json": `{"disabledMcpjsonServers":["tocsin"]}`},
			false, "turned off by disabledMcpjsonServers in "},
		{"claude: all off", "claude-code", map[string]string{".claude.json": `{"projects":{"PROJECT":{"disabledMcpServers":["tocsin"]}}}`, ".claude/settings.json": `{"disableAllHooks":true}`},
			false, "no alert reaches its model: its hooks are turned off by disableAllHooks in "},
		{"claude: local hooks", "claude-code", map[string]string{"my project/.claude/settings.local.json": `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"BIN hook --client claude-code"}]}]}}`},
			false, "its hooks run twice, because of those in HOME/my project/.claude/settings.local.json"},
		{"claude: a server by claude mcp add", "", map[string]string{".claude.json": `{"projects":{"PROJECT":{` + entry + `}}}`}, false, "project in HOME/.claude.json; alerts reach its model only when"},
		{"claude: local hooks alone", "", map[string]string{"my project/.claude/settings.local.json": `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"BIN hook --client claude-code"}]}]}}`},
			false, "by hooks; observe is missing: tocsin install claude-code --scope project --no-hooks"},
		{"claude: local hooks of a program that is gone", "", map[string]string{"my project/.claude/settings.local.json": `{"hooks":{"Stop":[{"hooks":[{"command":"/gone/tocsin hook --client claude-code"}]}]}}`},
			true, "fix: correct it in HOME/my project/.claude/settings.local.json"},
		{"claude: the plugin alone", "", map[string]string{".claude/settings.json": `{"enabledPlugins":{"tocsin@tocsin":true}}`}, true, "not in PATH"},
		{"broken", "", map[string]string{".claude.json": `{`}, true, "fix: fix that file, or move it away"},
		{"another inbox", "cursor", map[string]string{"my project/.cursor/mcp.json": `{"mcpServers":{"tocsin":{"command":"BIN","args":["gateway","--client","me"]}}}`}, true, "delivered twice"},
		{"a URL without a name", "cursor", map[string]string{"my project/.cursor/mcp.json": `{"mcpServers":{"tocsin":{"url":"http://127.0.0.1:7460/mcp"}}}`}, true, "fix: add ?client=NAME to the URL, then: tocsin install cursor"},
		{"an empty directory", "", map[string]string{".codex/x.tocsin-backup-1": ""}, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newAccount(t)
			if tt.client != "" {
				d.must(t, "install", tt.client)
			}
			put := strings.NewReplacer("BIN", e2etest.Binary(t), "PROJECT", d.project, "HOME", d.home)
			for path, text := range tt.files {
				d.write(t, filepath.Join(d.home, path), put.Replace(text))
			}
			_, report, _ := d.run(t, e2etest.Binary(t), "doctor")
			_, clients, _ := strings.Cut(report, "starts it, too)\n")
			if bad := strings.Contains(clients, "FAIL"); bad != tt.bad || !strings.Contains(clients, put.Replace(tt.want)) {
				t.Errorf("got %s, want bad %v and %q in it", clients, tt.bad, put.Replace(tt.want))
			}
			if tt.want == "" && clients != "" {
				t.Errorf("doctor without clients = %s, want none named", clients)
			}
		})
	}
}

// TestDoctorBelowAProject checks that clients that search upwards for a project's files
// find them from a folder within.
func TestDoctorBelowAProject(t *testing.T) {
	t.Parallel()
	d := newAccount(t)
	d.must(t, "install", "codex")
	d.must(t, "install", "gemini-cli")
	d.write(t, filepath.Join(d.project, "sub", "x"), "")
	root := d.project
	d.project = filepath.Join(root, "sub")
	if _, report, _ := d.run(t, e2etest.Binary(t), "doctor"); strings.Contains(report, "config.toml") {
		t.Errorf("doctor below a project without a repository = %s, want no config.toml", report)
	}
	d.write(t, filepath.Join(root, ".git"), "")
	_, report, _ := d.run(t, e2etest.Binary(t), "doctor")
	if !strings.Contains(report, "project in "+root+"/.codex/config.toml") || !strings.Contains(report, "for sessions that start in "+root+"\n") {
		t.Errorf("got %s, want %q in it and %q in it", report, "project in "+root+"/.codex/config.toml", "for sessions that start in "+root+"\n")
	}
}

// TestInstallSharesTheInbox checks that the hooks get the name and the state directory
// of the gateway's entry, and that install reports what it cannot fix.
func TestInstallSharesTheInbox(t *testing.T) {
	t.Parallel()
	d := newAccount(t)
	d.write(t, filepath.Join(d.project, ".mcp.json"), `{"mcpServers":{"tocsin":{"type":"http","url":"http://127.0.0.1:7460/mcp?client=me"}}}`)
	d.must(t, "install", "claude-code")
	hooks := d.files(t)["my project/.claude/settings.json"]
	if n := strings.Count(hooks, "hook --client claude-code --inbox me\""); n != 6 {
		t.Errorf("%d in %s, want 6", n, hooks)
	}
	d.write(t, filepath.Join(d.project, ".cursor", "mcp.json"), `{"mcpServers":{"tocsin":{"url":"http://127.0.0.1:7460/mcp"}}}`)
	if output := d.must(t, "install", "cursor"); !strings.Contains(output, "add it and run this again") {
		t.Errorf("got %s, want \"add it and run this again\" in it", output)
	}
	d.must(t, "install", "codex", "--state-dir", filepath.Join(d.home, "else where"))
	files := d.files(t)
	if got := files["my project/.codex/config.toml"]; !strings.Contains(got, `args = ["gateway", "--state-dir", "`+d.home+`/else where"]`) || !strings.Contains(got, `"TOCSIN_NOTIFY_SLACK"`) {
		t.Errorf("got %s, want %q in it and \"\\\"TOCSIN_NOTIFY_SLACK\\\"\" in it", got, `args = ["gateway", "--state-dir", "`+d.home+`/else where"]`)
	}
	if got := files["my project/.codex/hooks.json"]; strings.Count(got, "--client codex --state-dir '"+d.home+"/else where'\"") != 4 {
		t.Errorf("got %s, want %q 4 times in it", got, "--client codex --state-dir '"+d.home+"/else where'\"")
	}
}

// TestInstallReportsDisabledEntries checks entries that the client's settings turn off.
func TestInstallReportsDisabledEntries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ client, path, text, want string }{
		{"claude-code", ".claude/settings.json", `{"disableAllHooks":true}`, "Claude Code runs no hooks: they are turned off by disableAllHooks in "},
		{"claude-code", ".claude/settings.json", `{"enabledPlugins":{"tocsin@tocsin":true}}`, "the plugin tocsin@tocsin is on (scope user)"},
		{"codex", ".codex/config.toml", "[features]\nhooks = false\n", "Codex CLI runs no hooks: they are turned off by features.hooks in "},
		{"gemini-cli", ".gemini/settings.json", `{"hooksConfig":{"enabled":false},"mcp":{"excluded":["tocsin"]}}`, "Gemini CLI runs no hooks: they are turned off by hooksConfig.enabled in "},
		{"gemini-cli", ".gemini/settings.json", `{"mcp":{"excluded":["tocsin"]}}`, "Gemini CLI does not start the server: it is turned off by mcp.excluded in "},
	} {
		d := newAccount(t)
		d.write(t, filepath.Join(d.home, tt.path), tt.text)
		if output := d.must(t, "install", tt.client); !strings.Contains(output, "note: "+tt.want) {
			t.Errorf("%s: got %s, want %q in it", tt.client, output, "note: "+tt.want)
		}
	}
}
