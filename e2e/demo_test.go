package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// TestDemo plays make demo without its pauses: the story goes as told, and
// nothing is left behind.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and plays the demo")
	}
	scratch := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/demo", "-tocsin", binary, "-pace", "0")
	cmd.Env = append(harness.Env(t.TempDir()), "TMPDIR="+scratch)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "notifications/message") || !strings.Contains(string(out), "the end: ") {
		t.Fatalf("%v\n%s", err, out)
	}
	left, err := os.ReadDir(scratch)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
