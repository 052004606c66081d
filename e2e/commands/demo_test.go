package commands

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestDemo runs make demo without its pauses, and checks that the agent receives the conclusion of the
// investigation, and that it leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and plays the demo")
	}
	scratch := t.TempDir()
	demo := e2etest.Build(t, harness.Program{Name: "demo", Package: "./cmd/demo", Dir: "e2e"})
	cmd := exec.CommandContext(t.Context(), demo, "-tocsin", e2etest.Binary(t), "-pace", "0")
	cmd.Env = append(harness.Env(t.TempDir()), "TMPDIR="+scratch)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "notifications/message") || !strings.Contains(string(out), "the end: ") {
		t.Fatalf("got %v, want \"notifications/message\" in out and \"the end: \" in out\n%s", err, out)
	}
	_, second, _ := strings.Cut(string(out), "Second act")
	for _, want := range []string{"Investigation completed: Server error: POST /api/checkout", "proven: ", "proposal for src/checkout.ts"} {
		if !strings.Contains(second, want) {
			t.Errorf("got no %q in the second act, want it\n%s", want, out)
		}
	}
	left, err := os.ReadDir(scratch)
	if err != nil || len(left) > 0 {
		t.Errorf("files left in the working directory: %v, %v, want none", left, err)
	}
}
