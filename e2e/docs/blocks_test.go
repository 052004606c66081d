package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// block is a block of commands on a page: the one that contains a text.
type block struct{ page, contains string }

// run names the test that runs each block.
var run = map[block]string{
	{"README.md", "tocsin install claude-code"}:                "TestInstallBlock",
	{"README.md", "curl -sS http://127.0.0.1:7400/ci-result"}:  "TestQuickStart",
	{"docs/sending.md", "tocsin ci --status failure"}:          "TestQuickStart",
	{"docs/sending.md", "curl -sS"}:                            "TestQuickStart",
	{"docs/agents.md", "tocsin install codex"}:                 "TestInstallBlock",
	{"docs/agents.md", "tocsin wait"}:                          "TestWaitBlock",
	{"docs/agents.md", "tocsin gateway --http"}:                "TestGatewayBlock",
	{"docs/tools.md", "tocsin silence"}:                        "TestSilenceBlock",
	{"docs/detection.md", "tocsin up --rules"}:                 "TestRulesBlock",
	{"docs/detection.md", "./e2e/cmd/replay"}:                  "TestReplayBlock",
	{"docs/build-a-dashboard.md", "nats --server"}:             "TestNATSCommand",
	{"docs/senders/opentelemetry.md", "export OTEL_EXPORTER_"}: "TestSDKs",
	{"docs/senders/sentry.md", "export SENTRY_DSN"}:            "TestSDKs",
	{"docs/kubernetes.md", "kind create cluster"}:              "TestWalkThrough",
	{"docs/investigation.md", "tocsin up --investigator"}:      "TestFirstInvestigation",
	{"docs/investigation.md", "/v1/events"}:                    "TestFirstInvestigation",
	{"docs/investigation.md", "tocsin investigate --alert"}:    "TestFirstInvestigation",
	{"docs/investigation.md", "/api/v1/sessions"}:              "TestFirstInvestigation",
	{"docs/reference/http.md", "Idempotency-Key"}:              "TestFirstInvestigation",
}

// notRun has the reason for each block that no test runs.
var notRun = map[block]string{
	{"README.md", "make build"}: "the binary under test is built in the same way, but with the race detector",
	{"README.md", "tocsin up"}:  "it listens on the default ports; all tests run it on free ones",
}

// TestEveryBlockIsRun checks that each sh block of README.md and docs is run by a test,
// or is listed with the reason why not.
func TestEveryBlockIsRun(t *testing.T) {
	t.Parallel()
	tests := testNames(t)
	for b, test := range run {
		e2etest.Block(t, b.page, "sh", b.contains)
		if !tests[test] {
			t.Errorf("%s: the block with %q is run by %s, which does not exist", b.page, b.contains, test)
		}
	}
	for b := range notRun {
		e2etest.Block(t, b.page, "sh", b.contains)
	}
	for _, page := range pages(t) {
		if page != "README.md" && !strings.HasPrefix(page, "docs/") {
			continue
		}
		for _, text := range e2etest.Blocks(t, page, "sh") {
			known := false
			for _, table := range []map[block]string{run, notRun} {
				for b := range table {
					known = known || b.page == page && strings.Contains(text, b.contains)
				}
			}
			if !known {
				t.Errorf("%s: no test runs this block, and notRun has no reason:\n%s", page, text)
			}
		}
	}
}

// testNames returns the names of the tests of e2e.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	files, err := filepath.Glob(e2etest.Path(t, "e2e/*/*_test.go"))
	e2etest.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		e2etest.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			names[m[1]] = true
		}
	}
	return names
}

var (
	command = regexp.MustCompile(`(?m)(?:^|[;&|(])\s*(?:\w+=\S+\s+)*(?:\S*/)?tocsin ([a-z]+)\b([^;&|\n]*)`)
	flag    = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
)

// TestFlagsExist checks that each tocsin command on a page has the flags that the page
// gives it.
func TestFlagsExist(t *testing.T) {
	t.Parallel()
	help := map[string]string{}
	checked := 0
	for _, page := range pages(t) {
		for _, text := range e2etest.Blocks(t, page, "sh") {
			text = strings.ReplaceAll(text, "\\\n", " ")
			text = regexp.MustCompile(`(?m)(^|\s)#.*$`).ReplaceAllString(text, "")
			for _, m := range command.FindAllStringSubmatch(text, -1) {
				name := m[1]
				if _, ok := help[name]; !ok {
					code, stdout, stderr := e2etest.Tocsin(t, t.TempDir(), name, "--help")
					if code != 0 {
						t.Errorf("%s: tocsin %s --help exits with %d, want 0: %s", page, name, code, stderr)
					}
					help[name] = stdout
				}
				for _, f := range flag.FindAllStringSubmatch(m[2], -1) {
					checked++
					if !regexp.MustCompile(regexp.QuoteMeta(f[1]) + `\b`).MatchString(help[name]) {
						t.Errorf("%s: tocsin %s has no flag %s", page, name, f[1])
					}
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("got %d flags on all pages, want at least 10: does the test still find them?", checked)
	}
}

// inShell runs a block in a project of a new account, with tocsin on the PATH, and
// returns its output.
func inShell(t *testing.T, b *harness.Bus, script string) string {
	t.Helper()
	home, dir := t.TempDir(), t.TempDir()
	code, out := e2etest.Shell(t, b, dir, e2etest.OnBus(b, script), "HOME="+home)
	if code != 0 {
		t.Errorf("exit status %d, want 0: %s\n%s", code, script, out)
	}
	return out
}

// TestInstallBlock sets up an agent as the README does, and removes one as
// docs/agents.md does.
func TestInstallBlock(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	if out := inShell(t, b, e2etest.Block(t, "README.md", "sh", "tocsin install claude-code")); !strings.Contains(out, "ok   claude-code") {
		t.Errorf("got %s, want tocsin doctor to find claude-code", out)
	}
	inShell(t, b, e2etest.Block(t, "docs/agents.md", "sh", "tocsin install codex"))
}

// TestWaitBlock waits for an alert as docs/agents.md does.
func TestWaitBlock(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.PostCI(t, map[string]any{"status": "failure", "name": "test", "commit": "abc"})
	sys.WaitReceived(t, 1)
	if out := inShell(t, sys.Bus, e2etest.Block(t, "docs/agents.md", "sh", "tocsin wait")); !strings.Contains(out, "CI failure: test") {
		t.Errorf("got %s, want the CI failure in it", out)
	}
}

// TestGatewayBlock serves MCP over HTTP as docs/agents.md does, on a free port.
func TestGatewayBlock(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	words := strings.Fields(e2etest.Block(t, "docs/agents.md", "sh", "tocsin gateway --http"))
	p := e2etest.Run(t, b.StateDir, strings.Split(strings.ReplaceAll(strings.Join(words[1:], " "), ":7460", ":0"), " ")...)
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { return strings.Contains(p.Stdout.String(), "/mcp") }) {
		t.Errorf("got %s, want the URL of the gateway\n%s", p.Stdout, p.Log)
	}
}

// TestSilenceBlock silences an app and acknowledges an alert as docs/tools.md does.
func TestSilenceBlock(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.PostServerError(t, "web", "/pay")
	id := sys.TakeAlerts(t, 1)[0].ID
	text := strings.ReplaceAll(e2etest.Block(t, "docs/tools.md", "sh", "tocsin silence"), "tocsin ack ID", "tocsin ack "+id)
	out := inShell(t, sys.Bus, text)
	for _, want := range []string{"silenced until ", "acknowledged until "} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %q in it", out, want)
		}
	}
}

// TestRulesBlock starts a bus with each of the flags that docs/detection.md shows.
func TestRulesBlock(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(e2etest.Block(t, "docs/detection.md", "sh", "tocsin up --rules")) {
		words := strings.Fields(line)
		if len(words) < 3 || words[1] != "up" {
			t.Fatalf("got %q, want tocsin up and flags", line)
		}
		e2etest.Up(t, words[2:]...)
	}
}

// TestReplayBlock replays events as docs/detection.md does.
func TestReplayBlock(t *testing.T) {
	t.Parallel()
	text := e2etest.Block(t, "docs/detection.md", "sh", "./e2e/cmd/replay")
	bin := e2etest.Build(t, harness.Program{Name: "replay", Package: "./cmd/replay", Dir: "e2e"})
	dir := t.TempDir()
	event := fmt.Sprintf(`{"time":%q,"event":{"kind":"network","app":"web","network":{"method":"GET","url":"/pay","status":500}}}`+"\n", time.Now().UTC().Format(time.RFC3339))
	e2etest.NoError(t, os.WriteFile(filepath.Join(dir, "events.ndjson"), []byte(event), 0o600))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(text, "go run ./e2e/cmd/replay", bin, 1))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Server error: GET /pay") {
		t.Errorf("got %v and %s, want an alert about GET /pay", err, out)
	}
}
