package setup

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
)

var update = flag.Bool("update", false, "overwrite the golden files")

// TestClients checks that every known agent can be set up.
func TestClients(t *testing.T) {
	var got []inbox.Agent
	for _, c := range Clients() {
		got = append(got, c.Agent)
	}
	if diff := cmp.Diff(inbox.Agents(), got); diff != "" {
		t.Errorf("agents of Clients() (-want +got):\n%s", diff)
	}
}

// TestGolden compares what is written into new files, for each client and scope. The head
// of each golden file links the page that documents the format.
func TestGolden(t *testing.T) {
	p := Dirs{Project: "/project", Home: "/home/u", Config: "/home/u/.config", Getenv: func(string) string { return "" }}
	for _, c := range Clients() {
		t.Run(c.Name, func(t *testing.T) {
			var b strings.Builder
			for _, scope := range Scopes() {
				for _, f := range c.Files(p, scope) {
					out, err := f.Install(nil, Options{Program: "/opt/my tools/tocsin", Hooks: true, Rewake: true, Variables: []string{"TOCSIN_STATE_DIR", "XDG_STATE_HOME"}})
					if err != nil {
						t.Fatal(err)
					}
					b.WriteString("-- " + f.Path + " --\n" + string(out))
					if !f.CreatedByInstall(out) {
						t.Errorf("CreatedByInstall(%s) = false, want true", f.Path)
					}
					if gone, err := f.Uninstall(out, nil); gone != nil || err != nil {
						t.Errorf("Uninstall of %s = %q, %v, want the file removed", f.Path, gone, err)
					}
				}
			}
			name := filepath.Join("testdata", "golden", c.Name+".txt")
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			head, body, _ := strings.Cut(string(data), "-- ")
			if *update {
				if err := os.WriteFile(name, []byte(head+b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !strings.Contains(head, "Source: ") {
				t.Errorf("head of %s = %q, want a source", name, head)
			}
			if "-- "+body != b.String() {
				t.Errorf("%s (-want +got):\n%s", name, cmp.Diff("-- "+body, b.String()))
			}
		})
	}
}

// TestPlaces checks that the environment moves a client's own directory.
func TestPlaces(t *testing.T) {
	env := map[string]string{"CLAUDE_CONFIG_DIR": "/cc", "CODEX_HOME": "/cx", "GEMINI_CLI_HOME": "/g"}
	p := Dirs{Project: "/p", Home: "/h", Config: "/c", Getenv: func(name string) string { return env[name] }}
	want := map[string]string{
		"claude-code": "/cc/.claude.json /cc/settings.json",
		"codex":       "/cx/config.toml /cx/hooks.json",
		"gemini-cli":  "/g/.gemini/settings.json",
		"cursor":      "/h/.cursor/mcp.json /h/.cursor/hooks.json",
		"vscode":      "/c/Code/User/mcp.json",
	}
	for _, c := range Clients() {
		var paths []string
		for _, f := range c.Files(p, User) {
			paths = append(paths, f.Path)
		}
		if got := strings.Join(paths, " "); got != want[c.Name] {
			t.Errorf("files of %s = %s, want %s", c.Name, got, want[c.Name])
		}
	}
}
