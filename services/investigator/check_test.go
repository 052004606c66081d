package investigator

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/service"
)

var update = flag.Bool("update", false, "write the golden files")

// checked runs `tocsin investigator check`.
func checked(ctx context.Context, t *testing.T, file string, probe bool) (code int, stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	c := CheckCommand{File: file, Probe: probe}
	err = c.Run(ctx, service.Env{StateDir: t.TempDir(), Stdout: &out, Stderr: &bytes.Buffer{}, Logger: bustest.Quiet()})
	return exitCode(err), out.String(), err
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCheckGolden compares what a whole file leads to with testdata/check.txt. No server is
// started, and no value of the environment is shown.
func TestCheckGolden(t *testing.T) {
	t.Setenv("CHECK_KEY", "needle-in-the-environment")
	t.Setenv("CHECK_PATH", "needle-in-the-environment")
	text, err := os.ReadFile("testdata/check.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := written(t, "investigator.yaml", string(text)) // a checkout may be writable by others
	code, out, err := checked(t.Context(), t, file, false)
	if code != service.ExitOK {
		t.Fatalf("exit %d, %v, want 0\n%s", code, err, out)
	}
	if strings.Contains(out, "needle") {
		t.Errorf("the report has a value of the environment:\n%s", out)
	}
	out = strings.ReplaceAll(out, file, "FILE")
	const golden = "testdata/check.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out); diff != "" {
		t.Errorf("the report differs from %s (-want +got); -update writes it:\n%s", golden, diff)
	}
}

// TestCheckErrors checks that every error has its line, and that files which can't be read are
// refused.
func TestCheckErrors(t *testing.T) {
	file := written(t, "investigator.yaml", "llm_providers:\n  a: { type: openai, model: m, base_url: 'http://127.0.0.1:1', colour: red }\n"+
		"agent_chains:\n  c: { alert_types: [x], stages: [{ name: s, agents: [{ name: absent }] }] }\ndefaults: { llm_provider: b, llm_backend: x }\n")
	code, out, err := checked(t.Context(), t, file, true)
	if code != service.ExitFailed || !strings.HasPrefix(err.Error(), file+" is not valid: ") {
		t.Errorf("exit %d, %v, want 1 and the number of errors", code, err)
	}
	for _, want := range []string{
		"error    " + file + ":2: llm_providers.a", "colour", "error    " + file + ":4: agent_chains.c.stages[0].agents[0].name", "absent",
		"error    " + file + ":5: defaults.llm_provider", "warning  " + file + ":5: defaults.llm_backend",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, "\n"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d errors", n-strings.Count(out, "warning  "))) {
		t.Errorf("%d lines for %v, want one for each error and warning:\n%s", n, err, out)
	}
	open := written(t, "investigator.yaml", "")
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		open:                                   "others can write it",
		t.TempDir():                            "no regular file",
		filepath.Join(t.TempDir(), "none"):     "no such file",
		written(t, "tarsy.yaml", "queue: {}"):  "llm-providers.yaml",
		written(t, "x.yaml", "a: [\x1b[31m\n"): "is not valid: 1 error",
	} {
		if code, out, err := checked(t.Context(), t, file, false); code != service.ExitFailed || !strings.Contains(err.Error(), want) || strings.Contains(out, "\x1b") {
			t.Errorf("%s: exit %d, %v, want 1 with %q\n%s", file, code, err, want, out)
		}
	}
}

// TestCheckForeign reads the two files of the system that this one replaces.
func TestCheckForeign(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tarsy.yaml":         "agent_chains:\n  k: { alert_types: [k], stages: [{ name: s, agents: [{ name: KubernetesAgent, iteration_strategy: langchain }] }] }\ndefaults: { llm_provider: a, scoring: { enabled: true } }\n",
		"llm-providers.yaml": "llm_providers:\n  a: { type: openai, model: m, base_url: 'http://127.0.0.1:1/v1', max_tool_result_tokens: 5 }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, err := checked(t.Context(), t, filepath.Join(dir, "tarsy.yaml"), false)
	if code != service.ExitOK {
		t.Fatalf("exit %d, %v, want 0\n%s", code, err, out)
	}
	for _, want := range []string{
		"llm-providers.yaml:2: llm_providers.a.max_tool_result_tokens: has no effect", "tarsy.yaml:2: agent_chains.k.stages[0].agents[0].iteration_strategy: has no effect",
		"tarsy.yaml:3: defaults.scoring: has no effect", "\n  k: alert types k\n", "tarsy.yaml is valid, with 3 warnings\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
}

// mcpServer serves tools over HTTP: one that is read-only, one that is not.
func mcpServer(t *testing.T) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "play", Version: "1"}, nil)
	for name, annotations := range map[string]*mcp.ToolAnnotations{"look": {ReadOnlyHint: true}, "change": nil} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}, Annotations: annotations},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				t.Errorf("%s was called, want its definition read alone", name)
				return &mcp.CallToolResult{}, nil
			})
	}
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(h.Close)
	return h.URL
}

var answeredAfter = regexp.MustCompile(`answered  after \S+`)

// TestCheckProbe asks providers and servers that answer, and such that don't.
func TestCheckProbe(t *testing.T) {
	const key = "sk-probe-0123456789"
	t.Setenv("PROBE_KEY", key)
	models := modeltest.Serve(
		modeltest.Rule{Match: func(q modeltest.Request) bool { return q.Model == "bad" }, Answers: []modeltest.Answer{modeltest.Fail(401, "wrong key "+key)}},
		modeltest.Rule{Match: func(q modeltest.Request) bool { return q.Model == "cut" }, Answers: []modeltest.Answer{{Text: "yes", CutAfter: 1}}},
		modeltest.Rule{Answers: []modeltest.Answer{{Text: "Yes", Stop: "length"}}},
	)
	t.Cleanup(models.Close)
	tools := mcpServer(t)
	good := `
llm_providers:
  chat: { type: openai, model: m, base_url: "` + models.URL + `/v1", api_key_env: PROBE_KEY, thinking: { budget_tokens: 2000 } }
  responses: { type: openai, model: m, base_url: "` + models.URL + `/v1", api: responses, api_key_env: PROBE_KEY }
  messages: { type: anthropic, model: m, base_url: "` + models.URL + `", api_key_env: PROBE_KEY, thinking: { budget_tokens: 2000 } }
mcp_servers:
  play: { transport: { type: http, url: "` + tools + `" } }
defaults: { llm_provider: chat }
`
	code, out, err := checked(t.Context(), t, written(t, "good.yaml", good), true)
	if code != service.ExitOK {
		t.Fatalf("exit %d, %v, want 0\n%s", code, err, out)
	}
	for _, want := range []string{
		"\n    offered   look\n", "\n    withheld  change: the server does not annotate it with readOnlyHint, and read_only_tools does not name it\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if n := len(answeredAfter.FindAllString(out, -1)); n != 3 || strings.Contains(out, "--probe") {
		t.Errorf("%d providers answered, want 3:\n%s", n, out)
	}
	asked := models.Requests()
	for _, q := range asked {
		if tokens := regexp.MustCompile(`"(max_completion_tokens|max_tokens|max_output_tokens)":(\d+)`).FindStringSubmatch(q.Body); tokens == nil || tokens[2] != map[string]string{"chat": "1", "messages": "1", "responses": "16"}[q.API] {
			t.Errorf("%s was asked for %v tokens: %s", q.API, tokens, q.Body)
		}
	}
	if len(asked) != 3 {
		t.Errorf("%d requests to models, want one to each of 3", len(asked))
	}

	bad := good + `
`
	bad = strings.Replace(bad, "mcp_servers:\n", `  bad: { type: openai, model: bad, base_url: "`+models.URL+`/v1", api_key_env: PROBE_KEY }
  cut: { type: openai, model: cut, base_url: "`+models.URL+`/v1", api_key_env: PROBE_KEY }
  gone: { type: openai, model: m, base_url: "http://127.0.0.1:1/v1", api_key_env: PROBE_KEY }
mcp_servers:
  absent: { transport: { type: http, url: "http://127.0.0.1:1/mcp" } }
  ended: { transport: { type: stdio, command: sh, args: ["-c", "echo first >&2; echo second >&2; exit 3"] } }
`, 1)
	file := written(t, "bad.yaml", bad)
	code, out, err = checked(t.Context(), t, file, true)
	if code != service.ExitFailed || err.Error() != file+" is valid, but 5 of 9 probes failed" {
		t.Errorf("exit %d, %v, want 1 and 5 failures", code, err)
	}
	for _, want := range []string{"error     the model's provider answered 401: wrong key ", "error     cannot use the MCP server absent: ", "error     cannot use the MCP server ended: ", "first second", "offered   look"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out+err.Error(), key) || strings.Contains(out, "is valid") {
		t.Errorf("the report has the key, or a verdict:\n%s", out)
	}

	ctx, stop := context.WithCancel(t.Context())
	stop()
	if code, out, err = checked(ctx, t, file, true); code != service.ExitFailed || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("interrupted: exit %d, %v, want 1\n%s", code, err, out)
	}
}

// TestToolRules checks what a file alone decides about tools.
func TestToolRules(t *testing.T) {
	other := toolRule{verdictWithheld, "all other tools", "the list tools does not name them"}
	depends := func(name string) toolRule {
		return toolRule{verdictDepends, name, "tools names it; it is offered if the server annotates it with readOnlyHint, or read_only_tools names it"}
	}
	both := func(name string) toolRule {
		return toolRule{verdictOffered, name, "tools and read_only_tools name it"}
	}
	for _, c := range []struct {
		name   string
		server config.Server
		want   []toolRule
	}{
		{"nothing said", config.Server{}, []toolRule{
			{verdictOffered, "tools that the server annotates with readOnlyHint", "they change nothing"},
			{verdictWithheld, "all other tools", "the server does not annotate them with readOnlyHint, and read_only_tools does not name them"},
		}},
		{"vouched for", config.Server{ReadOnlyTools: []string{"*_list"}}, []toolRule{
			{verdictOffered, "*_list", "read_only_tools names it"},
			{verdictOffered, "tools that the server annotates with readOnlyHint", "they change nothing"},
			{verdictWithheld, "all other tools", "the server does not annotate them with readOnlyHint, and read_only_tools does not name them"},
		}},
		{"named", config.Server{Tools: []string{"a", "b_*"}}, []toolRule{depends("a"), depends("b_*"), other}},
		{"named by both", config.Server{Tools: []string{"a", "b_*", "c", "d_x"}, ReadOnlyTools: []string{"a", "b_*", "d_*"}}, []toolRule{both("a"), both("b_*"), depends("c"), both("d_x"), other}},
		{"vouched for, but not named", config.Server{Tools: []string{"a"}, ReadOnlyTools: []string{"z", "a", "y*"}}, []toolRule{both("a"), {verdictWithheld, "z", "the list tools does not name it"}, other}},
	} {
		if diff := cmp.Diff(c.want, toolRules(&c.server), cmp.AllowUnexported(toolRule{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestDescribeMatch(t *testing.T) {
	for _, c := range []struct {
		match config.Match
		want  string
	}{
		{config.Match{}, "every alert"},
		{config.Match{Category: []string{"kubernetes", "anomaly"}, SeverityMin: "error", App: []string{"shop*"}}, "severity_min error, category kubernetes or anomaly, app shop*"},
		{config.Match{Cluster: []string{"c"}, Namespace: []string{"n"}, Source: []string{"s"}, Title: []string{"t"}}, "cluster c, namespace n, source s, title t"},
	} {
		if got := describeMatch(c.match); got != c.want {
			t.Errorf("describeMatch(%+v) = %q, want %q", c.match, got, c.want)
		}
	}
}
