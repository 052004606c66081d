package hook_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/hook"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
)

const (
	session = "00893aaf-19fa-41d2-8238-13269b9b3ca0"
	block   = "--- ALERTS (1) ---\n" + `[{"severity":"error","title":"Server error: POST /a → 500"}]`
)

// TestAgents checks that a format is known for each agent that has hooks.
func TestAgents(t *testing.T) {
	var want []string
	for _, agent := range inbox.Agents() {
		if agent.HasHooks {
			want = append(want, agent.Name)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, hook.Agents()); diff != "" {
		t.Errorf("Agents() (-want +got):\n%s", diff)
	}
}

// TestGolden parses and answers the inputs that each agent documents.
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
	for _, agent := range hook.Agents() {
		files, err := filepath.Glob("testdata/" + agent + "/*.in.json")
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != len(moments[agent]) {
			t.Fatalf("%s has the inputs %v, want %d of them", agent, files, len(moments[agent]))
		}
		for _, file := range files {
			event := strings.TrimSuffix(filepath.Base(file), ".in.json")
			t.Run(agent+"/"+event, func(t *testing.T) {
				c := parse(t, agent, string(read(t, file)))
				dir := "/home/dev/shop"
				if agent == "claude-code" {
					dir = "/home/dev/shop/web" // its cwd follows the agent's cd
				}
				check(t, c, wantCall{moments[agent][event], false, session, dir})
				want := read(t, strings.TrimSuffix(file, ".in.json")+".out.json")
				got, err := hook.Render(c, block)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(got)); diff != "" {
					t.Errorf("Render (-want +got):\n%s", diff)
				}
				if got, want := c.CanAnswer(), len(want) > 0; got != want {
					t.Errorf("CanAnswer = %t, want %t", got, want)
				}
				if got, err := hook.Render(c, ""); got != nil || err != nil {
					t.Errorf("Render of no text = %s, %v, want nil, nil", got, err)
				}
			})
		}
	}
}

// wantCall are the exported fields of a call.
type wantCall struct {
	moment       hook.Moment
	stopBlocked  bool
	session, dir string
}

func check(t *testing.T, c hook.Call, want wantCall) {
	t.Helper()
	if got := (wantCall{c.Moment, c.StopBlocked, c.Session, c.Dir}); got != want {
		t.Errorf("call = %+v, want %+v", got, want)
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

func parse(t *testing.T, agent, data string) hook.Call {
	t.Helper()
	c, err := hook.Parse(agent, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, agent, data string
		want              hook.Moment
		stopBlocked       bool
		session, dir      string
	}{
		{"an unknown event", "codex", `{"hook_event_name":"PostDream","session_id":"s"}`, hook.Other, false, "s", ""},
		{"an event of another client", "codex", `{"hook_event_name":"AfterTool"}`, hook.Other, false, "", ""},
		{"no event", "codex", `{}`, hook.Other, false, "", ""},
		{"null", "codex", `null`, hook.Other, false, "", ""},
		{"unknown fields", "codex", `{"hook_event_name":"Stop","x":{"y":[1]}}`, hook.Stop, false, "", ""},
		{"continues because a stop was blocked", "claude-code", `{"hook_event_name":"Stop","stop_hook_active":true}`, hook.Stop, true, "", ""},
		{"continues because a stop was blocked", "gemini-cli", `{"hook_event_name":"AfterAgent","stop_hook_active":true}`, hook.Stop, true, "", ""},
		{"continues because a stop was blocked", "cursor", `{"hook_event_name":"stop","loop_count":1}`, hook.Stop, true, "", ""},
		{"the user stopped it", "cursor", `{"hook_event_name":"stop","status":"aborted"}`, hook.Other, false, "", ""},
		{"it failed", "cursor", `{"hook_event_name":"stop","status":"error"}`, hook.Other, false, "", ""},
		{"a subagent's tool", "claude-code", `{"hook_event_name":"PostToolUse","agent_id":"a1"}`, hook.Other, false, "", ""},
		{"an agent type without an id is no subagent", "claude-code", `{"hook_event_name":"PostToolUse","agent_type":"reviewer"}`, hook.AfterTool, false, "", ""},
		{"Claude Code's hooks in Cursor", "claude-code", `{"hook_event_name":"PostToolUse","cursor_version":"2.4"}`, hook.Other, false, "", ""},
		{"the first root", "cursor", `{"hook_event_name":"stop","workspace_roots":["/a/","/b"],"cwd":"/c"}`, hook.Stop, false, "", "/a"},
		{"no root", "cursor", `{"hook_event_name":"stop","workspace_roots":[],"cwd":"/c"}`, hook.Stop, false, "", "/c"},
		{"a relative directory", "codex", `{"hook_event_name":"Stop","cwd":"src"}`, hook.Stop, false, "", ""},
		{"a directory that is too long", "codex", `{"hook_event_name":"Stop","cwd":"/` + strings.Repeat("x", 5000) + `"}`, hook.Stop, false, "", ""},
		{"a session id that is too long", "codex", `{"hook_event_name":"Stop","session_id":"` + strings.Repeat("x", 600) + `"}`, hook.Stop, false, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check(t, parse(t, tt.agent, tt.data), wantCall{tt.want, tt.stopBlocked, tt.session, tt.dir})
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, data := range []string{
		"", "{", "nonsense", "[]", `"x"`, "1", `{"hook_event_name":1}`, `{"session_id":{}}`, `{"workspace_roots":"/a"}`,
		"{}{}", strings.Repeat("[", 200_000), `{"x":"` + strings.Repeat("x", hook.MaxInput) + `"}`,
	} {
		c, err := hook.Parse("codex", []byte(data))
		if !errors.Is(err, hook.ErrInput) {
			t.Errorf("Parse(%.20q): error = %v, want %v", data, err, hook.ErrInput)
		}
		if c.Moment != hook.Other {
			t.Errorf("Parse(%.20q): moment = %d, want Other", data, c.Moment)
		}
	}
	_, err := hook.Parse("foo", []byte("{}"))
	if want := "claude-code, codex, cursor, gemini-cli"; err == nil || errors.Is(err, hook.ErrInput) || !strings.Contains(err.Error(), want) {
		t.Errorf("Parse for an unknown agent: error = %v, want one that lists %s", err, want)
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
	f.Fuzz(func(t *testing.T, agent string, data []byte) {
		c, err := hook.Parse(agent, data)
		if err != nil && c.Moment != hook.Other {
			t.Fatalf("moment = %d after the error %v, want Other", c.Moment, err)
		}
		if c.Dir != "" && !filepath.IsAbs(c.Dir) {
			t.Fatalf("directory = %q, want an absolute one", c.Dir)
		}
		line, err := hook.Render(c, string(data))
		if err != nil {
			t.Fatal(err)
		}
		if line != nil && c.Moment == hook.Other {
			t.Fatalf("answered %s at Other, want no answer", line)
		}
		if line != nil && (!json.Valid(line) || strings.Count(string(line), "\n") != 1) {
			t.Fatalf("answered %s, want one line of JSON", line)
		}
	})
}
