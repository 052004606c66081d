package setup

import (
	"bytes"
	"strings"
	"testing"
)

const program = "/opt/tocsin/bin/tocsin"

func testPlace(t *testing.T) Place {
	t.Helper()
	return Place{Project: "/p", Home: "/home/u", Config: "/home/u/.config", Getenv: func(string) string { return "" }}
}

// file is a client's file in a project, by the end of its name.
func file(t *testing.T, client, suffix string) File {
	t.Helper()
	c, ok := Lookup(client)
	if !ok {
		t.Fatalf("no client %s", client)
	}
	for _, f := range c.Files(testPlace(t), Project) {
		if strings.HasSuffix(f.Path, suffix) {
			return f
		}
	}
	t.Fatalf("%s has no file %s", client, suffix)
	return File{}
}

// TestInstallKeepsTheRest: comments, order, indentation, trailing commas and
// line ends stay, and removal gives the very text back, without a backup too.
func TestInstallKeepsTheRest(t *testing.T) {
	server := func(indent, unit string) string {
		return strings.Join([]string{
			`"tocsin": {`, unit + `"type": "stdio",`, unit + `"command": "` + program + `",`,
			unit + `"args": [`, unit + unit + `"gateway"`, unit + `]`, `}`,
		}, "\n"+indent)
	}
	for _, tt := range []struct{ name, before, after string }{
		{
			"another server, tabs",
			"{\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\"}\n\t}\n}\n",
			"{\n\t\"mcpServers\": {\n\t\t\"other\": {\"command\": \"x\"},\n\t\t" + server("\t\t", "\t") + "\n\t}\n}\n",
		},
		{
			"comments beside and after the last member",
			"// top\n{\n  \"a\": 1 // one\n  // end\n}\n// bottom\n",
			"// top\n{\n  \"a\": 1, // one\n  // end\n  \"mcpServers\": {\n    " + server("    ", "  ") + "\n  }\n}\n// bottom\n",
		},
		{
			"a trailing comma",
			"{\n  \"a\": 1,\n}\n",
			"{\n  \"a\": 1,\n  \"mcpServers\": {\n    " + server("    ", "  ") + "\n  },\n}\n",
		},
		{
			"all on one line",
			`{"a":1}`,
			`{"a":1,"mcpServers":{"tocsin":{"type":"stdio","command":"` + program + `","args":["gateway"]}}}`,
		},
		{
			"servers on one line",
			"{\n  \"mcpServers\": { \"o\": {} }\n}",
			"{\n  \"mcpServers\": { \"o\": {}, \"tocsin\": " + `{"type":"stdio","command":"` + program + `","args":["gateway"]}` + " }\n}",
		},
		{
			"a bracket behind the last member",
			"{\n    \"a\": [1,\n2]}",
			"{\n    \"a\": [1,\n2],\n    \"mcpServers\": {\n        " + server("        ", "    ") + "\n    }\n}",
		},
		{
			"CRLF",
			"{\r\n  \"a\": 1\r\n}\r\n",
			strings.ReplaceAll("{\n  \"a\": 1,\n  \"mcpServers\": {\n    "+server("    ", "  ")+"\n  }\n}\n", "\n", "\r\n"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := file(t, "claude-code", ".mcp.json")
			out, err := f.Install([]byte(tt.before), Wanted{Program: program})
			if err != nil {
				t.Fatal(err)
			}
			if string(out) != tt.after {
				t.Fatalf("installed:\n%s\nwant:\n%s", out, tt.after)
			}
			back, err := f.Uninstall(out, [][]byte{[]byte(tt.before)})
			if err != nil || string(back) != tt.before {
				t.Errorf("uninstalled, with a backup:\n%s\n%v", back, err)
			}
			if tt.name == "a bracket behind the last member" {
				return // where its bracket stood can't be known
			}
			if back, err = f.Uninstall(out, nil); err != nil || string(back) != tt.before {
				t.Errorf("uninstalled, without a backup:\n%s\n%v", back, err)
			}
		})
	}
}

// TestContainersThatWereThere: an empty one stays only where a backup has it.
func TestContainersThatWereThere(t *testing.T) {
	f := file(t, "claude-code", ".claude/settings.json")
	before := []byte("{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}\n")
	out, err := f.Install(before, Wanted{Program: program, Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Replace(out, []byte("{\n"), []byte("{\n  \"model\": \"x\",\n"), 1)
	back, err := f.Uninstall(later, [][]byte{before})
	if want := "{\n  \"model\": \"x\",\n  \"hooks\": {\n    \"Stop\": []\n  }\n}\n"; err != nil || string(back) != want {
		t.Errorf("%s\n%v", back, err)
	}
	back, err = f.Uninstall(out, nil)
	if err != nil || back != nil {
		t.Errorf("%s\n%v", back, err)
	}
}

// TestForeignHooks: hooks of others stay, also in a group with one of ours.
func TestForeignHooks(t *testing.T) {
	f := file(t, "claude-code", ".claude/settings.json")
	src := `{
  "hooks": {
    "Stop": [
      {
        "hooks": [
          {"type": "command", "command": "lint"}, // mine
          {"type": "command", "command": "'/old place/tocsin' hook --client claude-code --stop=false"}
        ]
      }
    ],
    "Other": [{"hooks": [{"type": "command", "command": "tocsin-hook hook"}, {"type": "http", "url": "x"}]}]
  }
}
`
	out, err := f.Install([]byte(src), Wanted{Program: program, Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte(`"`+program+` hook --client claude-code --stop=false"`)) || bytes.Contains(out, []byte("old place")) {
		t.Errorf("the user's flag is gone, or the old path is not:\n%s", out)
	}
	found, err := f.Find(out)
	if err != nil || len(found.Hooks) != 6 {
		t.Errorf("%+v, %v", found, err)
	}
	back, err := f.Uninstall(out, nil)
	want := strings.Replace(src, `"lint"}, // mine
          {"type": "command", "command": "'/old place/tocsin' hook --client claude-code --stop=false"}`, `"lint"} // mine`, 1)
	if err != nil || string(back) != want {
		t.Errorf("%s\n%v", back, err)
	}
}

// TestRefusals: what can't be edited safely is left alone, with what to do.
func TestRefusals(t *testing.T) {
	w := Wanted{Program: program, Hooks: true}
	for _, tt := range []struct{ name, client, file, src, want string }{
		{"no JSON", "claude-code", ".mcp.json", "{\"a\": }", "line 1, column 7"},
		{"cut off", "cursor", "mcp.json", "{\"a\": 1", "mend that"},
		{"another root", "vscode", "mcp.json", "[]", "holds no JSON object"},
		{"servers of another shape", "vscode", "mcp.json", `{"servers": []}`, `its "servers" is not an object`},
		{"events of another shape", "codex", "hooks.json", `{"hooks": {"Stop": {}}}`, `its "hooks.Stop" is not a list`},
		{"twice", "claude-code", ".mcp.json", `{"mcpServers": {}, "mcpServers": {}}`, `"mcpServers" twice`},
		{"somebody else's tocsin", "claude-code", ".mcp.json", `{"mcpServers": {"tocsin": {"command": "docker", "args": ["run"]}}}`, "another MCP server named tocsin"},
		{"somebody else's tocsin by URL", "codex", "config.toml", "[mcp_servers.tocsin]\nurl = 'https://x'\n", "another MCP server named tocsin"},
		{"too deep", "claude-code", ".mcp.json", strings.Repeat(`{"a":`, 2000), "nests deeper"},
		{"no TOML", "codex", "config.toml", "a = \nb", "no TOML at line 1"},
		{"servers in one line", "codex", "config.toml", "mcp_servers = {a = {command = 'x'}}\n", "as a table of its own"},
		{"our server in one line, elsewhere", "codex", "config.toml", "[mcp_servers]\ntocsin = {command = '/x/tocsin', args = ['gateway']}\n", "not written as a table"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := file(t, tt.client, tt.file).Install([]byte(tt.src), w)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "run this again") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestTOML: comments stay, a moved program is pointed to, tables in ours go
// with it.
func TestTOML(t *testing.T) {
	f := file(t, "codex", "config.toml")
	before := "# mine\nmodel = \"m\" # why\n\n[mcp_servers.other]\ncommand = 'x'\n"
	out, err := f.Install([]byte(before), Wanted{Program: program})
	if err != nil || !strings.HasPrefix(string(out), before+"\n[mcp_servers.tocsin]\ncommand = \""+program+"\"\nargs = [\"gateway\"]\n") {
		t.Fatalf("%s\n%v", out, err)
	}
	if back, err := f.Uninstall(out, nil); err != nil || string(back) != before {
		t.Errorf("%s\n%v", back, err)
	}
	more := string(out) + "\n[mcp_servers.tocsin.tools.observe]\napproval_mode = \"approve\"\n\n[profiles.x]\nmodel = \"y\" # stays\n"
	moved, err := f.Install([]byte(more), Wanted{Program: "/new place/tocsin"})
	if err != nil || string(moved) != strings.Replace(more, program, "/new place/tocsin", 1) {
		t.Errorf("%s\n%v", moved, err)
	}
	back, err := f.Uninstall(moved, nil)
	if want := before + "\n[profiles.x]\nmodel = \"y\" # stays\n"; err != nil || string(back) != want {
		t.Errorf("%s\n%v", back, err)
	}
	if found, err := f.Find([]byte("[features]\nhooks = false\n")); err != nil || found.HooksOff != "features.hooks" {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestCommandLines(t *testing.T) {
	for _, tt := range []struct {
		line, program string
		ok            bool
	}{
		{"/a/tocsin hook --client x", "/a/tocsin", true},
		{"  'a b'/tocsin\thook", "a b/tocsin", true},
		{`"/a \"b\" $c/tocsin" hook`, `/a "b" $c/tocsin`, true},
		{`/a\ b/tocsin hook`, "/a b/tocsin", true},
		{`'it'\''s/tocsin' hook`, "it's/tocsin", true},
		{`"a\b/tocsin" hook`, `a\b/tocsin`, true},
		{"tocsin.exe hook", "tocsin.exe", true},
		{"tocsin hooks", "", false},
		{"tocsin", "", false},
		{"X=1 tocsin hook", "", false},
		{"/a/tocsin2 hook", "", false},
		{"'tocsin hook", "", false},
		{`tocsin hook\`, "", false},
		{"", "", false},
	} {
		got, _, ok := hookProgram(tt.line)
		if ok != tt.ok || ok && got != tt.program {
			t.Errorf("%q: %q, %v", tt.line, got, ok)
		}
	}
}

func TestWantedCheck(t *testing.T) {
	for _, tt := range []struct{ program, want string }{
		{program, ""},
		{"/Program Files/tocsin", ""},
		{"bin/tocsin", "absolute"},
		{"/bin/tocsin-2", "name it tocsin"},
		{"/a\nb/tocsin", "move the program"},
		{"/a\xff/tocsin", "move the program"},
	} {
		err := Wanted{Program: tt.program}.Check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v", tt.program, err)
		}
	}
}
