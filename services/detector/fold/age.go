package fold

import (
	"math"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

const (
	// youngPeriod is how long after its first event an app is young.
	youngPeriod = 10 * time.Minute
	// historyPeriod is how long after its last event an app keeps its history.
	historyPeriod = 24 * time.Hour
)

// age is what the fold knows about how long an app exists.
type age struct {
	// first and last are the times of its first and its newest event.
	first, last time.Time
	// grown reports whether the app is no longer young, and hasRaised whether it has raised
	// an alert.
	grown, hasRaised bool
	// number is the app's rank in the order of creation, from 1.
	number uint64
}

// isYoung reports whether the app is in its first 10 min.
func (a *app) isYoung() bool { return !a.age.grown }

// addEvent records an event, and reports whether the app is no longer young from then on.
func (a *age) addEvent(now time.Time) (grown bool) {
	if now.Before(a.last) { // a clock was set back, and the app is as old as it was
		a.first = a.first.Add(now.Sub(a.last))
	}
	a.last = now
	if a.grown || now.Sub(a.first) < youngPeriod {
		return false
	}
	a.grown = true
	return true
}

// hasHistory reports whether the app has raised an alert, or its events span more than 10
// min. It does not examine whether the history has expired.
func (a *age) hasHistory() bool { return a.hasRaised || a.last.Sub(a.first) > youngPeriod }

// isExpired reports whether the app has had no event for 24 h.
func (a *age) isExpired(now time.Time) bool { return now.Sub(a.last) >= historyPeriod }

func (a *age) state(s *snapshot.Codec) {
	s.Time(1, &a.first)
	s.Time(2, &a.last)
	s.Bool(3, &a.grown)
	s.Bool(4, &a.hasRaised)
	snapshot.Uint(s, 5, &a.number, math.MaxUint64)
}
