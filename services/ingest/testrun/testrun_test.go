package testrun_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/ingest/testrun"
)

func TestOutcome(t *testing.T) {
	for summary, c := range map[string]struct {
		testrun.Outcome
		status string
	}{
		"no tests":        {testrun.Outcome{}, "success"},
		"1 test passed":   {testrun.Outcome{Passed: 1}, "success"},
		"2 tests skipped": {testrun.Outcome{Skipped: 2}, "success"},
		"12 tests passed, 2 failed, 1 error, 3 skipped": {testrun.Outcome{Passed: 12, Failed: 2, Errors: 1, Skipped: 3}, "failure"},
		"1 test failed":           {testrun.Outcome{Failed: 1}, "failure"},
		"2 errors":                {testrun.Outcome{Errors: 2}, "error"},
		"1 test passed, 1 failed": {testrun.Outcome{Passed: 1, Failed: 1}, "failure"},
		"1 error, 1 skipped":      {testrun.Outcome{Errors: 1, Skipped: 1}, "error"},
	} {
		if got := c.Summary(); got != summary {
			t.Errorf("Summary = %q, want %q", got, summary)
		}
		if got := c.Status(); got != c.status {
			t.Errorf("%s: Status = %q, want %q", summary, got, c.status)
		}
		if got := c.Result(); got.Summary != summary || got.Status != c.status {
			t.Errorf("result = %+v, want %s: %s", got, c.status, summary)
		}
	}
}

func TestAddAndBounds(t *testing.T) {
	var a, b testrun.Outcome
	for range 700 {
		a.Fail(strings.Repeat("n", 5000), strings.Repeat("m", 50_000))
		b.Fail("b", "")
	}
	a.Failed, b.Failed, a.Passed, b.Skipped, b.Errors, a.Duration, b.Duration = 700, 699, 1, 2, 1, time.Second, time.Minute
	a.Add(b)
	if a.Tests() != 1403 || a.Failed != 1399 || a.Duration != 61*time.Second || a.Errors != 1 {
		t.Errorf("sum = %+v, want 1403 tests, 1399 failed, 1 error, 61 s", a)
	}
	if len(a.Failures) != testrun.MaxFailures || a.Failures[700].Name != "b" {
		t.Errorf("%d failures, want %d, and those of b after the 700 of a", len(a.Failures), testrun.MaxFailures)
	}
	if f := a.Failures[0]; len(f.Name) > 2100 || len(f.Message) > 17_000 {
		t.Errorf("a failure of %d and %d bytes, want at most 2100 and 17,000", len(f.Name), len(f.Message))
	}
}
