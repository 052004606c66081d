package hook_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/hook"
)

const (
	session = "00893aaf-19fa-41d2-8238-13269b9b3ca0"
	told    = "--- ALERTS (1) ---\n" + `[{"severity":"error","title":"Server error: POST /a → 500"}]`
)

// TestGolden plays what each client documents.
func TestGolden(t *testing.T) {
	moments := map[string]map[string]hook.Moment{
		"claude-code": {
			"PostToolUse": hook.AfterTool, "PostToolUseFailure": hook.AfterTool, "UserPromptSubmit": hook.Prompt, "Stop": hook.Stop,
			"SessionStart": hook.SessionStart, "SessionEnd": hook.SessionEnd, "PreToolUse": hook.Other,
		},
		"codex": {
			"PostToolUse": hook.AfterTool, "UserPromptSubmit": hook.Prompt, "Stop": hook.Stop, "SessionStart": hook.SessionStart,
			"PreCompact": hook.Other,
		},
		"gemini-cli": {
			"AfterTool": hook.AfterTool, "BeforeAgent": hook.Prompt, "AfterAgent": hook.Stop, "SessionStart": hook.SessionStart,
			"SessionEnd": hook.SessionEnd, "BeforeModel": hook.Other,
		},
		"cursor": {
			"postToolUse": hook.AfterTool, "beforeSubmitPrompt": hook.Prompt, "stop": hook.Stop, "sessionStart": hook.SessionStart,
			"sessionEnd": hook.SessionEnd, "afterFileEdit": hook.Other,
		},
	}
	for _, client := range hook.Clients() {
		files, err := filepath.Glob("testdata/" + client + "/*.in.json")
		if err != nil || len(files) != len(moments[client]) {
			t.Fatalf("%s: %v %v", client, files, err)
		}
		for _, file := range files {
			event := strings.TrimSuffix(filepath.Base(file), ".in.json")
			t.Run(client+"/"+event, func(t *testing.T) {
				c := parsed(t, client, string(read(t, file)))
				dir := "/home/dev/shop"
				if client == "claude-code" {
					dir = "/home/dev/shop/web" // its cwd is the agent's
				}
				if c.Moment != moments[client][event] || c.Session != session || c.Dir != dir || c.Held {
					t.Errorf("%+v", c)
				}
				want := read(t, strings.TrimSuffix(file, ".in.json")+".out.json")
				got, err := hook.Render(c, told)
				if err != nil || string(got) != string(want) {
					t.Errorf("%s%v, want %s", got, err, want)
				}
				if (len(want) > 0) != c.Tells() {
					t.Errorf("tells: %t", c.Tells())
				}
				if got, err := hook.Render(c, ""); got != nil || err != nil {
					t.Errorf("nothing to say: %s %v", got, err)
				}
			})
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parsed(t *testing.T, client, data string) hook.Call {
	t.Helper()
	c, err := hook.Parse(client, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, client, data string
		want               hook.Moment
		held               bool
		session, dir       string
	}{
		{"an event of tomorrow", "codex", `{"hook_event_name":"PostDream","session_id":"s"}`, hook.Other, false, "s", ""},
		{"an event of another client", "codex", `{"hook_event_name":"AfterTool"}`, hook.Other, false, "", ""},
		{"no event", "codex", `{}`, hook.Other, false, "", ""},
		{"null", "codex", `null`, hook.Other, false, "", ""},
		{"unknown fields", "codex", `{"hook_event_name":"Stop","x":{"y":[1]}}`, hook.Stop, false, "", ""},
		{"goes on because it was held", "claude-code", `{"hook_event_name":"Stop","stop_hook_active":true}`, hook.Stop, true, "", ""},
		{"goes on because it was held", "gemini-cli", `{"hook_event_name":"AfterAgent","stop_hook_active":true}`, hook.Stop, true, "", ""},
		{"goes on because it was held", "cursor", `{"hook_event_name":"stop","loop_count":1}`, hook.Stop, true, "", ""},
		{"the user stopped it", "cursor", `{"hook_event_name":"stop","status":"aborted"}`, hook.Other, false, "", ""},
		{"it failed", "cursor", `{"hook_event_name":"stop","status":"error"}`, hook.Other, false, "", ""},
		{"a subagent's tool", "claude-code", `{"hook_event_name":"PostToolUse","agent_id":"a1"}`, hook.Other, false, "", ""},
		{"an agent that is no subagent", "claude-code", `{"hook_event_name":"PostToolUse","agent_type":"reviewer"}`, hook.AfterTool, false, "", ""},
		{"Claude Code's hooks in Cursor", "claude-code", `{"hook_event_name":"PostToolUse","cursor_version":"2.4"}`, hook.Other, false, "", ""},
		{"the first root", "cursor", `{"hook_event_name":"stop","workspace_roots":["/a/","/b"],"cwd":"/c"}`, hook.Stop, false, "", "/a"},
		{"no root", "cursor", `{"hook_event_name":"stop","workspace_roots":[],"cwd":"/c"}`, hook.Stop, false, "", "/c"},
		{"a directory that is nowhere", "codex", `{"hook_event_name":"Stop","cwd":"src"}`, hook.Stop, false, "", ""},
		{"an endless directory", "codex", `{"hook_event_name":"Stop","cwd":"/` + strings.Repeat("x", 5000) + `"}`, hook.Stop, false, "", ""},
		{"an endless session", "codex", `{"hook_event_name":"Stop","session_id":"` + strings.Repeat("x", 600) + `"}`, hook.Stop, false, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := parsed(t, tt.client, tt.data)
			if c.Moment != tt.want || c.Held != tt.held || c.Session != tt.session || c.Dir != tt.dir {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestGarbage(t *testing.T) {
	for _, data := range []string{
		"", "{", "nonsense", "[]", `"x"`, "1", `{"hook_event_name":1}`, `{"session_id":{}}`, `{"workspace_roots":"/a"}`,
		"{}{}", strings.Repeat("[", 200_000), `{"x":"` + strings.Repeat("x", hook.MaxInput) + `"}`,
	} {
		if c, err := hook.Parse("codex", []byte(data)); !errors.Is(err, hook.ErrInput) || c.Moment != hook.Other {
			t.Errorf("%.20s: %+v %v", data, c, err)
		}
	}
	if _, err := hook.Parse("foo", []byte("{}")); err == nil || errors.Is(err, hook.ErrInput) || !strings.Contains(err.Error(), "claude-code, codex, cursor, gemini-cli") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.in.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(filepath.Base(filepath.Dir(file)), data)
	}
	f.Fuzz(func(t *testing.T, client string, data []byte) {
		c, err := hook.Parse(client, data)
		if err != nil && c.Moment != hook.Other {
			t.Fatalf("%+v %v", c, err)
		}
		if c.Dir != "" && !filepath.IsAbs(c.Dir) {
			t.Fatalf("%q is nowhere", c.Dir)
		}
		line, err := hook.Render(c, string(data))
		if err != nil {
			t.Fatal(err)
		}
		if line != nil && (!json.Valid(line) || strings.Count(string(line), "\n") != 1 || c.Moment == hook.Other) {
			t.Fatalf("%+v: %s", c, line)
		}
	})
}
