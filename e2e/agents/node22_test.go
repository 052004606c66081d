package agents

import (
	"path/filepath"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// node22 returns the path of a Node 22 from npm, which newer packages need. It skips
// the test where npm has none for the platform.
func node22(t *testing.T) string {
	t.Helper()
	dir := e2etest.NodeModules(t, "node22")
	found, err := filepath.Glob(filepath.Join(dir, "node_modules", "node-*", "bin", "node"))
	e2etest.NoError(t, err)
	if len(found) == 0 {
		t.Skip("npm has no Node 22 for this platform")
	}
	return found[0]
}
