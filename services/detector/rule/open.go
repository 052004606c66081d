package rule

import (
	"slices"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// MaxOpen is how many alerts an Open holds: as many as one alert can resolve. Past it
	// the oldest is forgotten, but never the most severe one.
	MaxOpen = 1 + alert.MaxAlsoResolves

	// OpenSize is about what an Open with at most one alert takes, in bytes.
	OpenSize = 24 + alertSize
	// MaxOpenSize is about what a full Open takes, in bytes.
	MaxOpenSize = 24 + MaxOpen*alertSize
	alertSize   = 64

	// maxID is the longest alert id in a snapshot, in bytes.
	maxID = 64
)

// Open holds the open alerts about one subject, such as a circuit breaker, the oldest first.
// The zero value holds none.
type Open struct{ alerts []openAlert }

type openAlert struct {
	id       string
	severity alert.Severity
	// ownKey reports whether later alerts have another dedup key, and so do not replace it.
	// Only snapshots of version 7 have such alerts.
	ownKey bool
}

// Any reports whether an alert is open.
func (o *Open) Any() bool { return len(o.alerts) > 0 }

// Add adds an alert that was published. It does not change copies of o.
func (o *Open) Add(id string, severity alert.Severity) {
	o.alerts = append(slices.Clip(o.alerts), openAlert{id: id, severity: severity})
	if len(o.alerts) > MaxOpen {
		oldest := 0
		if o.mostSevere() == oldest {
			oldest++
		}
		o.alerts = slices.Delete(o.alerts, oldest, oldest+1)
	}
}

// dropReplaced removes the alerts that a newer one replaces.
func (o *Open) dropReplaced() {
	o.alerts = slices.DeleteFunc(slices.Clone(o.alerts), func(a openAlert) bool { return !a.ownKey })
}

// End makes an alert resolve the open ones: first the most severe, of equals the newest,
// then the others, the oldest first.
func (o *Open) End(a *alert.Alert) {
	first := o.mostSevere()
	for i, open := range o.alerts {
		if i == first {
			a.Resolves = open.id
		} else {
			a.AlsoResolves = append(a.AlsoResolves, open.id)
		}
	}
}

// mostSevere returns the index of the most severe alert, of equals the newest.
func (o *Open) mostSevere() int {
	worst := 0
	for i, a := range o.alerts {
		if a.severity.Rank() >= o.alerts[worst].severity.Rank() {
			worst = i
		}
	}
	return worst
}

// State reads or writes the open alerts.
func (o *Open) State(s *snapshot.Codec) {
	snapshot.List(s, 1, &o.alerts, MaxOpen, (*openAlert).state)
}

func (a *openAlert) state(s *snapshot.Codec) {
	severities := alert.Severities()
	rank := a.severity.Rank()
	s.String(1, &a.id, maxID)
	snapshot.Uint(s, 2, &rank, uint64(len(severities)))
	s.Bool(3, &a.ownKey)
	if !s.Reading() {
		return
	}
	if a.id == "" || rank < 1 {
		s.Fail("an open alert without an id or a severity")
		return
	}
	a.severity = severities[rank-1]
}
