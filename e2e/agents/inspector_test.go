package agents

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestInspector runs the official MCP inspector over stdio: it lists and calls each
// tool, and finds no error in their schemas.
func TestInspector(t *testing.T) {
	t.Parallel()
	node, dir := node22(t), e2etest.NodeModules(t, "inspector")
	sys := e2etest.Start(t)
	postFailure(t, sys, "kettle-tests")
	home, races := t.TempDir(), t.TempDir()
	inspect := func(t *testing.T, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), node, append([]string{
			filepath.Join(dir, "node_modules", ".bin", "mcp-inspector"), "--cli",
			"-e", "TOCSIN_STATE_DIR=" + sys.Bus.StateDir, "-e", "GORACE=atexit_sleep_ms=0 log_path=" + filepath.Join(races, "race"),
			e2etest.Binary(t), "gateway", "--method",
		}, args...)...)
		cmd.Env = append(cmd.Environ(), "HOME="+home)
		cmd.Dir = home
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("run the inspector %v: %v\n%s\n%s", args, err, out, &stderr)
		}
		return string(out)
	}

	var listed struct{ Tools []struct{ Name string } }
	out := inspect(t, "tools/list", "--strict") // exits with 6 if a schema is not portable
	if err := json.Unmarshal([]byte(out), &listed); err != nil || len(listed.Tools) != 4 {
		t.Errorf("%v: got %s, want 4 entries in Tools", err, out)
	}
	for _, call := range []struct{ want, tool, arg string }{
		{"CI failure: kettle-tests", "observe", "what=status"},
		{"connected", "configure", "action=health"},
		{"enabled", "configure_streaming", "action=enable"},
		{"", "notify", "message=the kettle is repaired"},
	} {
		var result struct {
			Content []struct{ Text string }
			IsError bool
		}
		out := inspect(t, "tools/call", "--tool-name", call.tool, "--tool-arg", call.arg)
		if err := json.Unmarshal([]byte(out), &result); err != nil || result.IsError || len(result.Content) == 0 || !strings.Contains(out, call.want) {
			t.Errorf("%s: got %v: %s, want no IsError, an entry in Content and %q in it", call.tool, err, out, call.want)
		}
	}
	checkRaceReports(t, races)
}
