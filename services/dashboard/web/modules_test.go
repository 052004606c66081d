package web

import (
	"os"
	"os/exec"
	"testing"
)

// TestModules runs the tests of what the page decides, in Node.
func TestModules(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
	}
	if _, err := os.Stat("node_modules/vite"); err != nil {
		t.Skip("the packages are not installed: make page does it")
	}
	if exec.CommandContext(t.Context(), node, "fit.mjs").Run() != nil {
		t.Skip("this node is too old: 20.19 or 22.12 is needed")
	}
	if out, err := exec.CommandContext(t.Context(), node, "test.mjs").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
