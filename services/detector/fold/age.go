package fold

import (
	"math"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

const (
	// youngFor is how long after its first event an app is young.
	youngFor = 10 * time.Minute
	// historyFor is how long after its last event an app keeps its history.
	historyFor = 24 * time.Hour
)

// age is how long an app has been known.
type age struct {
	// first and last are when its first and its newest event came.
	first, last time.Time
	// grown reports whether the app is no longer young, and raised whether it has raised an
	// alert.
	grown, raised bool
	// number is how many apps the fold had seen with this one: the newer of two apps has
	// the higher one.
	number uint64
}

// young reports whether the app is in its first 10 min.
func (a *app) young() bool { return !a.age.grown }

// addEvent records an event, and reports whether the app ceases to be young with it.
func (a *age) addEvent(now time.Time) (grown bool) {
	if now.Before(a.last) { // a clock was set back, and the app is as old as it was
		a.first = a.first.Add(now.Sub(a.last))
	}
	a.last = now
	if a.grown || now.Sub(a.first) < youngFor {
		return false
	}
	a.grown = true
	return true
}

// hasHistory reports whether the app has history, unless it is silent for long: it has raised an
// alert, or its events span more than 10 min.
func (a *age) hasHistory() bool { return a.raised || a.last.Sub(a.first) > youngFor }

// silent reports whether the app has had no event for so long that it has no history.
func (a *age) silent(now time.Time) bool { return now.Sub(a.last) >= historyFor }

func (a *age) state(s *snapshot.State) {
	s.Time(1, &a.first)
	s.Time(2, &a.last)
	s.Bool(3, &a.grown)
	s.Bool(4, &a.raised)
	snapshot.Uint(s, 5, &a.number, math.MaxUint64)
}
