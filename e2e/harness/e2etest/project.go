package e2etest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// project has the files of a Go module and a Node project with tests that pass, fail,
// panic and don't compile.
var project = map[string]string{
	"go.mod":            "module example.com/shop\n\ngo 1.26\n",
	"ok/ok_test.go":     "package ok\n\nimport \"testing\"\n\nfunc TestFine(t *testing.T) {}\n\nfunc TestLater(t *testing.T) { t.Skip(\"later\") }\n",
	"cart/cart_test.go": "package cart\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tt.Run(\"of two\", func(t *testing.T) { t.Error(\"got 3, want 4\") })\n}\n",
	"boom/boom_test.go": "package boom\n\nimport \"testing\"\n\nfunc TestBoom(t *testing.T) {\n\tvar m map[string]int\n\tm[\"a\"] = 1\n}\n",
	"half/half_test.go": "package half\n\nimport \"testing\"\n\nfunc TestHalf(t *testing.T) { undefinedName() }\n",
	"cart.test.mjs": `import { test, describe, it } from 'node:test';
import assert from 'node:assert';
test('adds', () => {});
test('opens', () => { assert.equal(1, 2); });
describe('cart', () => { it('sums', () => { throw new TypeError('x is undefined'); }); });
`,
}

// NewProject writes a Go and Node project whose tests fail in several ways into a new
// folder, without the files that are named.
func NewProject(t *testing.T, without ...string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range project {
		if slices.Contains(without, name) {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Shell runs a bash script in a folder, with tocsin on the PATH and the address of a
// bus in the environment, and returns its exit code and output.
func Shell(t *testing.T, b *harness.Bus, dir, script string, env ...string) (code int, out string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(Binary(t), filepath.Join(bin, "tocsin")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = harness.Env(b.StateDir, append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "GOWORK=off", "TOCSIN_INGEST_URL=" + b.IngestURL}, env...)...)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), both.String()
}

// NeedJUnitReporter skips the test where Node is too old to write JUnit XML.
func NeedJUnitReporter(t *testing.T) {
	t.Helper()
	NeedCommands(t, "node")
	out, err := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=junit", NewProject(t, "cart.test.mjs")).CombinedOutput()
	if !bytes.Contains(out, []byte("<testsuites>")) {
		t.Skipf("this version of Node writes no JUnit XML: %v", err)
	}
}
