package run

import (
	"slices"

	"github.com/tocsin-bus/tocsin/e2e/eval/nab"
	"github.com/tocsin-bus/tocsin/e2e/eval/tcpd"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
)

// NABScore is the score of one set of rules on the NAB corpus.
type NABScore struct {
	// As is the kind of telemetry that the values became. Series is the number of series
	// for which that is possible.
	As, Rules string
	Series    int
	// Scores are normalised, in the order of nab.Profiles.
	Scores []float64
	// Detections counts the findings that were opened after probation.
	Detections int
}

// feeds lists how numbers become telemetry, and for which series that is possible.
var feeds = []struct {
	as       string
	kind     workload.Kind
	possible func([]float64) bool
}{
	{"page loads", workload.Loads, func([]float64) bool { return true }},
	{"errors", workload.Errors, Counts},
}

// found returns the observations at which rules open a finding.
func found(kind workload.Kind, values []float64, first int, rules Rules) []int {
	if kind == workload.Loads {
		return AsLoads(values, first, rules.Set)
	}
	return AsErrors(values, first, rules.Set)
}

// NAB scores rules on the corpus: each value as a page load, and counts as errors. The rows
// on probation show the usual size.
func NAB(corpus []nab.Series) []NABScore {
	var scores []NABScore
	for _, feed := range feeds {
		var fit []nab.Series
		for _, s := range corpus {
			if feed.possible(s.Values) {
				fit = append(fit, s)
			}
		}
		for _, rules := range Compared(feed.kind) {
			score := NABScore{As: feed.as, Rules: rules.Name, Series: len(fit)}
			var detected [][]bool
			for _, s := range fit {
				rows := make([]bool, len(s.Values))
				probation := nab.Probation(len(s.Values))
				for _, row := range found(feed.kind, s.Values, probation, rules) {
					rows[row] = true
					if row >= probation {
						score.Detections++
					}
				}
				detected = append(detected, rows)
			}
			for _, p := range nab.Profiles() {
				score.Scores = append(score.Scores, p.Normalised(fit, detected))
			}
			scores = append(scores, score)
		}
	}
	return scores
}

// TCPDScore is the score of one set of rules on TCPD, as averages over the series.
type TCPDScore struct {
	As, Rules    string
	Series       int
	F1, Covering float64
	// ChangePoints is the number of change points found.
	ChangePoints int
}

// firstObservations is the number of observations that show the usual size of a series of
// TCPD, which has no probation.
const firstObservations = 10

// TCPD scores rules on the dataset, as [NAB] does. A finding in any dimension of a series
// counts.
func TCPD(dataset []tcpd.Series) []TCPDScore {
	var scores []TCPDScore
	for _, feed := range feeds {
		for _, rules := range Compared(feed.kind) {
			score := TCPDScore{As: feed.as, Rules: rules.Name}
			for i := range dataset {
				s := &dataset[i]
				if !all(s.Values, feed.possible) {
					continue
				}
				var at []int
				for _, dimension := range s.Values {
					at = append(at, found(feed.kind, dimension, firstObservations, rules)...)
				}
				slices.Sort(at)
				at = slices.Compact(at)
				score.Series++
				score.ChangePoints += len(at)
				score.F1 += tcpd.F1(s, at)
				score.Covering += tcpd.Covering(s, at)
			}
			if n := float64(score.Series); n > 0 {
				score.F1, score.Covering = score.F1/n, score.Covering/n
			}
			scores = append(scores, score)
		}
	}
	return scores
}

func all(dimensions [][]float64, possible func([]float64) bool) bool {
	return !slices.ContainsFunc(dimensions, func(values []float64) bool { return !possible(values) })
}
