// Package workload generates streams of telemetry with known incidents: error lines of
// steady, clustered, recurring and drifting services, page loads before and after deploys,
// and chatter. Each stream lists its episodes: the incidents that a detector should find.
//
// A stream depends only on its workload's name, the seeds and the run's number, so it is
// the same on every machine. There are two families of seeds: rules are tuned on Tuning, and
// published figures are measured on Frozen. The package knows no detector and no clock.
// Times count from the beginning of a run, in whole milliseconds, like the bus's stamps.
package workload

import (
	"cmp"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Seeds is a family of seeds.
type Seeds uint64

// The families. Frozen never changes, and nothing is tuned on it: a bad figure is improved by
// tuning on Tuning.
const (
	Tuning Seeds = 0x7475_6e69_6e67_0001
	Frozen Seeds = 0x6672_6f7a_656e_0001
)

// App is the app of every event. Each run has a detector of its own.
const App = "shop"

// Kind is the kind of a workload's events, which decides the rules that are measured.
type Kind int

// The kinds of workloads.
const (
	// Errors are log lines of level error, for the error-spike rules.
	Errors Kind = iota
	// Loads are page loads, for the regression rules.
	Loads
	// Lines are log lines and health checks, for the noise rules.
	Lines
)

// Arrival is an event and its time.
type Arrival struct {
	At time.Duration
	// Event may be shared with other arrivals; do not change it.
	Event *telemetry.Event
	// Class is the class of the event, in workloads of Lines.
	Class Class
}

// Episode is an incident that should be found.
type Episode struct {
	Kind string
	// A finding from Start to End is in time.
	Start, End time.Duration
	// Grace is the time after End in which a finding is too late, but not false.
	Grace time.Duration
}

// Span is a stretch of a run, both ends included.
type Span struct{ From, To time.Duration }

// Run is one app's stream and its truth.
type Run struct {
	Length time.Duration
	// Arrivals are in order. Equal times are possible.
	Arrivals []Arrival
	// Episodes are in order and don't overlap.
	Episodes []Episode
	// Learning are the first few times of a recurring event, when it cannot be distinguished
	// from an episode yet.
	Learning []Span
}

// Workload is a generator with its parameters: a cell of the evaluation.
type Workload struct {
	// Generator is the family and Cell the parameters: in "bursts 0.5/s", "bursts" and
	// "0.5/s".
	Generator, Cell string
	Kind            Kind
	// Runs is the number of runs, each with a new app.
	Runs int

	make func(r *rand.Rand) Run
}

// Name is unique among All.
func (w Workload) Name() string { return w.Generator + " " + w.Cell }

// Run generates one of the workload's runs.
func (w Workload) Run(seeds Seeds, number int) Run {
	h := fnv.New64a()
	_, _ = h.Write([]byte(w.Name())) // it never fails
	run := w.make(rand.New(rand.NewPCG(uint64(seeds)+uint64(number), h.Sum64())))
	slices.SortStableFunc(run.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return run
}

// Size is the amount of each workload.
type Size struct {
	// Hours is the minimum of simulated hours for each workload of errors. Workloads with
	// rare episodes have more. Reliable figures need at least 60.
	Hours int
	// Pages is the number of pages of each workload of page loads.
	Pages int
	// Chatter is the number of runs of 2 h of each workload of lines.
	Chatter int
}

// Full is the size of the published figures.
var Full = Size{Hours: 240, Pages: 400, Chatter: 3}

// All lists every workload.
func All(size Size) []Workload {
	return slices.Concat(errorWorkloads(size), shapeWorkloads(size), loadWorkloads(size), pageShapeWorkloads(size), lineWorkloads(size))
}

// exponential draws a gap with that mean, at least a millisecond.
func exponential(r *rand.Rand, mean time.Duration) time.Duration {
	return max(time.Millisecond, ms(r.ExpFloat64()*float64(mean)))
}

// uniform draws a time from within [from, to).
func uniform(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + ms(r.Float64()*float64(to-from))
}

// ms cuts to whole milliseconds, as the bus's stamps are cut.
func ms(d float64) time.Duration { return time.Duration(d).Truncate(time.Millisecond) }
