package regression

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// Rule raises alerts for pages that became slower, by the rules that the choice and the
// age of the app need: [Pages] and [Confirmed]. One that is not needed is nil; one of
// them never is, once Switch was called.
type Rule struct {
	rule.Instant
	app       *rule.App
	spec      *Pages
	confirmed *Confirmed
}

// NewRule returns the rule for an app. It compares nothing before Switch was called.
func NewRule(app *rule.App) rule.Rule { return &Rule{app: app} }

// youngLoads is how many loads of a page's metric end its youth, where the app's own has
// not ended before.
const youngLoads = 5

// Switch starts the rules that an app needs that is young or not. One that is no longer
// in force continues until its last alert has ended.
func (r *Rule) Switch(young bool, _ time.Time) (changed bool) {
	choice, specBefore, confirmedBefore := r.app.Choice.Regression, r.spec, r.confirmed
	spec := choice.InForce(young) == ruleset.Spec || r.spec != nil && r.spec.AnyOpen()
	confirmed := choice != ruleset.Spec || r.confirmed != nil && r.confirmed.AnyOpen()
	switch {
	case spec && r.spec == nil && r.confirmed != nil:
		r.spec = r.confirmed.Learned()
	case spec && r.spec == nil:
		r.spec = New()
	}
	switch {
	case confirmed && r.confirmed == nil && specBefore != nil:
		r.confirmed = specBefore.Learned()
	case confirmed && r.confirmed == nil:
		r.confirmed = NewConfirmed()
	}
	if !spec {
		r.spec = nil
	}
	if !confirmed {
		r.confirmed = nil
	}
	return r.spec != specBefore || r.confirmed != confirmedBefore
}

// Observe compares a page load. About a metric of a page the rule that has an alert open
// continues alone until that has ended; otherwise the rule in force raises it.
func (r *Rule) Observe(e *rule.Event, now time.Time) (found []rule.Finding) {
	if e.Vitals == nil {
		return nil
	}
	choice := r.app.Choice.Regression
	if r.spec != nil {
		for _, f := range r.spec.Load(e.App, e.URL, e.Vitals, now) {
			loads, open := r.spec.Loads(e.URL, metricOf(f))
			youngMetric := e.Young && loads <= youngLoads // this load is one of them
			if f.Ends() || open || choice.InForce(youngMetric) == ruleset.Spec && !r.confirmedHas(e.URL, metricOf(f)) {
				found = append(found, f)
			}
		}
	}
	if r.confirmed == nil {
		return found
	}
	for _, f := range r.confirmed.Load(e.App, e.URL, e.Vitals, now) {
		loads, open := 0, false
		if r.spec != nil {
			loads, open = r.spec.Loads(e.URL, metricOf(f))
		}
		youngMetric := e.Young && loads <= youngLoads
		if f.Ends() || r.confirmed.Open(e.URL, metricOf(f)) || choice.InForce(youngMetric) == ruleset.Confirmed && !open {
			found = append(found, f)
			continue
		}
		f.Withhold()
	}
	return found
}

func (r *Rule) confirmedHas(url, metric string) bool {
	return r.confirmed != nil && r.confirmed.Open(url, metric)
}

// metricOf returns the name of the metric that a finding is about.
func metricOf(f rule.Finding) string {
	name, _ := f.Alert.Context["metric"].(string)
	return name
}

// Baselines returns the rule whose baselines are shown: the one that knows more of them.
func (r *Rule) Baselines() Baselines {
	if r.confirmed != nil {
		return r.confirmed
	}
	return r.spec
}

// Baselines are what is usual on the pages of an app.
type Baselines interface {
	// Baselines lists all, those of the page loaded last at the end.
	Baselines() []Baseline
	// BaselinesOf lists those of one page.
	BaselinesOf(page string) []Baseline
	// Names lists the pages, the one loaded last first.
	Names() []string
	// Len is the number of pages, Evicted how many were forgotten for lack of room.
	Len() int
	Evicted() uint64
}

// Count counts the pages.
func (r *Rule) Count(c *rule.Counts) {
	c.Pages += r.Baselines().Len()
	c.EvictedPages += r.Baselines().Evicted()
}

// Size is about how many bytes are held.
func (r *Rule) Size() (bytes int) {
	if r.spec != nil {
		bytes += r.spec.Size()
	}
	if r.confirmed != nil {
		bytes += r.confirmed.Size()
	}
	return bytes
}

// State has the baselines.
func (r *Rule) State(s *snapshot.State) {
	hasSpec, hasConfirmed := r.spec != nil, r.confirmed != nil
	s.Bool(1, &hasSpec)
	s.Bool(2, &hasConfirmed)
	if s.Reading() {
		r.spec, r.confirmed = nil, nil
		if hasSpec {
			r.spec = New()
		}
		if hasConfirmed {
			r.confirmed = NewConfirmed()
		}
	}
	if hasSpec {
		snapshot.Message(s, 3, r.spec, (*Pages).State)
	}
	if hasConfirmed {
		snapshot.Message(s, 4, r.confirmed, (*Confirmed).State)
	}
}
