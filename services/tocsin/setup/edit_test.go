package setup

import (
	"bytes"
	"strings"
	"testing"
)

const program = "/opt/tocsin/bin/tocsin"

func testPlace(t *testing.T) Dirs {
	t.Helper()
	return Dirs{Project: "/p", Home: "/home/u", Config: "/home/u/.config", Getenv: func(string) string { return "" }}
}

// file is a client's file in a project, by the end of its name.
func file(t *testing.T, client, suffix string) File {
	t.Helper()
	c, ok := Lookup(client)
	if !ok {
		t.Fatalf("Lookup(%q): no such client", client)
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
			out, err := f.Install([]byte(tt.before), Options{Program: program})
			if err != nil {
				t.Fatal(err)
			}
			if string(out) != tt.after {
				t.Fatalf("installed:\n%s\nwant:\n%s", out, tt.after)
			}
			back, err := f.Uninstall(out, [][]byte{[]byte(tt.before)})
			if err != nil || string(back) != tt.before {
				t.Errorf("Uninstall with a backup = %q, %v, want %q", back, err, tt.before)
			}
			if tt.name == "a bracket behind the last member" {
				return // without the backup, the position of its bracket is lost
			}
			if back, err = f.Uninstall(out, nil); err != nil || string(back) != tt.before {
				t.Errorf("Uninstall without a backup = %q, %v, want %q", back, err, tt.before)
			}
		})
	}
}

// TestContainersThatWereThere checks that an empty container stays only where a backup has it.
func TestContainersThatWereThere(t *testing.T) {
	f := file(t, "claude-code", ".claude/settings.json")
	before := []byte("{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}\n")
	out, err := f.Install(before, Options{Program: program, Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.Replace(out, []byte("{\n"), []byte("{\n  \"model\": \"x\",\n"), 1)
	back, err := f.Uninstall(later, [][]byte{before})
	if want := "{\n  \"model\": \"x\",\n  \"hooks\": {\n    \"Stop\": []\n  }\n}\n"; err != nil || string(back) != want {
		t.Errorf("Uninstall with a backup = %q, %v, want %q", back, err, want)
	}
	back, err = f.Uninstall(out, nil)
	if err != nil || back != nil {
		t.Errorf("Uninstall without a backup = %q, %v, want the file removed", back, err)
	}
}

// TestForeignHooks checks that hooks of others stay, also in a group with one of ours.
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
	out, err := f.Install([]byte(src), Options{Program: program, Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte(`"`+program+` hook --client claude-code --stop=false"`)) || bytes.Contains(out, []byte("old place")) {
		t.Errorf("Install = %s, want the new path with the flag --stop=false, without the old path", out)
	}
	found, err := f.Find(out)
	if err != nil || len(found.Hooks) != 6 {
		t.Errorf("Find = %+v, %v, want 6 hooks", found, err)
	}
	back, err := f.Uninstall(out, nil)
	want := strings.Replace(src, `"lint"}, // mine
          {"type": "command", "command": "'/old place/tocsin' hook --client claude-code --stop=false"}`, `"lint"} // mine`, 1)
	if err != nil || string(back) != want {
		t.Errorf("Uninstall = %s, %v, want %s", back, err, want)
	}
}

// TestRefusals checks that a file that can't be edited safely is refused, with the fix.
func TestRefusals(t *testing.T) {
	o := Options{Program: program, Hooks: true}
	for _, tt := range []struct{ name, client, file, src, want string }{
		{"no JSON", "claude-code", ".mcp.json", "{\"a\": }", "line 1, column 7"},
		{"cut off", "cursor", "mcp.json", "{\"a\": 1", "fix that"},
		{"another root", "vscode", "mcp.json", "[]", "is not a JSON object"},
		{"servers of another shape", "vscode", "mcp.json", `{"servers": []}`, `its "servers" is not an object`},
		{"events of another shape", "codex", "hooks.json", `{"hooks": {"Stop": {}}}`, `its "hooks.Stop" is not a list`},
		{"twice", "claude-code", ".mcp.json", `{"mcpServers": {}, "mcpServers": {}}`, `"mcpServers" twice`},
		{"another server named tocsin", "claude-code", ".mcp.json", `{"mcpServers": {"tocsin": {"command": "docker", "args": ["run"]}}}`, "another MCP server named tocsin"},
		{"another server named tocsin, by URL", "codex", "config.toml", "[mcp_servers.tocsin]\nurl = 'https://x'\n", "another MCP server named tocsin"},
		{"too deep", "claude-code", ".mcp.json", strings.Repeat(`{"a":`, 2000), "is nested deeper"},
		{"not TOML", "codex", "config.toml", "a = \nb", "not TOML at line 1"},
		{"servers in one line", "codex", "config.toml", "mcp_servers = {a = {command = 'x'}}\n", "can't be added"},
		{"our server in one line, elsewhere", "codex", "config.toml", "[mcp_servers]\ntocsin = {command = '/x/tocsin', args = ['gateway']}\n", "not a table [mcp_servers.tocsin]"},
		{"a byte order mark", "claude-code", ".mcp.json", "\xef\xbb\xbf{}", "it has a byte order mark: save it as UTF-8 without one"},
		{"a byte order mark in TOML", "codex", "config.toml", "\xef\xbb\xbfa = 1", "it has a byte order mark"},
		{"UTF-16", "cursor", "mcp.json", "\xff\xfe{\x00}\x00", "it has a byte order mark"},
		{"servers in one line, and what to do", "codex", "config.toml", "mcp_servers = {a = {command = 'x'}}\n", "write it as tables, [mcp_servers.NAME]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := file(t, tt.client, tt.file).Install([]byte(tt.src), o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "run this again") {
				t.Errorf("Install: error = %v, want %q and the fix", err, tt.want)
			}
		})
	}
}

// TestTOML checks that comments stay, that Install updates the path of a moved program, and that
// Uninstall removes tables within ours.
func TestTOML(t *testing.T) {
	f := file(t, "codex", "config.toml")
	before := "# mine\nmodel = \"m\" # why\n\n[mcp_servers.other]\ncommand = 'x'\n"
	out, err := f.Install([]byte(before), Options{Program: program})
	if err != nil || !strings.HasPrefix(string(out), before+"\n[mcp_servers.tocsin]\ncommand = \""+program+"\"\nargs = [\"gateway\"]\n") {
		t.Fatalf("Install = %s, %v, want the server after the text before", out, err)
	}
	if back, err := f.Uninstall(out, nil); err != nil || string(back) != before {
		t.Errorf("Uninstall = %q, %v, want %q", back, err, before)
	}
	more := string(out) + "\n[mcp_servers.tocsin.tools.observe]\napproval_mode = \"approve\"\n\n[profiles.x]\nmodel = \"y\" # stays\n"
	moved, err := f.Install([]byte(more), Options{Program: "/new place/tocsin"})
	if err != nil || string(moved) != strings.Replace(more, program, "/new place/tocsin", 1) {
		t.Errorf("Install of a moved program = %s, %v, want only the path changed", moved, err)
	}
	back, err := f.Uninstall(moved, nil)
	if want := before + "\n[profiles.x]\nmodel = \"y\" # stays\n"; err != nil || string(back) != want {
		t.Errorf("Uninstall = %q, %v, want %q", back, err, want)
	}
	stay := Options{Program: program, Variables: []string{"A", "B"}, StateDir: "/s d"}
	for before, want := range map[string]string{
		"command = 'x'\nargs = ['gateway'] # [a]\n":                                  "command = \"" + program + "\"\nenv_vars = [\"A\", \"B\"]\nargs = [\"gateway\", \"--state-dir\", \"/s d\"] # [a]\n",
		"command = 'x'\r\nargs = ['gateway', '--state-dir=/s d']":                    "command = \"" + program + "\"\r\nenv_vars = [\"A\", \"B\"]\r\nargs = ['gateway', '--state-dir=/s d']",
		"args = ['gateway', '--state-dir=/x']\nenv_vars = []\ncommand = 'x'":         "args = [\"gateway\", \"--state-dir=/s d\"]\nenv_vars = [\"A\", \"B\"]\ncommand = \"" + program + "\"",
		"env_vars = [ # ]\n  'C', 'A', # mine\n]\ncommand = 'x'\nargs = ['gateway']": "env_vars = [\"B\",  # ]\n  'C', 'A', # mine\n]\ncommand = \"" + program + "\"\nargs = [\"gateway\", \"--state-dir\", \"/s d\"]",
		"url = 'http://127.0.0.1:7460/mcp?client=x'\n":                               "url = 'http://127.0.0.1:7460/mcp?client=x'\n",
	} {
		const head = "[mcp_servers.tocsin]\n"
		out, err := f.Install([]byte(head+before), stay)
		if err != nil || string(out) != head+want {
			t.Errorf("Install = %q, %v, want %q", out, err, head+want)
		}
		if again, err := f.Install(out, stay); err != nil || string(again) != string(out) {
			t.Errorf("second Install = %q, %v, want it unchanged: %q", again, err, out)
		}
	}
	if found, err := f.Find([]byte("[features]\nhooks = false\n")); err != nil || found.HooksOff != "features.hooks" {
		t.Errorf("Find = %+v, %v, want HooksOff features.hooks", found, err)
	}
}

// TestInboxOfAnEntry checks that the hooks get the client name of an existing entry, and
// that the entry stays as its user wrote it.
func TestInboxOfAnEntry(t *testing.T) {
	f := file(t, "gemini-cli", "settings.json")
	for _, tt := range []struct{ entry, inbox, stateDir, namespaces string }{
		{`{"command":"` + program + `","args":["gateway"]}`, "", "", ""},
		{`{"command":"` + program + `","args":["gateway","--client","me","--kubernetes-namespaces","shop,bank","--kubernetes-namespaces=_cluster"]}`, "me", "", "shop,bank,_cluster"},
		{`{"command":"` + program + `","args":["gateway","--kubernetes-namespaces=shop","--client=a b","--state-dir","/s"]}`, "a b", "/s", "shop"},
		{`{"command":"` + program + `","args":["gateway"],"env":{"TOCSIN_CLIENT":"me","N":1,"TOCSIN_STATE_DIR":"/s","TOCSIN_KUBERNETES_NAMESPACES":"shop"}}`, "me", "/s", "shop"},
		{`{"type":"http","url":"http://127.0.0.1:7460/mcp?client=me"}`, "me", "", ""},
		{`{"httpUrl":"http://localhost:7460/mcp","headers":{"tocsin-client":"me"}}`, "me", "", ""},
		{`{"url":"http://[::1]:7460/mcp"}`, "", "", ""},
	} {
		src := []byte(`{"mcpServers":{"tocsin":` + tt.entry + `}}`)
		found, err := f.Find(src)
		if err != nil || !found.Server.IsTocsin() || found.Server.Client() != tt.inbox || found.Server.StateDir() != tt.stateDir || found.Server.Namespaces() != tt.namespaces {
			t.Fatalf("Find(%s) = %+v, %v, want client %q, state directory %q, namespaces %q", tt.entry, found.Server, err, tt.inbox, tt.stateDir, tt.namespaces)
		}
		out, err := f.Install(src, Options{Program: program, Hooks: true, Inbox: tt.inbox, StateDir: tt.stateDir, Namespaces: tt.namespaces})
		if err != nil || !bytes.Contains(out, []byte(tt.entry)) {
			t.Fatalf("Install = %s, %v, want it with the entry %s", out, err, tt.entry)
		}
		found, err = f.Find(out)
		if err != nil || len(found.Hooks) != 5 {
			t.Fatalf("Find = %+v, %v, want 5 hooks", found, err)
		}
		for _, h := range found.Hooks {
			if h.Inbox != tt.inbox || h.StateDir != tt.stateDir || h.Namespaces != tt.namespaces {
				t.Errorf("%s: hook = %+v, want inbox %q, state directory %q, namespaces %q", tt.entry, h, tt.inbox, tt.stateDir, tt.namespaces)
			}
		}
		if back, err := f.Uninstall(out, [][]byte{[]byte("{}")}); err != nil || string(back) != "{}" {
			t.Errorf("Uninstall = %q, %v, want {}", back, err)
		}
	}
	for _, foreign := range []string{"https://example.com/mcp", "http://127.0.0.1:7460/sse", "http://127.0.0.1:7460/mcp/x", "::"} {
		_, err := f.Install([]byte(`{"mcpServers":{"tocsin":{"url":"`+foreign+`?key=secret"}}}`), Options{Program: program})
		if err == nil || !strings.Contains(err.Error(), "another MCP server") || strings.Contains(err.Error(), "secret") {
			t.Errorf("Install over the server %s = %v, want another MCP server, without the key", foreign, err)
		}
	}
}

func TestFlagsInCommandLines(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"tocsin hook --client x", "tocsin hook --client x --inbox 'a b'"},
		{"tocsin hook --client=x --stop=false || true", "tocsin hook --inbox 'a b' --client=x --stop=false || true"},
		{"'/a b/tocsin' hook --client x 2>&1", "'/a b/tocsin' hook --client x --inbox 'a b' 2>&1"},
		{"tocsin hook --inbox y --client x", "tocsin hook --inbox 'a b' --client x"},
		{`tocsin hook --client x --inbox="y" --wait 3m`, "tocsin hook --client x --inbox 'a b' --wait 3m"},
		{`tocsin hook --client x --inbox "a b"`, `tocsin hook --client x --inbox "a b"`},
	} {
		got := setFlag(tt.line, "--inbox", "a b")
		if got != tt.want || flagValue(got, "--inbox") != "a b" {
			t.Errorf("setFlag(%q) = %q, want %q", tt.line, got, tt.want)
		}
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
			t.Errorf("hookProgram(%q) = %q, %t, want %q, %t", tt.line, got, ok, tt.program, tt.ok)
		}
	}
}

func TestOptionsCheck(t *testing.T) {
	for _, tt := range []struct{ program, want string }{
		{program, ""},
		{"/Program Files/tocsin", ""},
		{"bin/tocsin", "absolute"},
		{"/bin/tocsin-2", "rename it to tocsin"},
		{"/a\nb/tocsin", "move the program"},
		{"/a\xff/tocsin", "move the program"},
	} {
		err := Options{Program: tt.program}.Check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Check of the program %q = %v, want %q", tt.program, err, tt.want)
		}
	}
}
