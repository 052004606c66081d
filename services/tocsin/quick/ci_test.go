package quick

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/service"
)

const (
	passedReport = `<testsuite name="s"><testcase classname="S" name="a" time="1"/><testcase classname="S" name="b" time="1"/></testsuite>`
	failedReport = `<testsuite name="s"><testcase classname="S" name="c"><failure message="want 3, got 4"/></testcase></testsuite>`
	goRun        = `{"Action":"output","Package":"a","Test":"TestX","Output":"    x_test.go:3: no\n"}` + "\n" +
		`{"Action":"fail","Package":"a","Test":"TestX"}` + "\n" + `{"Action":"fail","Package":"a"}` + "\n"
)

// ingest returns the URL of a server that accepts results, and the results that it got.
func ingest(t *testing.T) (url string, posted func() []ci.Result) {
	t.Helper()
	var all []ci.Result
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		if _, err := body.ReadFrom(r.Body); err != nil {
			t.Error(err)
		}
		result, err := ci.Decode(body.Bytes())
		if err != nil || r.URL.Path != "/ci-result" {
			t.Errorf("POST %s: %s: %v, want a result at /ci-result", r.URL, body.String(), err)
		}
		all = append(all, result)
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []ci.Result { return all }
}

func TestCI(t *testing.T) {
	for _, name := range []string{"GITHUB_ACTIONS", "GITLAB_CI"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"a.xml": passedReport, "b.xml": failedReport, "[c].xml": passedReport, "broken.txt": "<html/>"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d.xml"), 0o700); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, c := range map[string]struct {
		CI
		stdin   string
		posted  string // status: summary (failures)
		fails   string
		misused bool
		log     string
		reason  string
	}{
		"by flags":              {CI: CI{Status: "success", Summary: "all of them"}, posted: "success: all of them (0)"},
		"by flags, exit with 1": {CI: CI{Status: "failure", Summary: "one", ExitCode: true}, posted: "failure: one (0)", fails: "the result is failure: one"},
		"a report":              {CI: CI{JUnit: []string{at("a.xml")}, ExitCode: true}, posted: "success: 2 tests passed (0)"},
		"a pattern":             {CI: CI{JUnit: []string{at("*.xml")}}, posted: "failure: 4 tests passed, 1 failed (1)"},
		"several, one twice":    {CI: CI{JUnit: []string{at("a.xml"), at("a*")}, Files: []string{at("b.xml")}}, posted: "failure: 2 tests passed, 1 failed (1)"},
		"a name like a pattern": {CI: CI{JUnit: []string{at("[c].xml")}}, posted: "success: 2 tests passed (0)"},
		"flags win":             {CI: CI{JUnit: []string{at("b.xml")}, Status: "error", Summary: "mine", Failure: []string{"lint=no"}}, posted: "error: mine (2)", reason: ": lint: no"},
		"a run of go test":      {CI: CI{GoTest: true, ExitCode: true}, stdin: goRun, posted: "failure: 1 test failed (1)", fails: "the result is failure: 1 test failed", log: "    x_test.go:3: no\n"},
		"go test did not start": {CI: CI{GoTest: true}, posted: "error: 1 error (1)", reason: ": go test: there was no event of go test -json: it did not start, or ran without -json"},
		"nothing at all":        {fails: "give --status=S, --junit=FILE or --gotest", misused: true},
		"both":                  {CI: CI{JUnit: []string{at("a.xml")}, GoTest: true}, fails: "--junit and --gotest", misused: true},
		"files without --junit": {CI: CI{Status: "success", Files: []string{"x"}}, fails: "unexpected argument x", misused: true},
		"another status":        {CI: CI{Status: "done"}, fails: "status must be one of success, failure, error", misused: true},
		"another source":        {CI: CI{GoTest: true, Source: "jenkins"}, fails: "source must be one of", misused: true},
		"no match":              {CI: CI{JUnit: []string{at("*.json")}}, fails: "*.json: no file matches", misused: true},
		"an invalid pattern":    {CI: CI{JUnit: []string{at("[")}}, fails: "syntax error in pattern", misused: true},
		"no such file":          {CI: CI{JUnit: []string{at("x.xml")}}, fails: "x.xml: no such file", misused: true},
		"a folder":              {CI: CI{JUnit: []string{at("d.xml")}}, fails: "is a directory"},
		"another format":        {CI: CI{JUnit: []string{at("broken.txt")}}, fails: "broken.txt: the root element is"},
	} {
		t.Run(name, func(t *testing.T) {
			url, posted := ingest(t)
			c.IngestURL = url
			var out bytes.Buffer
			err := c.Run(t.Context(), service.Env{StateDir: dir, Stdin: strings.NewReader(c.stdin), Stdout: &out})
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) || errors.Is(err, service.ErrUsage) != c.misused {
				t.Fatalf("tocsin ci = %v, want an error with %q, of usage: %t", err, c.fails, c.misused)
			}
			got := ""
			if all := posted(); len(all) == 1 {
				got = fmt.Sprintf("%s: %s (%d)", all[0].Status, all[0].Summary, len(all[0].Failures))
			}
			if got != c.posted {
				t.Errorf("posted %q, want %q", got, c.posted)
			}
			status, _, _ := strings.Cut(c.posted, ":")
			if want := c.log + "posted " + status + " of this run to " + url + c.reason + "\n"; c.posted != "" && out.String() != want {
				t.Errorf("stdout = %q, want %q", out.String(), want)
			}
		})
	}
}

// TestIngestURL expects an error for an invalid URL before stdin is read.
func TestIngestURL(t *testing.T) {
	for _, wrong := range []string{"127.0.0.1:7400", "localhost:7400", "tocsin.internal", "nats://127.0.0.1:7422", "http://", "http://[bad"} {
		c := CI{GoTest: true, IngestURL: wrong}
		err := c.Run(t.Context(), service.Env{Stdin: iotest.ErrReader(errors.New("it was read")), Stdout: &bytes.Buffer{}})
		if !errors.Is(err, service.ErrUsage) || !strings.Contains(err.Error(), "--ingest-url must be a URL such as http://127.0.0.1:7400") {
			t.Errorf("--ingest-url %s: error = %v, want a usage error that shows a URL", wrong, err)
		}
	}
}

// TestInterrupted expects the command to end although its input does not.
func TestInterrupted(t *testing.T) {
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), w.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := CI{GoTest: true, IngestURL: "http://127.0.0.1:1"}
	if err := c.Run(ctx, service.Env{Stdin: in, Stdout: &bytes.Buffer{}}); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Fatalf("error = %v, want interrupted", err)
	}
}

func TestFit(t *testing.T) {
	if _, _, err := fit(ci.Result{Summary: strings.Repeat("x", 1<<20)}); !errors.Is(err, service.ErrUsage) {
		t.Errorf("fit a summary of 1 MiB: error = %v, want a usage error", err)
	}
	// A secret where the text is cut is masked before.
	secret := "ghp_" + strings.Repeat("a1B2", 9)
	f := make([]ci.Failure, 2000)
	for i := range f {
		f[i] = ci.Failure{Name: "t", Message: strings.Repeat("x", 480) + " " + secret + strings.Repeat("x", 2000)}
	}
	if body, _, err := fit(ci.Result{Failures: f}); err != nil || bytes.Contains(body, []byte("ghp_")) {
		t.Errorf("fit: %v, want no part of a secret in the result", err)
	}
}
