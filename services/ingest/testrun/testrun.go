// Package testrun is the outcome of a run of tests: how many cases passed, failed and so
// on, and which failed and why. Readers of test reports of every format make it.
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
	// maxMessage is the longest message, in characters: twice what ingest keeps, which
	// masks before it cuts.
	maxMessage = 16 << 10
	// maxName is the longest name, in characters; ingest keeps half of it.
	maxName = 2 << 10
	// MaxDuration is the longest duration that counts.
	MaxDuration = 10_000_000 * time.Second
)

// Outcome is the sum of a run. Its zero value is a run of no tests.
type Outcome struct {
	Passed, Failed, Errors, Skipped int
	// Failures describes the first MaxFailures of Failed and Errors.
	Failures []ci.Failure
	Duration time.Duration
}

// Fail adds a failure's description, where there is room for it.
func (o *Outcome) Fail(name, message string) {
	if len(o.Failures) == MaxFailures {
		return
	}
	// Cut returns a part of the text, which may be that of a whole report.
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

// Tests is how many cases there were.
func (o *Outcome) Tests() int { return o.Passed + o.Failed + o.Errors + o.Skipped }

// Status is that of a CI result: failure if a case failed, else error if a case could not
// run.
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

// Summary is a text such as: 12 tests passed, 2 failed, 1 error, 3 skipped.
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

// Result is the outcome as a CI result, without a source.
func (o *Outcome) Result() ci.Result {
	return ci.Result{
		Status: o.Status(), Summary: o.Summary(), Failures: o.Failures,
		DurationMS: float64(o.Duration.Milliseconds()),
	}
}
