package fold

import (
	"math"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

const (
	// youth is how long an app is young, from its first event on.
	youth = 10 * time.Minute
	// forgetful is how long an app without events keeps its history.
	forgetful = 24 * time.Hour
)

// age is how long an app has been known.
type age struct {
	// first and last are when its first and its newest event came.
	first, last time.Time
	// grown reports whether the app is no longer young, raised whether it has raised an
	// alert.
	grown, raised bool
	// number is the number of apps before it: the newer of two has the higher one.
	number uint64
}

// young reports whether the app is in its first 10 min.
func (a *app) young() bool { return !a.age.grown }

// seen notes an event, and reports whether the app ceases to be young with it.
func (a *age) seen(now time.Time) (grown bool) {
	if now.Before(a.last) { // a clock was set back, and the app is as old as it was
		a.first = a.first.Add(now.Sub(a.last))
	}
	a.last = now
	if a.grown || now.Sub(a.first) < youth {
		return false
	}
	a.grown = true
	return true
}

// known reports whether the app has history, unless it is silent for long: it has raised an
// alert, or its events span more than 10 min.
func (a *age) known() bool { return a.raised || a.last.Sub(a.first) > youth }

// silent reports whether the app has had no event for so long that it has no history.
func (a *age) silent(now time.Time) bool { return now.Sub(a.last) >= forgetful }

func (a *age) state(s *snapshot.State) {
	s.Time(1, &a.first)
	s.Time(2, &a.last)
	s.Bool(3, &a.grown)
	s.Bool(4, &a.raised)
	snapshot.Uint(s, 5, &a.number, math.MaxUint64)
}
