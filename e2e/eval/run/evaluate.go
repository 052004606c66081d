package run

import (
	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/rules"
)

// Rules is a set of rules with the name that the flags have for the one that is
// looked at.
type Rules struct {
	Name string
	Set  rules.Set
}

// Compared lists the rules that are compared on workloads of a kind, the default
// first.
func Compared(k workload.Kind) []Rules {
	switch k {
	case workload.Errors:
		return []Rules{
			{rules.Ratio3x.String(), rules.Set{Anomaly: rules.Ratio3x}},
			{rules.RateTail.String(), rules.Set{Anomaly: rules.RateTail}},
		}
	case workload.Loads:
		return []Rules{
			{rules.Spec.String(), rules.Set{Regression: rules.Spec}},
			{rules.Confirmed.String(), rules.Set{Regression: rules.Confirmed}},
		}
	default:
		return []Rules{
			{rules.NoiseSpec.String(), rules.Set{Noise: rules.NoiseSpec}},
			{rules.Mined.String(), rules.Set{Noise: rules.Mined}},
		}
	}
}

// Cell is what one set of rules made of one workload.
type Cell struct {
	Workload workload.Workload
	Rules    string
	// Events is how many were folded in.
	Events int
	// Blocks and Summary are of errors and page loads, Lines of lines.
	Blocks  []score.Tally
	Summary score.Summary
	Lines   Lines
	// Escalating is what was told of each error by itself.
	Escalating        []score.Tally
	EscalatingSummary score.Summary
	// Raised is of pages of the generator workload.Varied.
	Raised Raised
}

// Evaluate folds a workload into each of the detectors that are compared on it.
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
