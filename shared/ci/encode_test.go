package ci_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/ci"
)

func TestEncode(t *testing.T) {
	failures := func(n, size int) (all []ci.Failure) {
		for i := range n {
			all = append(all, ci.Failure{Name: fmt.Sprintf("t%d", i), Message: strings.Repeat("é", size)})
		}
		return all
	}
	for name, c := range map[string]struct {
		failures []ci.Failure
		kept     int // failures
		message  int // characters of the first one's message
		summary  string
	}{
		"small":          {failures(3, 100), 3, 100, "sum"},
		"long messages":  {failures(100, 8000), 100, 2000, "sum"},
		"many":           {failures(1000, 3000), 1000, 80, "sum"},
		"more than many": {failures(9000, 200), 3796, 80, "sum; 5204 of 9000 failures are left out"},
	} {
		t.Run(name, func(t *testing.T) {
			body, r, err := ci.Encode(ci.Result{Status: "failure", Summary: "sum", Failures: c.failures})
			if err != nil || len(body) > ci.MaxEncoded || !json.Valid(body) {
				t.Fatalf("Encode = %d bytes, %v, want valid JSON of at most %d", len(body), err, ci.MaxEncoded)
			}
			if got := len([]rune(r.Failures[0].Message)); len(r.Failures) != c.kept || got != c.message || r.Summary != c.summary {
				t.Errorf("Encode kept %d failures, %d characters of the first, summary %q; want %d, %d, %q", len(r.Failures), got, r.Summary, c.kept, c.message, c.summary)
			}
		})
	}
	if _, _, err := ci.Encode(ci.Result{Summary: strings.Repeat("x", 1<<20)}); !errors.Is(err, ci.ErrTooLarge) {
		t.Errorf("Encode of a long summary = %v, want ErrTooLarge", err)
	}
	// The output of programs may not be valid UTF-8: it is stored all the same.
	if body, _, err := ci.Encode(ci.Result{Summary: "\xff"}); err != nil || !json.Valid(body) {
		t.Errorf("Encode of invalid UTF-8 = %s, %v, want JSON", body, err)
	}
}
