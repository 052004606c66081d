package finding

import (
	"slices"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// MaxOpen is how many alerts of one thing are open at most: as many as one end
	// can name. Past it the oldest is forgotten, but never the one that the end
	// names first.
	MaxOpen = 1 + alert.MaxAlsoResolves

	// Size is about what an Open takes that holds one alert at most, in bytes.
	Size = 24 + opened
	// MaxSize is about what one takes that is full.
	MaxSize = 24 + MaxOpen*opened
	opened  = 64

	// maxID is the longest alert id in a snapshot, in bytes.
	maxID = 64
)

// Open is the alerts of one thing that are not over, the oldest first. The zero
// value is none.
type Open struct{ told []told }

type told struct {
	id       string
	severity alert.Severity
	// apart says that it was told under another dedup key than what is told from now
	// on, which therefore doesn't take its place. Only snapshots of version 7 bring it.
	apart bool
}

// Any says whether an alert is open.
func (o *Open) Any() bool { return len(o.told) > 0 }

// Add notes an alert that was told. Copies of o stay as they are.
func (o *Open) Add(id string, severity alert.Severity) {
	o.told = append(slices.Clip(o.told), told{id: id, severity: severity})
	if len(o.told) > MaxOpen {
		oldest := 0
		if o.worst() == oldest {
			oldest++
		}
		o.told = slices.Delete(o.told, oldest, oldest+1)
	}
}

// renew forgets what is told again, of which the newer alert takes the place.
func (o *Open) renew() {
	o.told = slices.DeleteFunc(slices.Clone(o.told), func(t told) bool { return !t.apart })
}

// End has an alert resolve what is open: first of all the most severe, of equals
// the newest, and the others, the oldest first. Without any it stays as it is.
func (o *Open) End(a *alert.Alert) {
	worst := o.worst()
	for i, t := range o.told {
		if i == worst {
			a.Resolves = t.id
		} else {
			a.AlsoResolves = append(a.AlsoResolves, t.id)
		}
	}
}

// worst is the index of the most severe alert, of equals the newest.
func (o *Open) worst() int {
	worst := 0
	for i, t := range o.told {
		if t.severity.Rank() >= o.told[worst].severity.Rank() {
			worst = i
		}
	}
	return worst
}

// State has the alerts that are open.
func (o *Open) State(s *snapshot.State) {
	snapshot.List(s, 1, &o.told, MaxOpen, (*told).state)
}

func (t *told) state(s *snapshot.State) {
	severities := alert.Severities()
	rank := t.severity.Rank()
	s.String(1, &t.id, maxID)
	snapshot.Uint(s, 2, &rank, uint64(len(severities)))
	s.Bool(3, &t.apart)
	if !s.Reading() {
		return
	}
	if t.id == "" || rank < 1 {
		s.Fail("an open alert without an id or a severity")
		return
	}
	t.severity = severities[rank-1]
}
