package regression

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// Rule raises alerts for pages that became slower. The settings and the age of the app
// decide whether it needs [Pages], [Confirmed] or both; the other one is nil.
type Rule struct {
	rule.Instant
	app       *rule.App
	spec      *Pages
	confirmed *Confirmed
}

// NewRule returns the rule for an app. Call Switch before any other method.
func NewRule(app *rule.App) rule.Rule { return &Rule{app: app} }

// youngLoads is how many loads of a metric on a page of a young app are judged by the rule
// for young apps.
const youngLoads = 5

// Switch starts and stops the rules for an app that is young, or not any more. A rule that
// is no longer in force continues until its last alert has ended.
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

// Observe compares a page load. While a rule has an alert open about a metric of a page,
// only that rule raises alerts about it; otherwise the rule in force does.
func (r *Rule) Observe(e *rule.Event, now time.Time) (found []rule.Finding) {
	if e.Vitals == nil {
		return nil
	}
	choice := r.app.Choice.Regression
	if r.spec != nil {
		for _, f := range r.spec.Load(e.App, e.URL, e.Vitals, now) {
			loads, open := r.spec.Loads(e.URL, metricOf(f))
			youngMetric := e.Young && loads <= youngLoads // loads includes this one
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
		f.SkipPublish()
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

// Baselines has the usual values of the pages of an app.
type Baselines interface {
	// Baselines lists all baselines, those of the page loaded last at the end.
	Baselines() []Baseline
	// BaselinesOf lists the baselines of one page.
	BaselinesOf(page string) []Baseline
	// Names lists the pages, the one loaded last first.
	Names() []string
	// Len returns the number of pages.
	Len() int
	// Evicted returns how many pages were evicted for lack of room.
	Evicted() uint64
}

// Count counts the pages.
func (r *Rule) Count(c *rule.Counts) {
	c.Pages += r.Baselines().Len()
	c.EvictedPages += r.Baselines().Evicted()
}

// Size returns about how many bytes are held.
func (r *Rule) Size() (bytes int) {
	if r.spec != nil {
		bytes += r.spec.Size()
	}
	if r.confirmed != nil {
		bytes += r.confirmed.Size()
	}
	return bytes
}

// State writes or reads the baselines.
func (r *Rule) State(s *snapshot.Codec) {
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
