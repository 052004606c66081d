package web

import (
	"os"
	"os/exec"
	"testing"
)

// TestModules runs the unit tests of the page in Node.
func TestModules(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node is not installed")
	}
	if _, err := os.Stat("node_modules/vite"); err != nil {
		t.Skip("the npm packages are not installed: run make page")
	}
	if exec.CommandContext(t.Context(), node, "fit.mjs").Run() != nil {
		t.Skip("Node is too old: 20.19 or 22.12 is required")
	}
	if out, err := exec.CommandContext(t.Context(), node, "test.mjs").CombinedOutput(); err != nil {
		t.Errorf("node test.mjs: %v, want all tests to pass:\n%s", err, out)
	}
}
