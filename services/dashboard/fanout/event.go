// Package fanout passes each alert to all readers. It keeps the newest alerts once, up to a
// bound, and each reader takes them at its own pace. A reader that falls behind by more
// than is kept misses alerts, learns how many, and delays no other reader.
//
// One loop owns the state, and readers see immutable snapshots. The package knows no HTTP
// and no bus.
package fanout

import (
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Event is one alert, encoded once for all readers. It never changes.
type Event struct {
	// Seq is its sequence in the stream, Time when the bus stored it.
	Seq  uint64
	Time time.Time
	// Frame is the server-sent event that is written to readers, Data the alert's JSON in it.
	Frame, Data []byte

	App      string
	Category alert.Category
	Severity alert.Severity
}

// Filter selects alerts. The zero value selects all.
type Filter struct {
	// Apps and Categories are matched exactly; empty means all.
	Apps       []string
	Categories []alert.Category
	// MinRank is the minimum rank of the severity.
	MinRank int
}

// Matches reports whether an alert matches.
func (f Filter) Matches(e *Event) bool {
	return e.Severity.Rank() >= f.MinRank &&
		(len(f.Categories) == 0 || slices.Contains(f.Categories, e.Category)) &&
		(len(f.Apps) == 0 || slices.Contains(f.Apps, e.App))
}

// Select returns the alerts that match.
func (f Filter) Select(list []*Event) []*Event {
	var selected []*Event
	for _, e := range list {
		if f.Matches(e) {
			selected = append(selected, e)
		}
	}
	return selected
}
