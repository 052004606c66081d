package junit_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/services/ingest/junit"
	"github.com/tocsin-bus/tocsin/services/ingest/testrun"
)

func TestDialects(t *testing.T) {
	for name, c := range map[string]struct {
		summary  string
		duration time.Duration
		failures []string // name: first line of the message
	}{
		"node": {"2 tests passed, 3 failed, 1 skipped", 3595 * time.Microsecond, []string{
			"top level fails: 1 == 2", "cart/sums: x is undefined",
			"cart/deep/nested <&>: Expected values to be loosely deep-equal:{  a: 1}should loosely deep-equal{  a: 2}",
		}},
		"gotestsum": {"3 tests passed, 5 failed, 1 skipped", 6 * time.Millisecond, []string{
			"example.com/shop/bad.TestSum/of_two: bad_test.go:3: adding", "example.com/shop/bad.TestSum: --- FAIL: TestSum (0.00s)",
			"example.com/shop/boom.TestBoom: --- FAIL: TestBoom (0.00s)", "example.com/shop/nobuild/TestMain: FAIL\texample.com/shop/nobuild [build failed]",
			"example.com/shop/tm/TestMain: no database",
		}},
		"pytest": {"1 test passed, 1 failed, 1 error, 1 skipped", 123 * time.Millisecond, []string{
			"tests.test_login.test_login: AssertionError: Expected 200, got 401", "pytest/tests.test_cart: collection failure",
		}},
		"surefire": {"2 tests passed, 1 failed, 1 error, 1 skipped", 1234560 * time.Millisecond, []string{
			"com.example.CartTest.sums: expected: <3> but was: <4>", "com.example.CartTest.opens: java.lang.NullPointerException",
		}},
		"jest":   {"1 test passed, 1 failed, 1 skipped", 900 * time.Millisecond, []string{"cart sums two: Error: expect(received).toBe(expected) // Object.is equality"}},
		"gradle": {"1 test passed, 1 failed", 31 * time.Millisecond, []string{"com.example.CartTest.sums(): org.opentest4j.AssertionFailedError: expected: <3> but was: <4>"}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name+".xml"))
			if err != nil {
				t.Fatal(err)
			}
			o, err := junit.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if o.Summary() != c.summary || o.Duration != c.duration && name != "node" {
				t.Errorf("got %q in %s, want %q in %s", o.Summary(), o.Duration, c.summary, c.duration)
			}
			if got := briefly(o); !reflect.DeepEqual(got, c.failures) {
				t.Errorf("got  %q\nwant %q", got, c.failures)
			}
		})
	}
}

func briefly(o testrun.Outcome) (all []string) {
	for _, f := range o.Failures {
		line, _, _ := strings.Cut(f.Message, "\n")
		all = append(all, f.Name+": "+line)
	}
	return all
}

func TestDecode(t *testing.T) {
	const passed = `<testsuite name="s"><testcase name="a" time="1.5"/><testcase name="b" time="0.5"/></testsuite>`
	const failed = `<testsuites><testsuite name="s"><testcase name="c" classname="S"><failure message="no" type="x"/></testcase></testsuite></testsuites>`
	const errored = `<testsuite><testcase name="d"><error>it broke off</error></testcase></testsuite>`
	for name, c := range map[string]struct {
		in       string
		summary  string
		status   string
		duration time.Duration
		failures []string
	}{
		"no cases":                    {`<testsuites failures="0" errors=""/>`, "no tests", "success", 0, nil},
		"no cases, but failures":      {`<testsuites failures="3"/>`, "1 error", "error", 0, []string{"the report: it counts failures or errors, but has no test cases"}},
		"a suite that ended early":    {`<testsuites><testsuite errors="1"></testsuite></testsuites>`, "1 error", "error", 0, []string{"the report: it counts failures or errors, but has no test cases"}},
		"a failure":                   {failed, "1 test failed", "failure", 0, []string{"S.c: no"}},
		"an error":                    {errored, "1 error", "error", 0, []string{"d: it broke off"}},
		"two roots":                   {passed + errored, "2 tests passed, 1 error", "error", 2 * time.Second, []string{"d: it broke off"}},
		"a mark before":               {"\ufeff" + passed, "2 tests passed", "success", 2 * time.Second, nil},
		"a failure and an error":      {`<testsuite><testcase name="a"><error message="it ended"/><failure message="and failed"/></testcase></testsuite>`, "1 test failed", "failure", 0, []string{"a: it ended"}},
		"a message of one word":       {`<testsuite><testcase name="a"><failure message="Failed">` + "\n\n" + `  want 3<x>not this</x></failure></testcase></testsuite>`, "1 test failed", "failure", 0, []string{"a: want 3"}},
		"nothing but a type":          {`<testsuite><testcase name="a"><failure type="java.lang.Error"/></testcase></testsuite>`, "1 test failed", "failure", 0, []string{"a: java.lang.Error"}},
		"no name":                     {`<testsuite name="s"><testcase classname="S"><failure message="m"/></testcase></testsuite>`, "1 test failed", "failure", 0, []string{"S: m"}},
		"the class in the name":       {`<testsuite><testcase classname="S.T" name="S.T.a"><failure message="m"/></testcase></testsuite>`, "1 test failed", "failure", 0, []string{"S.T.a: m"}},
		"a name that begins the same": {`<testsuite><testcase classname="a" name="add"><failure message="m"/></testcase></testsuite>`, "1 test failed", "failure", 0, []string{"a.add: m"}},
		"colours as they are":         {"<testsuite><testcase name='a'><failure message='\x1b[31mred one\x1b[0m'/></testcase></testsuite>", "1 test failed", "failure", 0, []string{"a: \u241b[31mred one\u241b[0m"}},
		"colours as references":       {"<testsuite><testcase name='a'><failure message='&#27;[31mred &#x1B;[0m'/></testcase></testsuite>", "1 test failed", "failure", 0, []string{"a: \u241b[31mred \u241b[0m"}},
		"bytes that are no text":      {"<testsuite><testcase name='a'><failure message='x \xff'/></testcase></testsuite>", "1 test failed", "failure", 0, []string{"a: x \ufffd"}},
		"not run":                     {`<testsuite><testcase name="a" status="notrun"/></testsuite>`, "1 test skipped", "success", 0, nil},
		"declared as ASCII":           {`<?xml version="1.0" encoding="us-ascii"?>` + passed, "2 tests passed", "success", 2 * time.Second, nil},
		"times that are none":         {`<testsuite time="NaN"><testcase name="a" time="-3"/><testcase name="b" time="1e300"/></testsuite>`, "2 tests passed", "success", testrun.MaxDuration, nil},
		"suites in suites":            {`<testsuite time="3"><testsuite time="2"><testcase name="a" time="1"/></testsuite></testsuite>`, "1 test passed", "success", 3 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := junit.Decode([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if o.Summary() != c.summary || o.Status() != c.status || o.Duration != c.duration {
				t.Errorf("got %s, %q in %s, want %s, %q in %s", o.Status(), o.Summary(), o.Duration, c.status, c.summary, c.duration)
			}
			if got := briefly(o); !reflect.DeepEqual(got, c.failures) {
				t.Errorf("failures: got %q, want %q", got, c.failures)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	const laughs = `<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;">]><testsuites>&lol2;</testsuites>`
	for name, c := range map[string]struct {
		in   string
		says string
		many bool
	}{
		"nothing":           {"  \n", "empty", false},
		"JSON":              {`{"a":1}`, "no element testsuites or testsuite", false},
		"HTML":              {`<html><body/></html>`, `the root element is "html"`, false},
		"coverage":          {`<coverage line-rate="1"/>`, `in JUnit XML it is testsuites or testsuite`, false},
		"half of it":        {`<testsuites><testcase name="a">`, "malformed XML", false},
		"half a tag":        {`<testsuites><testcase name="a`, "malformed XML", false},
		"tags that cross":   {`<testsuites><a><b></a></b></testsuites>`, "malformed XML", false},
		"a billion laughs":  {laughs, "DOCTYPE", false},
		"an entity":         {`<testsuites>&xxe;</testsuites>`, "malformed XML", false},
		"Latin-1":           {`<?xml version="1.0" encoding="ISO-8859-1"?><testsuites/>`, "the encoding ISO-8859-1 is not supported: write the report as UTF-8", false},
		"UTF-16":            {"\xff\xfe<\x00t\x00", "UTF-16", false},
		"nested too deep":   {strings.Repeat("<testsuite>", 100), "deeper than 64", true},
		"a million cases":   {"<testsuite>" + strings.Repeat("<testcase/>", 1_000_000) + "</testsuite>", "more than 200000 elements", true},
		"a lot of settings": {"<testsuite " + strings.Repeat("a='b' ", 500) + "/>", "more than 200 attributes", true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := junit.Decode([]byte(c.in))
			if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, decoding.ErrTooMany) != c.many {
				t.Fatalf("error %v, want %q, wrapping ErrTooMany: %t", err, c.says, c.many)
			}
		})
	}
}

// TestLongSuiteNames checks that a long name of a suite, which prefixes the name of every
// failure in it, does not take much memory.
func TestLongSuiteNames(t *testing.T) {
	long := "s" + strings.Repeat("x", 1<<20)
	report := "<testsuite name='" + long + "'>" + strings.Repeat("<testcase><error/></testcase>", 2000) + "</testsuite>"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o, err := junit.Decode([]byte(report))
	runtime.ReadMemStats(&after)
	if err != nil || o.Errors != 2000 || len(o.Failures) != testrun.MaxFailures || !strings.HasPrefix(o.Failures[0].Name, "sxx") {
		t.Fatalf("got %s, %d failures, error %v; want 2000 errors and %d failures", o.Summary(), len(o.Failures), err, testrun.MaxFailures)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d MiB allocated for a report of 1 MiB, want at most 64", grown>>20)
	}
}

func FuzzJUnit(f *testing.F) {
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("<testsuite><testcase name='a'><failure>&#0;\x1b<![CDATA[&#27;]]></failure></testcase></testsuite>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := junit.Decode(data)
		if err != nil {
			return
		}
		if err := o.Result().Status; err == "" || o.Duration < 0 || o.Duration > testrun.MaxDuration {
			t.Fatalf("got %+v, want a status and a duration within bounds", o)
		}
		if len(o.Failures) != min(o.Failed+o.Errors, testrun.MaxFailures) {
			t.Fatalf("%d failures of %q, want each, up to %d", len(o.Failures), o.Summary(), testrun.MaxFailures)
		}
	})
}

// BenchmarkDecode decodes a report of 10,000 cases with 100 failures.
func BenchmarkDecode(b *testing.B) {
	var s strings.Builder
	s.WriteString(`<testsuites><testsuite name="s">`)
	for range 100 {
		s.WriteString(strings.Repeat(`<testcase classname="com.example.CartTest" name="sums" time="0.012"/>`, 99))
		s.WriteString(`<testcase classname="com.example.CartTest" name="opens" time="0.1"><failure message="expected 3">` + strings.Repeat("at x.y(z:1)\n", 50) + `</failure></testcase>`)
	}
	s.WriteString(`</testsuite></testsuites>`)
	data := []byte(s.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if o, err := junit.Decode(data); err != nil || o.Tests() != 10_000 {
			b.Fatal(o.Summary(), err)
		}
	}
}
