package run

import (
	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
)

// Rules is a set of rules. Name is the flag's value for the rule that is measured.
type Rules struct {
	Name string
	Set  ruleset.Set
}

// Compared lists the rules that are compared on workloads of a kind, the simple ones first.
func Compared(k workload.Kind) []Rules {
	switch k {
	case workload.Errors:
		return []Rules{
			{ruleset.Ratio3x.String(), ruleset.Set{Anomaly: ruleset.Ratio3x}},
			{ruleset.RateTail.String(), ruleset.Set{Anomaly: ruleset.RateTail}},
		}
	case workload.Loads:
		return []Rules{
			{ruleset.Spec.String(), ruleset.Set{Regression: ruleset.Spec}},
			{ruleset.Confirmed.String(), ruleset.Set{Regression: ruleset.Confirmed}},
		}
	default:
		return []Rules{
			{ruleset.NoiseSpec.String(), ruleset.Set{Noise: ruleset.NoiseSpec}},
			{ruleset.Mined.String(), ruleset.Set{Noise: ruleset.Mined}},
		}
	}
}

// Cell has the results of one set of rules on one workload.
type Cell struct {
	Workload workload.Workload
	Rules    string
	// Events is the number of events that were applied.
	Events int
	// Blocks and Summary are set for errors and page loads, Lines for lines.
	Blocks  []score.Tally
	Summary score.Summary
	Lines   Lines
	// Escalating counts the findings about single errors, by blocks.
	Escalating        []score.Tally
	EscalatingSummary score.Summary
	// Raised is set for pages of the generator workload.Varied.
	Raised Raised
}

// Evaluate applies a workload to a detector for each of the rules that are compared on it.
func Evaluate(w workload.Workload, seeds workload.Seeds) []Cell {
	var cells []Cell
	for _, c := range Compared(w.Kind) {
		cells = append(cells, Cell{Workload: w, Rules: c.Name})
	}
	for i := range w.Runs {
		r := w.Run(seeds, i)
		for n, c := range Compared(w.Kind) {
			cells[n].Events += len(r.Arrivals)
			if w.Kind == workload.Lines {
				cells[n].Lines.Add(Hide(&r, c.Set))
			} else {
				blocks, escalating := Judge(&w, &r, c.Set)
				cells[n].Blocks = append(cells[n].Blocks, blocks...)
				cells[n].Escalating = append(cells[n].Escalating, escalating...)
			}
			if w.Generator == workload.Varied {
				cells[n].Raised.Add(Raise(&r, c.Set))
			}
		}
	}
	for n := range cells {
		cells[n].Summary = score.Summarise(w.Name(), cells[n].Blocks)
		if cells[n].Escalating != nil {
			cells[n].EscalatingSummary = score.Summarise(w.Name(), cells[n].Escalating)
		}
	}
	return cells
}
