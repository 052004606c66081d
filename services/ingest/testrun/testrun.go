// Package testrun has the outcome of a test run, which the decoders of all test reports
// return: how many cases passed, failed or were skipped, and which failed and why.
package testrun

import (
	"fmt"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// MaxFailures is how many failures an Outcome describes. The others are counted.
	MaxFailures = 1000
	// maxMessage is the longest message, in characters. Ingest keeps half of it: it masks
	// secrets before it cuts.
	maxMessage = 16 << 10
	// maxName is the longest name, in characters; ingest keeps half of it.
	maxName = 2 << 10
	// MaxDuration is the longest duration of a run; a longer one is cut to it.
	MaxDuration = 10_000_000 * time.Second
)

// Outcome is the sum of a run. Its zero value is a run of no tests.
type Outcome struct {
	Passed, Failed, Errors, Skipped int
	// Failures describes the first MaxFailures of Failed and Errors.
	Failures []ci.Failure
	Duration time.Duration
}

// Fail adds the description of a failure, unless there are MaxFailures of them already. It
// does not count the failure.
func (o *Outcome) Fail(name, message string) {
	if len(o.Failures) == MaxFailures {
		return
	}
	// A clone does not keep the whole report in memory, which the text may be a part of.
	o.Failures = append(o.Failures, ci.Failure{
		Name:    strings.Clone(sanitize.Cut(name, maxName)),
		Message: strings.Clone(sanitize.Cut(message, maxMessage)),
	})
}

// Add adds the outcome of another part of the run.
func (o *Outcome) Add(other Outcome) {
	o.Passed += other.Passed
	o.Failed += other.Failed
	o.Errors += other.Errors
	o.Skipped += other.Skipped
	o.Duration = min(o.Duration+other.Duration, MaxDuration)
	o.Failures = append(o.Failures, other.Failures[:min(len(other.Failures), MaxFailures-len(o.Failures))]...)
}

// Tests returns the number of cases.
func (o *Outcome) Tests() int { return o.Passed + o.Failed + o.Errors + o.Skipped }

// Status returns the status as a CI result: failure if a case failed, else error if a case
// could not run, else success.
func (o *Outcome) Status() string {
	switch {
	case o.Failed > 0:
		return ci.StatusFailure
	case o.Errors > 0:
		return ci.StatusError
	default:
		return ci.StatusSuccess
	}
}

// Summary returns a text such as "12 tests passed, 2 failed, 1 error, 3 skipped".
func (o *Outcome) Summary() string {
	var parts []string
	part := func(n int, one, many string) {
		if n == 0 {
			return
		}
		if n == 1 {
			many = one
		}
		if len(parts) == 0 && (many == "passed" || many == "failed" || many == "skipped") {
			many = plural(n) + " " + many
		}
		parts = append(parts, fmt.Sprintf("%d %s", n, many))
	}
	part(o.Passed, "passed", "passed")
	part(o.Failed, "failed", "failed")
	part(o.Errors, "error", "errors")
	part(o.Skipped, "skipped", "skipped")
	if len(parts) == 0 {
		return "no tests"
	}
	return strings.Join(parts, ", ")
}

func plural(n int) string {
	if n == 1 {
		return "test"
	}
	return "tests"
}

// Result returns the outcome as a CI result, without a source.
func (o *Outcome) Result() ci.Result {
	return ci.Result{
		Status: o.Status(), Summary: o.Summary(), Failures: o.Failures,
		DurationMS: float64(o.Duration.Milliseconds()),
	}
}
