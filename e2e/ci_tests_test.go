package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

// project is a Go module and a Node project with tests that pass, fail, panic and
// don't compile.
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

// newProject writes it, without some of its files.
func newProject(t *testing.T, without ...string) string {
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

// shell runs a script in a folder against a bus, with tocsin on the path, and
// gives its exit code and output.
func shell(t *testing.T, b *harness.Bus, dir, script string, env ...string) (code int, out string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(bin, "tocsin")); err != nil {
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

func needs(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s here", tool)
		}
	}
}

// needsReporter skips where Node is older than its reporter of JUnit XML.
func needsReporter(t *testing.T) {
	t.Helper()
	needs(t, "node")
	out, err := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=junit", newProject(t, "cart.test.mjs")).CombinedOutput()
	if !bytes.Contains(out, []byte("<testsuites>")) {
		t.Skipf("this Node writes no JUnit XML: %v", err)
	}
}

// byTitle waits for n alerts.
func (w *world) byTitle(t *testing.T, n int) map[string]alert.Alert {
	t.Helper()
	all := map[string]alert.Alert{}
	for _, a := range w.alerts(t, n) {
		all[a.Title] = a
	}
	return all
}

func TestGoTestPiped(t *testing.T) {
	needs(t, "bash", "go")
	w := start(t)
	code, out := shell(t, w.bus, newProject(t), "go test -json ./... | tocsin ci --gotest --exit-code --name go --commit abc")
	if code != 1 || !strings.Contains(out, "cart_test.go:6: got 3, want 4") || !strings.Contains(out, "undefined: undefinedName") || strings.Contains(out, `"Action"`) ||
		!strings.HasSuffix(out, "tocsin: the result is failure: 1 test passed, 2 failed, 1 error, 1 skipped\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
	a := w.alerts(t, 1)[0]
	for _, want := range []string{"1 test passed, 2 failed, 1 error, 1 skipped", "example.com/shop/cart.TestSum/of_two: cart_test.go:6: got 3, want 4",
		"example.com/shop/boom.TestBoom: panic: assignment to entry in nil map", "example.com/shop/half: half/half_test.go:5:31: undefined: undefinedName"} {
		if !strings.Contains(a.Detail, want) {
			t.Errorf("the alert doesn't say %q: %s", want, a.Detail)
		}
	}
	if a.Title != "CI failure: go" || a.Severity != alert.Error {
		t.Errorf("%+v", a)
	}

	code, out = shell(t, w.bus, newProject(t, "cart/cart_test.go", "boom/boom_test.go", "half/half_test.go"), "go test -json ./... | tocsin ci --gotest --exit-code --name go --commit abc")
	if code != 0 || !strings.HasSuffix(out, "posted success of go to "+w.bus.IngestURL+"\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if a := w.alerts(t, 1)[0]; a.Title != "CI success: go" || a.Detail != "1 test passed, 1 skipped" {
		t.Errorf("%+v", a)
	}
	// go test that doesn't start is no success.
	code, out = shell(t, w.bus, t.TempDir(), "go test -json ./... | tocsin ci --gotest --exit-code --name go --commit abc")
	if code != 1 || !strings.Contains(out, "posted error of go") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// TestJUnitProducers posts what Node's own runner and gotestsum write, with
// tocsin ci and with curl.
func TestJUnitProducers(t *testing.T) {
	needs(t, "bash", "go", "curl")
	needsReporter(t)
	w, dir := start(t), newProject(t)
	if _, out := shell(t, w.bus, dir, "mkdir reports; node --test --test-reporter=junit --test-reporter-destination=reports/node.xml || true"); out != "" {
		t.Fatal(out)
	}
	if _, out := shell(t, w.bus, dir, "go run gotest.tools/gotestsum@v1.13.0 --junitfile reports/go.xml ./... || true"); !exists(filepath.Join(dir, "reports/go.xml")) {
		t.Skipf("gotestsum is not here: %s", out)
	}
	code, out := shell(t, w.bus, dir, "tocsin ci --junit 'reports/*.xml' --name both --commit abc")
	if code != 0 || out != "posted failure of both to "+w.bus.IngestURL+"\n" {
		t.Errorf("exit %d: %s", code, out)
	}
	// gotestsum counts the parent of a failed subtest, and the package that doesn't compile.
	if a := w.alerts(t, 1)[0]; a.Title != "CI failure: both" || !strings.HasPrefix(a.Detail, "2 tests passed, 6 failed, 1 skipped; ") {
		t.Errorf("%+v", a)
	}
	code, out = shell(t, w.bus, dir, "tocsin ci --junit reports/node.xml --name node --commit abc; tocsin ci --junit reports/*.xml --name all --commit abc --exit-code")
	if code != 1 || !strings.Contains(out, "posted failure of all") {
		t.Errorf("exit %d: %s", code, out)
	}
	got := w.byTitle(t, 2)
	if a := got["CI failure: node"]; !strings.HasPrefix(a.Detail, "1 test passed, 2 failed; opens: 1 == 2; cart/sums: x is undefined") {
		t.Errorf("%+v", got)
	}
	code, out = shell(t, w.bus, dir, `curl -sS --fail-with-body "$TOCSIN_INGEST_URL/v1/junit?name=curl&commit=abc&ref=main&source=gitlab-ci" -H 'Content-Type: text/xml' --data-binary @reports/go.xml`)
	if code != 0 || out != `{"ok":true,"status":"failure","tests":6,"passed":1,"failed":4,"errors":0,"skipped":1}` {
		t.Errorf("exit %d: %s", code, out)
	}
	if a := w.alerts(t, 1)[0]; a.Title != "CI failure: curl on main" || a.Context["source"] != ci.SourceGitLab {
		t.Errorf("%+v", a)
	}
	for script, says := range map[string]string{
		"tocsin ci --junit 'reports/*.json'":                                                    "reports/*.json: no file matches",
		"tocsin ci --junit go.mod":                                                              "go.mod: malformed XML",
		`curl -sS "$TOCSIN_INGEST_URL/v1/junit" --data-binary @reports/go.xml`:                  "Content-Type must be one of application/xml",
		`curl -sS "$TOCSIN_INGEST_URL/v1/junit?source=x" -H 'Content-Type:' -d '<a/>'`:          "the root element is",
		`curl -sS "$TOCSIN_INGEST_URL/v1/junit?source=x" -H 'Content-Type:' -d '<testsuites/>'`: "source must be one of github-actions, gitlab-ci, custom",
	} {
		if _, out := shell(t, w.bus, dir, script); !strings.Contains(out, says) {
			t.Errorf("%s: %s", script, out)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
