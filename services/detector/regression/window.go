package regression

import (
	"slices"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

const (
	// Loads is the number of loads in a baseline.
	Loads = 20
	// minSpread is the number of loads from which on the spread is part of the rule.
	minSpread = 5
)

// window holds the last loads of one metric on one page, in whole units.
type window struct {
	values [Loads]int64
	n      int // how many of values are in use
	next   int // index of the next load: that of the oldest, once the window is full
	open   rule.Open
	// incident is the open regression, or one whose end was not published yet, or nil.
	incident *incident
}

func (w *window) add(v int64) {
	w.values[w.next] = v
	w.next = (w.next + 1) % Loads
	w.n = min(w.n+1, Loads)
}

// baseline is the median of sorted loads.
type baseline struct {
	sorted [Loads]int64
	loads  int
	double int64 // twice the median, which is a whole number
}

// reference is a baseline reduced to what comparisons need.
type reference struct {
	loads          int
	double, spread int64 // as in baseline
}

func (b *baseline) reference() reference {
	if b.loads == 0 {
		return reference{}
	}
	return reference{loads: b.loads, double: b.double, spread: b.spread()}
}

func (w *window) baseline() baseline {
	b := baseline{sorted: w.values, loads: w.n}
	if w.n > 0 {
		slices.Sort(b.sorted[:w.n])
		b.double = double(b.sorted[:w.n])
	}
	return b
}

// spread returns four times the median absolute deviation, which is a whole number.
func (b *baseline) spread() int64 {
	deviations := b.sorted
	for i, v := range deviations[:b.loads] {
		deviations[i] = max(2*v-b.double, b.double-2*v)
	}
	slices.Sort(deviations[:b.loads])
	return double(deviations[:b.loads])
}

// double returns twice the median of sorted values.
func double(sorted []int64) int64 {
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return 2 * sorted[middle]
	}
	return sorted[middle-1] + sorted[middle]
}

// keep drops all but the newest loads.
func (w *window) keep(newest int) {
	values := w.oldestFirst()
	w.n, w.next = 0, 0
	for _, v := range values[max(len(values)-newest, 0):] {
		w.add(v)
	}
}

// oldestFirst returns the loads.
func (w *window) oldestFirst() []int64 { return w.appendTo(nil) }

// appendTo appends the loads, the oldest first.
func (w *window) appendTo(loads []int64) []int64 {
	for i := range w.n {
		loads = append(loads, w.values[(w.next-w.n+i+Loads)%Loads])
	}
	return loads
}

// state writes or reads the loads, the oldest first, the open alerts and the incident.
func (w *window) state(s *snapshot.Codec) {
	var room [Loads]int64
	loads := room[:0]
	if !s.Reading() {
		loads = w.appendTo(loads)
	}
	loads = snapshot.Packed(s, 1, loads, Loads, maxValue*shift)
	snapshot.Message(s, 2, &w.open, (*rule.Open).State)
	snapshot.Optional(s, 3, &w.incident, (*incident).state)
	if s.Reading() {
		if len(loads) == 0 {
			s.Fail("a metric without loads")
		}
		for _, v := range loads {
			w.add(v)
		}
	}
}
