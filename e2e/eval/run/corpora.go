package run

import (
	"slices"

	"github.com/tocsin-bus/tocsin/e2e/eval/nab"
	"github.com/tocsin-bus/tocsin/e2e/eval/tcpd"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
)

// NABScore is the score of one set of rules on the NAB corpus.
type NABScore struct {
	// As is what the values were fed as, Series the number of those that could be.
	As, Rules string
	Series    int
	// Scores are normalised, in the order of nab.Profiles.
	Scores []float64
	// Detections counts the findings that were opened after probation.
	Detections int
}

// feeds are the ways to feed numbers as telemetry.
var feeds = []struct {
	as   string
	kind workload.Kind
	can  func([]float64) bool
}{
	{"page loads", workload.Loads, func([]float64) bool { return true }},
	{"errors", workload.Errors, Counts},
}

// found returns the observations at which rules that are compared on a kind find something.
func found(kind workload.Kind, values []float64, first int, rules Rules) []int {
	if kind == workload.Loads {
		return AsLoads(values, first, rules.Set)
	}
	return AsErrors(values, first, rules.Set)
}

// NAB scores all rules that can be given numbers on the corpus: each value as a page load,
// and counts as errors. The rows on probation show what is usual.
func NAB(corpus []nab.Series) []NABScore {
	var scores []NABScore
	for _, feed := range feeds {
		var fit []nab.Series
		for _, s := range corpus {
			if feed.can(s.Values) {
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

// TCPDScore is what one set of rules scores on TCPD: averages over the series.
type TCPDScore struct {
	As, Rules    string
	Series       int
	F1, Covering float64
	// ChangePoints is how many were found.
	ChangePoints int
}

// firstObservations is how many observations show what is usual in a series of TCPD, which
// has no probation.
const firstObservations = 10

// TCPD scores all rules on the dataset as NAB does on that corpus. A finding in any
// dimension of a series counts.
func TCPD(dataset []tcpd.Series) []TCPDScore {
	var scores []TCPDScore
	for _, feed := range feeds {
		for _, rules := range Compared(feed.kind) {
			score := TCPDScore{As: feed.as, Rules: rules.Name}
			for i := range dataset {
				s := &dataset[i]
				if !all(s.Values, feed.can) {
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

func all(dimensions [][]float64, can func([]float64) bool) bool {
	return !slices.ContainsFunc(dimensions, func(values []float64) bool { return !can(values) })
}
