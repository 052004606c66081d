package regression

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/changepoint"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// An incident becomes the new level after newLevelLoads loads and newLevelLeast (a busy
// page has 20 loads in seconds), or after newLevelTime and newLevelFew loads.
const (
	newLevelLoads, newLevelFew  = 20, 3
	newLevelLeast, newLevelTime = time.Minute, 15 * time.Minute
)

// newLevelAfter returns the number of loads after which an incident of an age is a new
// level. few applies once it is older than newLevelTime.
func newLevelAfter(age time.Duration, few int) int {
	switch {
	case age >= newLevelTime:
		return few
	case age >= newLevelLeast:
		return newLevelLoads
	default: // more than an incident counts
		return changepoint.NeverSettle
	}
}

// incident is an open regression of the rule Pages. It is measured against the baseline
// before it, because slow loads join the window and raise its median.
type incident struct {
	before reference
	// least is the least value over the baseline before.
	least int64
	// since is the time of its first load. If it is zero, the next load sets it.
	since time.Time
	// loads counts its loads, up to newLevelLoads. back counts the newest of them in a row
	// that were not over the baseline before.
	loads, back int
	// end is how it ended, until the end was published.
	end incidentEnd
}

// incidentSize is about what an incident takes, in bytes.
const incidentSize = 96

type incidentEnd uint8

const (
	goesOn incidentEnd = iota
	isResolved
	isNewLevel
)

// surelyBack is how many loads in a row that are not over the baseline resolve an incident,
// even if none of them is clearly as fast as before.
const surelyBack = 3

// take adds a load and returns the state of the incident.
func (i *incident) take(m *metric, units int64, now time.Time) incidentEnd {
	if i.end != goesOn {
		return i.end
	}
	if i.since.IsZero() || now.Before(i.since) {
		i.since = now
	}
	slow := m.over(units, &i.before)
	i.loads = min(i.loads+1, newLevelLoads)
	switch {
	case slow:
		i.least, i.back = min(i.least, units), 0
		if i.loads >= newLevelAfter(now.Sub(i.since), newLevelFew) {
			i.end = isNewLevel
		}
	case i.isBack(units):
		i.end = isResolved
	default:
		i.back++
		if i.back >= surelyBack || i.back >= i.loads-i.back {
			i.end = isResolved
		}
	}
	return i.end
}

// isBack reports whether a load that is not over is within an eighth of the way from the
// baseline before to the level of the incident. Where loads vary, one that is only just not
// over may belong to the incident.
func (i *incident) isBack(units int64) bool {
	return 8*(2*units-i.before.double) <= 2*i.least-i.before.double
}

// resume begins an incident for open alerts without one, as in snapshots before version 8.
// Most loads of the window are from before it: otherwise the median would have ended it.
func (w *window) resume() {
	b := w.baseline()
	w.incident = &incident{before: b.reference(), least: max(b.sorted[w.n-1], b.double/2), loads: 1}
}

func (i *incident) state(s *snapshot.Codec) {
	const most = maxValue * shift
	snapshot.Uint(s, 1, &i.before.loads, Loads)
	snapshot.Uint(s, 2, &i.before.double, 2*most)
	snapshot.Uint(s, 3, &i.before.spread, 4*most)
	snapshot.Uint(s, 4, &i.least, most)
	s.Time(5, &i.since)
	snapshot.Uint(s, 6, &i.loads, newLevelLoads)
	snapshot.Uint(s, 7, &i.back, surelyBack)
	snapshot.Uint(s, 8, &i.end, uint64(isNewLevel))
}
