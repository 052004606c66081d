package recent

import (
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/ci"
)

// Result is a CI result and when it arrived on the bus.
type Result struct {
	ci.Result
	Received time.Time
}

// maxResults is how many results the stream keeps.
const maxResults = 2 * ci.MaxResults

// Results remembers CI results. The zero value is empty.
type Results struct {
	stored []Result // oldest first
}

// Add adds the next result of the stream.
func (r *Results) Add(result ci.Result, received time.Time) {
	r.stored = append(r.stored, Result{result, received})
	if len(r.stored) > maxResults {
		r.stored = slices.Delete(r.stored, 0, len(r.stored)-maxResults)
	}
}

// Newest returns the results since a time that are not outdated, newest first.
func (r *Results) Newest(since time.Time) []Result {
	newest, _ := ci.Newest(r.stored, func(s Result) ci.Result { return s.Result })
	newest = slices.DeleteFunc(slices.Clone(newest), func(s Result) bool { return s.Received.Before(since) })
	slices.Reverse(newest)
	return newest
}
