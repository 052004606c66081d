package rule

import (
	"slices"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// MaxOpen is how many alerts of one thing are open at most: as many as one end can
	// name. Past it the oldest is forgotten, but never the one that the end names first.
	MaxOpen = 1 + alert.MaxAlsoResolves

	// OpenSize is about what an Open takes that holds one alert at most, in bytes.
	OpenSize = 24 + alertSize
	// MaxOpenSize is about what one takes that is full.
	MaxOpenSize = 24 + MaxOpen*alertSize
	alertSize   = 64

	// maxID is the longest alert id in a snapshot, in bytes.
	maxID = 64
)

// Open is the alerts of one thing that are open, the oldest first. The zero value is
// none.
type Open struct{ alerts []openAlert }

type openAlert struct {
	id       string
	severity alert.Severity
	// apart reports whether it has another dedup key than later alerts, which therefore
	// don't replace it. Only snapshots of version 7 have such alerts.
	apart bool
}

// Any reports whether an alert is open.
func (o *Open) Any() bool { return len(o.alerts) > 0 }

// Add notes an alert that was published. Copies of o stay as they are.
func (o *Open) Add(id string, severity alert.Severity) {
	o.alerts = append(slices.Clip(o.alerts), openAlert{id: id, severity: severity})
	if len(o.alerts) > MaxOpen {
		oldest := 0
		if o.worst() == oldest {
			oldest++
		}
		o.alerts = slices.Delete(o.alerts, oldest, oldest+1)
	}
}

// renew forgets the alerts that a newer one replaces.
func (o *Open) renew() {
	o.alerts = slices.DeleteFunc(slices.Clone(o.alerts), func(a openAlert) bool { return !a.apart })
}

// End makes an alert resolve what is open: first the most severe, of equals the newest,
// then the others, the oldest first.
func (o *Open) End(a *alert.Alert) {
	worst := o.worst()
	for i, open := range o.alerts {
		if i == worst {
			a.Resolves = open.id
		} else {
			a.AlsoResolves = append(a.AlsoResolves, open.id)
		}
	}
}

// worst returns the index of the most severe alert, of equals the newest.
func (o *Open) worst() int {
	worst := 0
	for i, a := range o.alerts {
		if a.severity.Rank() >= o.alerts[worst].severity.Rank() {
			worst = i
		}
	}
	return worst
}

// State has the alerts that are open.
func (o *Open) State(s *snapshot.State) {
	snapshot.List(s, 1, &o.alerts, MaxOpen, (*openAlert).state)
}

func (a *openAlert) state(s *snapshot.State) {
	severities := alert.Severities()
	rank := a.severity.Rank()
	s.String(1, &a.id, maxID)
	snapshot.Uint(s, 2, &rank, uint64(len(severities)))
	s.Bool(3, &a.apart)
	if !s.Reading() {
		return
	}
	if a.id == "" || rank < 1 {
		s.Fail("an open alert without an id or a severity")
		return
	}
	a.severity = severities[rank-1]
}
