package senders

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

func TestGoTestPiped(t *testing.T) {
	t.Parallel()
	e2etest.NeedCommands(t, "bash", "go")
	sys := e2etest.Start(t)
	code, out := e2etest.Shell(t, sys.Bus, e2etest.NewProject(t), "go test -json ./... | tocsin ci --gotest --exit-code --name go --commit abc")
	if code != 1 || !strings.Contains(out, "cart_test.go:6: got 3, want 4") || !strings.Contains(out, "undefined: undefinedName") || strings.Contains(out, `"Action"`) ||
		!strings.HasSuffix(out, "tocsin: the result is failure: 1 test passed, 2 failed, 1 error, 1 skipped\n") {
		t.Errorf("exit %d, want 1, \"cart_test.go:6: got 3, want 4\" in out, \"undefined: undefinedName\" in out, no \"\\\"Action\\\"\" in out and out that ends with \"tocsin: the result is failure: 1 test passed, 2 failed, 1 error, 1 skipped\\n\"\n%s", code, out)
	}
	a := sys.TakeAlerts(t, 1)[0]
	for _, want := range []string{"1 test passed, 2 failed, 1 error, 1 skipped", "example.com/shop/cart.TestSum/of_two: cart_test.go:6: got 3, want 4",
		"example.com/shop/boom.TestBoom: panic: assignment to entry in nil map", "example.com/shop/half: half/half_test.go:5:31: undefined: undefinedName"} {
		if !strings.Contains(a.Detail, want) {
			t.Errorf("the alert doesn't say %q: %s", want, a.Detail)
		}
	}
	if a.Title != "CI failure: go" || a.Severity != alert.Error {
		t.Errorf("got %+v, want Title \"CI failure: go\" and Severity %v", a, alert.Error)
	}

	code, out = e2etest.Shell(t, sys.Bus, e2etest.NewProject(t, "cart/cart_test.go", "boom/boom_test.go", "half/half_test.go"), "go test -json ./... | tocsin ci --gotest --exit-code --name go --commit abc")
	if code != 0 || !strings.HasSuffix(out, "posted success of go to "+sys.Bus.IngestURL+"\n") {
		t.Errorf("exit %d, want 0 and out that ends with %q\n%s", code, "posted success of go to "+sys.Bus.IngestURL+"\n", out)
	}
	if a := sys.TakeAlerts(t, 1)[0]; a.Title != "CI success: go" || a.Detail != "1 test passed, 1 skipped" {
		t.Errorf("got %+v, want Title \"CI success: go\" and Detail \"1 test passed, 1 skipped\"", a)
	}
	// A go test that does not start has not succeeded.
	code, out = e2etest.Shell(t, sys.Bus, t.TempDir(), "go test -json ./... | tocsin ci --gotest --exit-code --name go --commit abc")
	if code != 1 || !strings.Contains(out, "posted error of go") {
		t.Errorf("exit %d, want 1 and \"posted error of go\" in out\n%s", code, out)
	}
}

// TestJUnitReports posts the reports of Node's test runner and gotestsum, with tocsin
// ci and with curl.
func TestJUnitReports(t *testing.T) {
	t.Parallel()
	e2etest.NeedCommands(t, "bash", "go", "curl")
	e2etest.NeedJUnitReporter(t)
	sys, dir := e2etest.Start(t), e2etest.NewProject(t)
	if _, out := e2etest.Shell(t, sys.Bus, dir, "mkdir reports; node --test --test-reporter=junit --test-reporter-destination=reports/node.xml || true"); out != "" {
		t.Fatalf("got %s, want nothing", out)
	}
	if _, out := e2etest.Shell(t, sys.Bus, dir, "go run gotest.tools/gotestsum@v1.13.0 --junitfile reports/go.xml ./... || true"); !exists(filepath.Join(dir, "reports/go.xml")) {
		t.Skipf("gotestsum is not here: %s", out)
	}
	code, out := e2etest.Shell(t, sys.Bus, dir, "tocsin ci --junit 'reports/*.xml' --name both --commit abc")
	if code != 0 || out != "posted failure of both to "+sys.Bus.IngestURL+"\n" {
		t.Errorf("exit %d: %s, want 0 and %v", code, out, "posted failure of both to "+sys.Bus.IngestURL+"\n")
	}
	// gotestsum counts the parent of a failed subtest, and the package that does not
	// compile.
	if a := sys.TakeAlerts(t, 1)[0]; a.Title != "CI failure: both" || !strings.HasPrefix(a.Detail, "2 tests passed, 6 failed, 1 skipped; ") {
		t.Errorf("got %+v, want Title \"CI failure: both\" and Detail that begins with \"2 tests passed, 6 failed, 1 skipped; \"", a)
	}
	code, out = e2etest.Shell(t, sys.Bus, dir, "tocsin ci --junit reports/node.xml --name node --commit abc; tocsin ci --junit reports/*.xml --name all --commit abc --exit-code")
	if code != 1 || !strings.Contains(out, "posted failure of all") {
		t.Errorf("exit %d: %s, want 1 and \"posted failure of all\" in it", code, out)
	}
	got := sys.TakeAlertsByTitle(t, 2)
	if a := got["CI failure: node"]; !strings.HasPrefix(a.Detail, "1 test passed, 2 failed; opens: 1 == 2; cart/sums: x is undefined") {
		t.Errorf("got %+v, want Detail that begins with \"1 test passed, 2 failed; opens: 1 == 2; cart/sums: x is undefined\"", got)
	}
	code, out = e2etest.Shell(t, sys.Bus, dir, `curl -sS --fail-with-body "$TOCSIN_INGEST_URL/v1/junit?name=curl&commit=abc&ref=main&source=gitlab-ci" -H 'Content-Type: text/xml' --data-binary @reports/go.xml`)
	if code != 0 || out != `{"ok":true,"status":"failure","tests":6,"passed":1,"failed":4,"errors":0,"skipped":1}` {
		t.Errorf("exit %d: %s, want 0 and \"{\\\"ok\\\":true,\\\"status\\\":\\\"failure\\\",\\\"tests\\\":6,\\\"passed\\\":1,\\\"failed\\\":4,\\\"errors\\\":0,\\\"skipped\\\":1}\"", code, out)
	}
	if a := sys.TakeAlerts(t, 1)[0]; a.Title != "CI failure: curl on main" || a.Context["source"] != ci.SourceGitLab {
		t.Errorf("got %+v, want Title \"CI failure: curl on main\" and Context[\"source\"] %v", a, ci.SourceGitLab)
	}
	for script, says := range map[string]string{
		"tocsin ci --junit 'reports/*.json'":                                                    "reports/*.json: no file matches",
		"tocsin ci --junit go.mod":                                                              "go.mod: malformed XML",
		`curl -sS "$TOCSIN_INGEST_URL/v1/junit" --data-binary @reports/go.xml`:                  "Content-Type must be one of application/xml",
		`curl -sS "$TOCSIN_INGEST_URL/v1/junit?source=x" -H 'Content-Type:' -d '<a/>'`:          "the root element is",
		`curl -sS "$TOCSIN_INGEST_URL/v1/junit?source=x" -H 'Content-Type:' -d '<testsuites/>'`: "source must be one of github-actions, gitlab-ci, custom",
	} {
		if _, out := e2etest.Shell(t, sys.Bus, dir, script); !strings.Contains(out, says) {
			t.Errorf("%s: got %s, want %q in it", script, out, says)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
