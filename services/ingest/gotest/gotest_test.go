package gotest_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tocsin-bus/tocsin/services/ingest/gotest"
	"github.com/tocsin-bus/tocsin/services/ingest/testrun"
)

func briefly(o testrun.Outcome) (all []string) {
	for _, f := range o.Failures {
		line, _, _ := strings.Cut(f.Message, "\n")
		all = append(all, f.Name+": "+line)
	}
	return all
}

func TestRealRun(t *testing.T) {
	data, err := os.ReadFile("testdata/run.json")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o, err := gotest.Read(iotest.HalfReader(bytes.NewReader(data)), &out)
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Summary(); got != "4 tests passed, 6 failed, 3 errors, 1 skipped" || o.Status() != "failure" || o.Duration.Round(time.Second) != 2*time.Second {
		t.Errorf("got %s: %s in %s, want failure: 4 tests passed, 6 failed, 3 errors, 1 skipped, in 2 s", o.Status(), got, o.Duration)
	}
	want := []string{
		"example.com/shop/setup: setup/x_test.go:2:20: no required module provides package example.com/shop/nowhere; to add it:",
		"example.com/shop/bad.TestSum/of_two: bad_test.go:3: adding",
		"example.com/shop/boom.TestBoom: panic: assignment to entry in nil map [recovered, repanicked]",
		"example.com/shop/nobuild: nobuild/x_test.go:3:27: undefined: undefinedName",
		"example.com/shop/para.TestQ/a/b: x_test.go:4: no",
		"example.com/shop/para.TestR: panic: boom [recovered, repanicked]",
		"example.com/shop/para.TestP: did not finish",
		"example.com/shop/tm: no database",
		"example.com/shop/slow.TestSlow: x_test.go:4: waiting",
	}
	if got := briefly(o); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if slow := o.Failures[8].Message; !strings.Contains(slow, "panic: test timed out after 2s\n\trunning tests:\n\t\tTestSlow (2s)") {
		t.Errorf("message of the test that timed out: %q, want the panic in it", slow)
	}
	for _, text := range []string{"=== RUN   TestSum/of_two\n    bad_test.go:3: adding\n", "undefined: undefinedName\n", "ok  \texample.com/shop/ok\t"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("the log lacks %q, want it in:\n%s", text, out.String())
		}
	}
	if strings.Contains(out.String(), `"Action"`) {
		t.Errorf("the log has events, want only text:\n%s", out.String())
	}
}

// in returns the output of go test -json with one line for each argument: "pass a TestX"
// is an event of a test, "output a TestX: text" one with output, "pass a -" is of package a
// as a whole, and anything else is text.
func in(lines ...string) string {
	var s strings.Builder
	for i, line := range lines {
		head, output, _ := strings.Cut(line, ": ")
		f := strings.Fields(head)
		if len(f) != 3 {
			s.WriteString(line + "\n")
			continue
		}
		if f[2] == "-" {
			f[2] = ""
		}
		fmt.Fprintf(&s, `{"Time":"2026-01-28T14:30:%02dZ","Action":%q,"Package":%q,"Test":%q,"Output":%q}`+"\n", i%60, f[0], f[1], f[2], output)
	}
	return s.String()
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		in, summary, status string
		failures            []string
	}{
		"it passed":               {in("start a -", "run a TestX", "pass a TestX", "pass a -"), "1 test passed", "success", nil},
		"no tests":                {in("start a -", "skip a -"), "no tests", "success", nil},
		"nothing":                 {"", "1 error", "error", []string{"go test: there was no event of go test -json: it did not start, or ran without -json"}},
		"without -json":           {"--- FAIL: TestX (0.00s)\nFAIL\n", "1 error", "error", []string{"go test: there was no event of go test -json: it did not start, or ran without -json"}},
		"text among events":       {in("a warning", "run a TestX", "FAIL", "fail a TestX", "fail a -"), "1 test failed", "failure", []string{"a.TestX: "}},
		"a parent of its own":     {in("run a TestX", "run a TestX/y", "pass a TestX/y", "output a TestX: not so", "fail a TestX", "fail a -"), "1 test passed, 1 failed", "failure", []string{"a.TestX: not so"}},
		"a parent of a failed":    {in("run a TestX", "run a TestX/y", "run a TestX/y/z", "fail a TestX/y/z", "fail a TestX/y", "fail a TestX", "fail a -"), "1 test failed", "failure", []string{"a.TestX/y/z: "}},
		"twice, the second time":  {in("run a TestX", "pass a TestX", "run a TestX", "output a TestX: no", "fail a TestX", "fail a -"), "1 test passed, 1 failed", "failure", []string{"a.TestX: no"}},
		"no run before the end":   {in("fail a TestX", "fail a -"), "1 test failed", "failure", []string{"a.TestX: "}},
		"in flight at the end":    {in("run a TestX", "run a TestX/y", "output a -: panic: oh", "fail a -"), "1 test failed", "failure", []string{"a.TestX/y: panic: oh"}},
		"a leftover of a success": {in("run a TestX", "run a TestX/y", "pass a TestX", "pass a -"), "1 test passed", "success", nil},
		"the package alone":       {in("output a -: no database", "output a -: FAIL\ta\t0.1s", "fail a -"), "1 error", "error", []string{"a: no database"}},
		"the package, silently":   {in("start a -", "fail a -"), "1 error", "error", []string{"a: failed outside of its tests"}},
		"it broke off":            {in("start a -", "run a TestX", "output a TestX: waiting"), "1 error", "error", []string{"a: did not finish, at TestX"}},
		"a build of no package":   {`{"ImportPath":"b [b.test]","Action":"build-output","Output":"# b\n"}` + "\n" + `{"ImportPath":"b [b.test]","Action":"build-output","Output":"b.go:1: no\n"}` + "\n" + `{"ImportPath":"b [b.test]","Action":"build-fail"}`, "1 error", "error", []string{"b: b.go:1: no"}},
		"of another Go":           {`{"Action":"fail","Package":"a","FailedBuild":"b"}` + "\n" + `{"Action":"something","Package":"c"}` + "\n" + `{"Action":"pass","Package":"c"}`, "1 error", "error", []string{"a: build failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := gotest.Read(strings.NewReader(c.in), nil)
			if err != nil || o.Summary() != c.summary || o.Status() != c.status {
				t.Errorf("got %s: %s, error %v, want %s: %s", o.Status(), o.Summary(), err, c.status, c.summary)
			}
			if got := briefly(o); !reflect.DeepEqual(got, c.failures) {
				t.Errorf("failures: got %q, want %q", got, c.failures)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := gotest.Read(iotest.ErrReader(broken), nil); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestUnfinishedOutput checks that the failure of a run that broke off, or printed no JSON,
// has its output.
func TestUnfinishedOutput(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"a test did not finish":    {in("start a -", "run a TestX", "output a TestX: waiting"), "did not finish, at TestX\nwaiting"},
		"a package did not finish": {in("start a -", "output a -: listening"), "did not finish\nlistening"},
		"no JSON":                  {"--- FAIL: TestX (0.00s)\nFAIL\n", "or ran without -json\n--- FAIL: TestX (0.00s)\nFAIL"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := gotest.Read(strings.NewReader(c.in), nil)
			if err != nil || len(o.Failures) != 1 {
				t.Fatalf("got %d failures, error %v, want 1", len(o.Failures), err)
			}
			if got := o.Failures[0].Message; !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
		})
	}
}

// TestLastLines checks that the last lines of a long output are kept, and the first ones
// of a panic.
func TestLastLines(t *testing.T) {
	var lines []string
	for i := range 500 {
		lines = append(lines, fmt.Sprintf("output a TestX: line %d\n", i))
	}
	lines = append(lines, "output a TestX: panic: oh\n")
	for i := range 500 {
		lines = append(lines, fmt.Sprintf("output a TestX: goroutine %d\n", i))
	}
	o, err := gotest.Read(strings.NewReader(in(append(lines, "fail a TestX", "fail a -")...)), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := o.Failures[0].Message
	if !strings.HasPrefix(m, "line 460\n") || !strings.Contains(m, "line 499\npanic: oh\ngoroutine 0\n") || !strings.HasSuffix(m, "goroutine 28") {
		t.Errorf("got %q, want the last 40 lines and the first 30 of the panic", m)
	}
}

// brokenPipe is a writer that fails, and counts the calls.
type brokenPipe struct{ calls int }

func (b *brokenPipe) Write([]byte) (int, error) { b.calls++; return 0, io.ErrClosedPipe }

func TestLog(t *testing.T) {
	pipe := &brokenPipe{}
	if o, err := gotest.Read(strings.NewReader(in("output a TestX: x", "pass a TestX", "pass a -")), pipe); err != nil || o.Passed != 1 || pipe.calls != 1 {
		t.Errorf("got %+v, error %v after %d writes, want 1 passed and no error after 1", o, err, pipe.calls)
	}
	long := strings.Repeat("x", 3<<20)
	var out bytes.Buffer
	if o, err := gotest.Read(strings.NewReader(long+"\n"+in("pass a TestX", "pass a -")+"{}\nlast"), &out); err != nil || o.Passed != 1 || out.String() != long+"\n{}\nlast" {
		t.Errorf("got %+v, error %v, %d bytes of log, want 1 passed, no error, and all %d bytes of text", o, err, out.Len(), len(long)+len("\n{}\nlast"))
	}
}

// endless is a run of many tests that print output and never end.
type endless struct{ left, n int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	e.n++
	line := fmt.Sprintf(`{"Action":"output","Package":"a%d","Test":"T%d/%d","Output":%q}`+"\n", e.n%7000, e.n, e.n, strings.Repeat("x", 300))
	n := copy(p, line)
	e.left -= n
	return n, nil
}

func TestBoundedMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o, err := gotest.Read(&endless{left: 30 << 20}, io.Discard)
	if err != nil || len(o.Failures) != testrun.MaxFailures {
		t.Fatalf("%d failures, error %v, want %d and none", len(o.Failures), err, testrun.MaxFailures)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("%d MiB are kept, want at most 32", grown>>20)
	}
	runtime.KeepAlive(o)
}

func FuzzGoTest(f *testing.F) {
	data, err := os.ReadFile("testdata/run.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:8000])
	f.Add([]byte(in("run a TestX", "run a TestX/y", "output a TestX/y: no", "fail a TestX/y", "fail a TestX", "fail a -")))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := gotest.Read(bytes.NewReader(data), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Failures) != min(o.Failed+o.Errors, testrun.MaxFailures) || o.Duration < 0 || o.Duration > testrun.MaxDuration {
			t.Fatalf("%d failures in %s of %q, want each, up to %d, within %s", len(o.Failures), o.Duration, o.Summary(), testrun.MaxFailures, testrun.MaxDuration)
		}
		if err := o.Result(); err.Status == "" {
			t.Fatalf("Result of %+v has no status, want one", o)
		}
	})
}

// BenchmarkRead reads a run of 1,000 tests with 10 lines each.
func BenchmarkRead(b *testing.B) {
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf("run a Test%d", i))
		for range 10 {
			lines = append(lines, fmt.Sprintf("output a Test%d:     x_test.go:3: something was text\n", i))
		}
		lines = append(lines, fmt.Sprintf("pass a Test%d", i))
	}
	data := []byte(in(append(lines, "pass a -")...))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if o, err := gotest.Read(bytes.NewReader(data), io.Discard); err != nil || o.Passed != 1000 {
			b.Fatal(o.Summary(), err)
		}
	}
}
