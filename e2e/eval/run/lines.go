package run

import (
	"maps"
	"slices"

	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Hidden counts how many Of some events were hidden.
type Hidden struct{ Hidden, Of int }

// Share returns the share that was hidden, or 0 if there were no events.
func (h Hidden) Share() float64 {
	if h.Of == 0 {
		return 0
	}
	return float64(h.Hidden) / float64(h.Of)
}

// Lines counts the events of a run by class: all of them, and those after the time in which
// chatter is learned.
type Lines struct {
	All, Learned map[workload.Class]Hidden
}

// Hide counts the events that a detector with those rules hides in a run of lines.
func Hide(r *workload.Run, set ruleset.Set) Lines {
	d := newDetector(set)
	l := Lines{All: map[workload.Class]Hidden{}, Learned: map[workload.Class]Hidden{}}
	before := uint64(0)
	for i := range r.Arrivals {
		a := &r.Arrivals[i]
		d.apply(a)
		after := d.fold.Stats().Hidden
		l.count(a, after > before)
		before = after
	}
	return l
}

// count counts one event.
func (l *Lines) count(a *workload.Arrival, hidden bool) {
	one, class := Hidden{Of: 1}, a.Class
	if hidden {
		one.Hidden = 1
	}
	if class.Chatter() && a.Event.Log.Level == telemetry.LevelWarn {
		class = workload.OfWarnings
	}
	l.All[class] = l.All[class].Plus(one)
	if a.At >= workload.LearnLines {
		l.Learned[class] = l.Learned[class].Plus(one)
	}
}

// Plus returns the sum of both.
func (h Hidden) Plus(o Hidden) Hidden { return Hidden{h.Hidden + o.Hidden, h.Of + o.Of} }

// Add adds the counts of another run.
func (l *Lines) Add(o Lines) {
	if l.All == nil {
		l.All, l.Learned = map[workload.Class]Hidden{}, map[workload.Class]Hidden{}
	}
	for c, h := range o.All {
		l.All[c] = l.All[c].Plus(h)
	}
	for c, h := range o.Learned {
		l.Learned[c] = l.Learned[c].Plus(h)
	}
}

// Classes returns the classes of the events, sorted.
func (l *Lines) Classes() []workload.Class { return slices.Sorted(maps.Keys(l.All)) }

// Chatter counts the chatter of all shapes, and the part after the time in which it is
// learned.
func (l *Lines) Chatter() (all, learned Hidden) {
	for _, class := range l.Classes() {
		if class.Chatter() {
			all, learned = all.Plus(l.All[class]), learned.Plus(l.Learned[class])
		}
	}
	return all, learned
}
