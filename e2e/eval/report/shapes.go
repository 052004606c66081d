package report

import (
	"github.com/tocsin-bus/tocsin/e2e/eval/run"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
)

// The shapes of errors that have targets of their own.
var (
	outages  = generator("outages")
	restarts = generator("restarts")
	wanders  = generator("wander", "wander+rises")
	rises    = generator("rises")
	repeated = generator("office hours", "retries")
	shapes   = generator("outages", "restarts", "wander", "wander+rises", "rises", "office hours", "retries")
	// slowRises are rises of rates that wander slowly. For a rate that wanders within the
	// length of a rise, no best possible recall is known.
	slowRises = named("wander+rises 1/s, sd 0.5 in 300 s", "wander+rises 5/s, sd 0.3 in 60 s")
)

// mostFalse returns how many false alerts a day a workload of errors may have.
func mostFalse(c *run.Cell) float64 {
	switch {
	case clustered(c):
		return 24
	case outages(c):
		return 0
	case restarts(c):
		return 8
	case wanders(c):
		return 3
	case repeated(c):
		return 2
	}
	return 1
}

// leastRecall returns the target of a workload of errors for its recall. any is false if
// there is none.
func leastRecall(c *run.Cell) (least float64, any bool) {
	switch {
	case generator("bursts")(c), slowRises(c):
		return 0.95, true
	case outages(c):
		return 1, true
	case rises(c):
		return 0.99, true
	}
	return 0, false
}

// shapeQuestions returns the questions about the shapes.
func shapeQuestions() []question {
	ratio, tail := ruleset.Ratio3x.String(), ruleset.RateTail.String()
	perDayOf := func(what, target string, fits func(*run.Cell) bool, met func(float64) bool) question {
		return question{"`rate-tail`: false alerts an app-day, " + what, target, tail, ratio, fits, perDay, more, met, nil}
	}
	recallOf := func(what, target string, fits func(*run.Cell) bool, met func(float64) bool) question {
		return question{"`rate-tail`: recall of " + what, target, tail, ratio, fits, recall, less, met, nil}
	}
	return []question{
		perDayOf("recurring outages", "none", outages, atMost(0)),
		recallOf("recurring outages", "all", outages, atLeast(1)),
		perDayOf("rolling restarts, which are 6.9 a day", "under 8", restarts, under(8)),
		perDayOf("a rate that wanders", "under 3", wanders, under(3)),
		recallOf("rises to 4 times for 60 s, of a rate that wanders in 300 s (in 15 s) or 60 s", "at least 0.95", slowRises, atLeast(0.95)),
		perDayOf("steady rates with small rises", "at most 1", rises, atMost(1)),
		recallOf("a doubling of 10/s for 30 s, and 1.5 times 50/s for 60 s", "at least 0.99", rises, atLeast(0.99)),
		perDayOf("office hours, and clients that retry", "at most 2", repeated, atMost(2)),
	}
}

// describeShapes explains the shapes.
const describeShapes = `
Streams of users (recurring outages, rolling restarts, wandering rates) have 3 runs of %d h. A rise at 1/s is found if an alert is raised within
15 s of its start; other rises and outages, while they last. A restart is no episode: all of its alerts count as false.
`

func (r *Results) hasShapes() bool {
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Workload.Kind == workload.Errors && shapes(c) {
			return true
		}
	}
	return false
}
