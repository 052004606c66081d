package report

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/tocsin-bus/tocsin/e2e/eval/run"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
)

// shapeTargets are the targets of the rule confirmed on pages that vary: the maximum of
// alerts in 100 unchanged loads, and the minimum share of the pages that became twice as
// slow and are found within 5 loads. 0 is no target.
var shapeTargets = map[string]struct{ alerts, recall float64 }{
	"half from a cache, x2.2, cv 0.1":          {1.5, 0.95},
	"two devices by turns of 15, x1.6, cv 0.1": {2, 0.9},
	"autocorrelated 0.9, cv 0.25":              {1.5, 0.95},
	"one in 15 x5, cv 0.15":                    {1, 0.95},
	"cv 0.35":                                  {1, 0.95},
	"drift +60% in 400 loads, cv 0.15":         {0.5, 0},
	"cv 0.15":                                  {0.5, 0},
}

// shaped selects the workloads of pages that vary.
var shaped = generator(workload.Varied, workload.Doubled)

// shape has the results of some rules on one kind of page.
type shape struct {
	cell, rules     string
	varied, doubled *run.Cell
}

// pageShapes pairs the unchanged pages with those that became twice as slow.
func (r *Results) pageShapes() (all []shape) {
	for i := range r.Cells {
		c := &r.Cells[i]
		if !shaped(c) {
			continue
		}
		s := shape{cell: c.Workload.Cell, rules: c.Rules}
		at := len(all)
		for n := range all {
			if all[n].cell == s.cell && all[n].rules == s.rules {
				at = n
			}
		}
		if at == len(all) {
			all = append(all, s)
		}
		if c.Workload.Generator == workload.Varied {
			all[at].varied = c
		} else {
			all[at].doubled = c
		}
	}
	return all
}

func (s *shape) alerts() string {
	if s.varied == nil {
		return none
	}
	return digits(s.varied.Raised.Per100())
}

func (s *shape) findings() string {
	if s.varied == nil {
		return none
	}
	return interval(s.varied.Summary.Per100)
}

func (s *shape) recall() string {
	if s.doubled == nil {
		return none
	}
	return interval(s.doubled.Summary.Recall)
}

func (r *Results) writePageShapes(b *bytes.Buffer) {
	shapes := r.pageShapes()
	if len(shapes) == 0 {
		return
	}
	b.WriteString(`
## Pages that vary

Pages whose loads do not vary around one median. The events do not give the reason: neither the device nor whether a load was cached. "Alerts" counts
every alert that a reader receives, also in an app's first 10 minutes, and each time that a finding is raised again with more confidence; findings
are counted as above. Recall is within 5 loads, on pages whose loads all take twice as long after a deploy.
`)
	var rows [][]string
	for i := range shapes {
		s := &shapes[i]
		deploys := none
		if s.doubled != nil {
			deploys = strconv.Itoa(s.doubled.Summary.Total.Episodes)
		}
		rows = append(rows, []string{s.cell, s.rules, s.alerts(), s.findings(), s.recall(), deploys})
	}
	table(b, []string{"pages", "rules", "alerts in 100 loads", "false findings in 100 loads", "recall within 5 loads", "deploys"}, rows)
}

// pageShapeFigures returns the figures with a target about pages that vary.
func (r *Results) pageShapeFigures() (all []figure) {
	shapes := r.pageShapes()
	simple := map[string]*shape{}
	for i := range shapes {
		if shapes[i].rules == ruleset.Spec.String() {
			simple[shapes[i].cell] = &shapes[i]
		}
	}
	for i := range shapes {
		s := &shapes[i]
		target, any := shapeTargets[s.cell]
		spec := simple[s.cell]
		if s.rules != ruleset.Confirmed.String() || !any || spec == nil {
			continue
		}
		if s.varied != nil {
			all = append(all, figure{
				"`confirmed`: alerts in 100 loads, " + s.cell, fmt.Sprintf("at most %g", target.alerts), s.alerts(), spec.alerts(),
				s.varied.Raised.Per100() <= target.alerts,
			})
		}
		if s.doubled != nil && target.recall > 0 {
			all = append(all, figure{
				"`confirmed`: twice as slow found within 5 loads, " + s.cell, fmt.Sprintf("at least %g", target.recall), s.recall(), spec.recall(),
				s.doubled.Summary.Recall.Value >= target.recall,
			})
		}
	}
	return all
}
