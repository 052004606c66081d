package setup

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tailscale/hujson"
)

// FuzzJSON checks, for any content of the file: installing leaves valid text in which
// everything else means the same, and a second time changes nothing. Removal restores the
// same text with a backup, and the same meaning without one.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		"", " \n", "{}", "{ }\n", `{"a":1}`, "{\n  \"a\": 1, // x\n}\n", "{\"mcpServers\": {\"x\": {}}}",
		`{"hooks":{"":[{"hooks":[{"CommAnd":"tocsin hook"}]}],"0":[]}}`,
		"{\"hooks\": {\"Stop\": [{\"hooks\": [{\"command\": \"tocsin hook\"}]}], \"AfterTool\": []}}",
		"/* a */ {\r\n\t\"hooks\": { /* b */ },\r\n\t\"version\": 2 /* c */ , // d\r\n}",
		`{"servers": {"tocsin": {"command": "/a/tocsin", "args": ["gateway", "--client", "x"],},},}`,
	} {
		for i := range len(jsonFiles(f)) {
			f.Add([]byte(seed), i)
		}
	}
	files := jsonFiles(f)
	f.Fuzz(func(t *testing.T, src []byte, which int) {
		file := files[uint(which)%uint(len(files))]
		o := Options{Program: "/a b/tocsin", Hooks: true, Rewake: which%2 == 0}
		if which%3 == 0 {
			o.Inbox, o.StateDir = "a b", "/s"
		}
		had, err := file.Find(src)
		if err != nil {
			return
		}
		out, err := file.Install(src, o)
		if err != nil {
			return
		}
		if again, err := file.Install(out, o); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("second Install = %q, %v, want it unchanged: %q", again, err, out)
		}
		found, err := file.Find(out)
		if err != nil || !found.Any() || found.Program() != o.Program && !found.Server.IsHTTP() {
			t.Fatalf("Find = %+v, %v, want the program %s in\n%s", found, err, o.Program, out)
		}
		if before, after := foreign(t, file, src), foreign(t, file, out); !reflect.DeepEqual(before, after) {
			t.Fatalf("the rest of the file after Install = %v, want %v", after, before)
		}
		if had.Any() {
			return
		}
		back, err := file.Uninstall(out, [][]byte{src})
		if err != nil || !bytes.Equal(back, src) {
			t.Fatalf("Uninstall with a backup = %q, %v, want %q", back, err, src)
		}
		back, err = file.Uninstall(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		if before, after := foreign(t, file, src), foreign(t, file, back); !reflect.DeepEqual(before, after) {
			t.Fatalf("the rest of the file after Uninstall without a backup = %v, want %v", after, before)
		}
		if comments(t, src) != comments(t, back) {
			t.Fatalf("comments after Uninstall = %q, want %q", comments(t, back), comments(t, src))
		}
	})
}

func jsonFiles(tb testing.TB) []File {
	tb.Helper()
	var out []File
	p := Dirs{Project: "/p", Home: "/h", Config: "/c", Getenv: func(string) string { return "" }}
	for _, c := range Clients() {
		for _, f := range c.Files(p, Project) {
			if _, ok := f.format.(jsonFormat); ok {
				out = append(out, f)
			}
		}
	}
	return out
}

// foreign returns the meaning of a text without our entries and without empty containers. It
// is computed in another way than by the editors.
func foreign(t *testing.T, f File, src []byte) any {
	t.Helper()
	format, _ := f.format.(jsonFormat)
	if len(bytes.TrimSpace(src)) == 0 {
		src = []byte("{}")
	}
	plain, err := hujson.Standardize(bytes.Clone(src)) // which writes into its argument
	if err != nil {
		t.Fatalf("standardize %q: %v", src, err)
	}
	var root map[string]any
	if err := json.Unmarshal(plain, &root); err != nil {
		t.Fatalf("decode %q: %v", src, err)
	}
	if servers, ok := root[format.serversKey].(map[string]any); ok {
		delete(servers, ServerName)
		if len(servers) == 0 {
			delete(root, format.serversKey)
		}
	}
	if format.version > 0 {
		delete(root, "version")
	}
	hooks, ok := root["hooks"].(map[string]any)
	if !ok || format.hooks == nil {
		return root
	}
	for event, v := range hooks {
		if list, ok := v.([]any); ok {
			if list = without(list); len(list) == 0 {
				delete(hooks, event)
			} else {
				hooks[event] = list
			}
		}
	}
	if len(hooks) == 0 {
		delete(root, "hooks")
	}
	return root
}

func without(list []any) []any {
	var out []any
	for _, v := range list {
		m, ok := v.(map[string]any)
		if command, is := m["command"].(string); ok && is {
			if _, _, ours := hookProgram(command); ours {
				continue
			}
		}
		if inner, is := m["hooks"].([]any); ok && is {
			if len(inner) > 0 && len(without(inner)) == 0 {
				continue
			}
			m["hooks"] = without(inner)
		}
		out = append(out, v)
	}
	return out
}

// comments are all comments of a text, one after the other.
func comments(t *testing.T, src []byte) string {
	t.Helper()
	if len(bytes.TrimSpace(src)) == 0 {
		return ""
	}
	v, err := hujson.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	add := func(e hujson.Extra) { b.Write(bytes.Join(bytes.Fields(e), nil)) }
	var walk func(v *hujson.Value)
	walk = func(v *hujson.Value) {
		add(v.BeforeExtra)
		switch c := v.Value.(type) {
		case *hujson.Object:
			for i := range c.Members {
				walk(&c.Members[i].Name)
				walk(&c.Members[i].Value)
			}
			add(c.AfterExtra)
		case *hujson.Array:
			for i := range c.Elements {
				walk(&c.Elements[i])
			}
			add(c.AfterExtra)
		}
		add(v.AfterExtra)
	}
	walk(&v)
	return b.String()
}

// FuzzTOML: as FuzzJSON, for Codex's settings.
func FuzzTOML(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "model = 'x'", "[a]\nb = 1\n", "[mcp_servers.x]\ncommand = 'y'\r\n", "[mcp_servers]\n", "mcp_servers.x.command = 'y'",
		"[mcp_servers.tocsin]\ncommand = '/x/tocsin'\nargs = ['gateway']\n[mcp_servers.tocsin.env]\na = '''\n[x]\n'''\n",
		"mcp_servers = {}", "[[mcp_servers]]\n", "# c",
	} {
		f.Add([]byte(seed))
	}
	p := Dirs{Project: "/p", Home: "/h", Config: "/c", Getenv: func(string) string { return "" }}
	file := codex().Files(p, Project)[0]
	f.Fuzz(func(t *testing.T, src []byte) {
		had, err := file.Find(src)
		if err != nil {
			return
		}
		o := Options{Program: "/a b/tocsin", Variables: []string{"A", "B"}}
		out, err := file.Install(src, o)
		if err != nil {
			return
		}
		if again, err := file.Install(out, o); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("second Install = %q, %v, want it unchanged: %q", again, err, out)
		}
		if found, err := file.Find(out); err != nil || found.Program() != o.Program && !found.Server.IsHTTP() {
			t.Fatalf("Find = %+v, %v, want the program %s in\n%s", found, err, o.Program, out)
		}
		if had.Any() {
			if back, err := file.Uninstall(out, nil); err == nil && back != nil {
				if found, err := file.Find(back); err != nil || found.Any() {
					t.Fatalf("Find after Uninstall = %+v, %v, want nothing in\n%s", found, err, back)
				}
			}
			return
		}
		back, err := file.Uninstall(out, [][]byte{src})
		if err != nil || !bytes.Equal(back, src) {
			t.Fatalf("Uninstall with a backup = %q, %v, want %q", back, err, src)
		}
		back, err = file.Uninstall(out, nil)
		if err != nil || !bytes.Equal(bytes.TrimSpace(back), bytes.TrimSpace(src)) {
			t.Fatalf("Uninstall without a backup = %q, %v, want %q", back, err, src)
		}
	})
}
