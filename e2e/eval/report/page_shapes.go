package report

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/tocsin-bus/tocsin/e2e/eval/run"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
)

// askedOfShapes are the targets of the rule confirmed on pages that vary: the most alerts
// in 100 loads that did not change, and the least share of the pages that became twice as
// slow to be found within 5 loads. 0 is no target.
var askedOfShapes = map[string]struct{ alerts, recall float64 }{
	"half from a cache, x2.2, cv 0.1":          {1.5, 0.95},
	"two devices by turns of 15, x1.6, cv 0.1": {2, 0.9},
	"autocorrelated 0.9, cv 0.25":              {1.5, 0.95},
	"one in 15 x5, cv 0.15":                    {1, 0.95},
	"cv 0.35":                                  {1, 0.95},
	"drift +60% in 400 loads, cv 0.15":         {0.5, 0},
	"cv 0.15":                                  {0.5, 0},
}

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

Pages whose loads do not lie around one median. The events do not say why: neither the device nor whether the load came from a cache. Alerts are
all that a reader receives, also in an app's first 10 minutes, and again where a finding is raised again because it is surer; findings
are counted as above. Recall is of pages of which every load takes twice as long after a deploy, within 5 loads.
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

// pageShapeFigures returns the figures with targets of pages that vary.
func (r *Results) pageShapeFigures() (all []figure) {
	shapes := r.pageShapes()
	contract := map[string]*shape{}
	for i := range shapes {
		if shapes[i].rules == ruleset.Spec.String() {
			contract[shapes[i].cell] = &shapes[i]
		}
	}
	for i := range shapes {
		s := &shapes[i]
		asked, any := askedOfShapes[s.cell]
		spec := contract[s.cell]
		if s.rules != ruleset.Confirmed.String() || !any || spec == nil {
			continue
		}
		if s.varied != nil {
			all = append(all, figure{
				"`confirmed`: alerts in 100 loads, " + s.cell, fmt.Sprintf("at most %g", asked.alerts), s.alerts(), spec.alerts(),
				s.varied.Raised.Per100() <= asked.alerts,
			})
		}
		if s.doubled != nil && asked.recall > 0 {
			all = append(all, figure{
				"`confirmed`: twice as slow found within 5 loads, " + s.cell, fmt.Sprintf("at least %g", asked.recall), s.recall(), spec.recall(),
				s.doubled.Summary.Recall.Value >= asked.recall,
			})
		}
	}
	return all
}
