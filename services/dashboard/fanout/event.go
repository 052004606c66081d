// Package fanout hands each alert to all who read along. The newest alerts are kept
// once for all, with a bound, and each reader takes them from there at its own pace.
// Who falls behind by more than is kept loses what has gone, is told how much that
// was, and slows nobody.
//
// One loop owns it; what it shows to readers never changes. The package knows no HTTP
// and no bus.
package fanout

import (
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Event is one alert, encoded once for all readers. It never changes.
type Event struct {
	// Seq is its place in the stream, Time the bus's stamp.
	Seq  uint64
	Time time.Time
	// Frame is what is written to a reader, Data the alert's JSON within it.
	Frame, Data []byte

	App      string
	Category alert.Category
	Severity alert.Severity
}

// Filter says which alerts a reader wants. The zero value wants all.
type Filter struct {
	// Apps and Categories are exact; empty means all.
	Apps       []string
	Categories []alert.Category
	// MinRank is the least rank of the severity.
	MinRank int
}

// Wants says whether the alert passes.
func (f Filter) Wants(e *Event) bool {
	return e.Severity.Rank() >= f.MinRank &&
		(len(f.Categories) == 0 || slices.Contains(f.Categories, e.Category)) &&
		(len(f.Apps) == 0 || slices.Contains(f.Apps, e.App))
}

// Wanted are those of a list that pass.
func (f Filter) Wanted(list []*Event) []*Event {
	var wanted []*Event
	for _, e := range list {
		if f.Wants(e) {
			wanted = append(wanted, e)
		}
	}
	return wanted
}
