package report

import (
	"fmt"
	"slices"

	"github.com/tocsin-bus/tocsin/e2e/eval/run"
	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
)

// figure is a measured value beside its target.
type figure struct {
	what, target, measured string
	// simple is what the simple rules reach.
	simple string
	met    bool
}

func (f figure) verdict() string {
	if f.met {
		return "met"
	}
	return "**missed**"
}

// question asks whether the cells of some rules meet a target. The worst cell counts.
type question struct {
	what, target string
	// rules are measured. simple are the rules that they replace.
	rules, simple string
	fits          func(*run.Cell) bool
	value         func(*score.Summary) score.Estimate
	// worse reports whether a is worse than b.
	worse func(a, b float64) bool
	met   func(float64) bool
	// best returns the best possible value. It is nil if none is known.
	best func(*run.Bound) score.Estimate
}

func less(a, b float64) bool { return a < b }
func more(a, b float64) bool { return a > b }

func atMost(most float64) func(float64) bool   { return func(v float64) bool { return v <= most } }
func atLeast(least float64) func(float64) bool { return func(v float64) bool { return v >= least } }
func under(most float64) func(float64) bool    { return func(v float64) bool { return v < most } }

func perDay(s *score.Summary) score.Estimate { return s.PerDay }
func per100(s *score.Summary) score.Estimate { return s.Per100 }
func recall(s *score.Summary) score.Estimate { return s.Recall }
func p95(s *score.Summary) score.Estimate    { return s.P95 }

func named(names ...string) func(*run.Cell) bool {
	return func(c *run.Cell) bool { return slices.Contains(names, c.Workload.Name()) }
}

func generator(names ...string) func(*run.Cell) bool {
	return func(c *run.Cell) bool { return slices.Contains(names, c.Workload.Generator) }
}

func kind(k workload.Kind) func(*run.Cell) bool {
	return func(c *run.Cell) bool { return c.Workload.Kind == k }
}

func not(fits func(*run.Cell) bool) func(*run.Cell) bool {
	return func(c *run.Cell) bool { return !fits(c) }
}

func both(a, b func(*run.Cell) bool) func(*run.Cell) bool {
	return func(c *run.Cell) bool { return a(c) && b(c) }
}

// clustered selects the workloads that may have more false alerts.
var clustered = generator("clustered", "clustered+bursts")

// questions returns the questions about errors and page loads.
func questions() []question {
	ratio, tail := ruleset.Ratio3x.String(), ruleset.RateTail.String()
	spec, sure := ruleset.Spec.String(), ruleset.Confirmed.String()
	return []question{
		{
			"`rate-tail`: false alerts an app-day, all but clustered errors", "at most 1", tail, ratio,
			both(kind(workload.Errors), both(not(clustered), not(shapes))), perDay, more, atMost(1), nil,
		},
		{"`rate-tail`: false alerts an app-day, clustered errors", "at most 24", tail, ratio, clustered, perDay, more, atMost(24), nil},
		{
			"`rate-tail`: recall of +30 errors in 10 s, up to 2/s", "at least 0.95", tail, ratio, generator("bursts"), recall, less, atLeast(0.95), func(b *run.Bound) score.Estimate { return b.Recall },
		},
		{
			"`rate-tail`: delay p95 of those, in seconds", "under 5", tail, ratio, generator("bursts"), p95, more, under(5), func(b *run.Bound) score.Estimate { return b.P95 },
		},
		{
			"`confirmed`: false alerts in 100 unchanged loads at cv 0.25", "at most 0.5", sure, spec,
			named("unchanged cv 0.25"), per100, more, atMost(0.5), nil,
		},
		{
			"`confirmed`: recall of +30% within 10 loads at cv 0.15", "at least 0.85", sure, spec,
			named("deploy +30%, cv 0.15"), recall, less, atLeast(0.85), nil,
		},
	}
}

// figures returns the figures with a target that was measured.
func (r *Results) figures() []figure {
	var all []figure
	for _, q := range append(questions(), shapeQuestions()...) {
		if measured, met, any := q.answer(r.of(q.rules, q.fits)); any {
			simple, _, _ := q.answer(r.of(q.simple, q.fits))
			if q.best != nil && len(r.Bounds) > 0 {
				possible := 0
				for _, b := range r.Bounds {
					if q.met(q.best(&b).Value) {
						possible++
					}
				}
				measured += fmt.Sprintf("; the best possible in %d of %d", possible, len(r.Bounds))
			}
			all = append(all, figure{q.what, q.target, measured, simple, met})
		}
	}
	return slices.Concat(all, r.pageShapeFigures(), r.noiseFigures())
}

// answer describes in how many cells the target is met, and the worst value. any is
// false without cells.
func (q *question) answer(cells []run.Cell) (measured string, met, any bool) {
	if len(cells) == 0 {
		return "", false, false
	}
	worst, good := &cells[0], 0
	for i := range cells {
		e := q.value(&cells[i].Summary)
		if q.worse(e.Value, q.value(&worst.Summary).Value) {
			worst = &cells[i]
		}
		if e.Known() && q.met(e.Value) {
			good++
		}
	}
	measured = interval(q.value(&worst.Summary))
	if len(cells) > 1 {
		measured = fmt.Sprintf("in %d of %d workloads; at worst %s, %s", good, len(cells), measured, worst.Workload.Name())
	}
	return measured, good == len(cells), true
}

// noiseFigures returns the figures of the noise rules.
func (r *Results) noiseFigures() []figure {
	mined, worst := r.hidden(ruleset.Mined.String())
	spec, worstOfSpec := r.hidden(ruleset.NoiseSpec.String())
	if len(mined.All) == 0 {
		return nil
	}
	hidden := func(l *run.Lines, class workload.Class) string {
		return fmt.Sprintf("%d of %d", l.All[class].Hidden, l.All[class].Of)
	}
	lines := func(l *run.Lines, worst float64) string {
		all, learned := l.Chatter()
		return fmt.Sprintf("%s, after the first 10 min %s; at worst %s", percent(all), percent(learned), percentage(worst))
	}
	chatter, _ := mined.Chatter()
	return []figure{
		{"`mined`: error lines of the app that are hidden", "none", hidden(&mined, workload.OfErrors), hidden(&spec, workload.OfErrors), mined.All[workload.OfErrors].Hidden == 0},
		{"`mined`: repeated warnings during an open error that are hidden", "at most 1%", hidden(&mined, workload.OfWarnings), hidden(&spec, workload.OfWarnings), mined.All[workload.OfWarnings].Share() <= 0.01},
		{"`mined`: other repeated lines that are hidden", "at least 90%", lines(&mined, worst), lines(&spec, worstOfSpec), chatter.Share() >= 0.9},
	}
}

// hidden returns what some rules hid in all workloads of lines together, and the smallest
// share of the chatter that they hid in one of them.
func (r *Results) hidden(rules string) (sum run.Lines, worst float64) {
	worst = 1
	for _, c := range r.of(rules, kind(workload.Lines)) {
		sum.Add(c.Lines)
		all, _ := c.Lines.Chatter()
		worst = min(worst, all.Share())
	}
	return sum, worst
}

// of returns the cells of some rules that fit a filter.
func (r *Results) of(rules string, fits func(*run.Cell) bool) (cells []run.Cell) {
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Rules == rules && fits(c) {
			cells = append(cells, *c)
		}
	}
	return cells
}
