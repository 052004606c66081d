package ci

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// MaxEncoded is how large a result is at most where it is posted and where it is
// stored, in bytes: below the largest message that a NATS server takes by
// default.
const MaxEncoded = 900 << 10

// ErrTooLarge is returned for a result that is over MaxEncoded even without its failures.
var ErrTooLarge = errors.New("the result is too large")

// failureLimits are the lengths to which the names and messages of failures are
// truncated, in characters, one after the other until a result fits.
var failureLimits = [...]int{2000, 500, 80}

// Encode writes a result as JSON of at most MaxEncoded bytes, and returns it as
// it was written. Where it is too large, the texts of its failures are truncated in
// place; then the last failures are left out, and the summary counts them.
// Secrets must be masked before: a truncated secret is not recognized.
func Encode(r Result) ([]byte, Result, error) {
	summary, all := r.Summary, len(r.Failures)
	for step := 0; ; step++ {
		data, err := json.Marshal(r, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return nil, r, fmt.Errorf("encode the CI result: %w", err)
		}
		switch {
		case len(data) <= MaxEncoded:
			return data, r, nil
		case step < len(failureLimits):
			for i := range r.Failures {
				f := &r.Failures[i]
				f.Name, f.Message = sanitize.Cut(f.Name, failureLimits[step]), sanitize.Cut(f.Message, failureLimits[step])
			}
		case len(r.Failures) > 0:
			r.Failures = r.Failures[:len(r.Failures)*3/4]
			r.Summary = strings.TrimPrefix(fmt.Sprintf("%s; %d of %d failures are left out", summary, all-len(r.Failures), all), "; ")
		default:
			return nil, r, fmt.Errorf("%w: over %d bytes even without its failures", ErrTooLarge, MaxEncoded)
		}
	}
}
