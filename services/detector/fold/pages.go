package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/finding"
	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// pages is what the rules for regressions remember of the pages of an app. A rule that
// the app does not need is nil; one of them never is.
type pages struct {
	spec      *regression.Pages
	confirmed *regression.Confirmed
}

// youngLoads is how many loads of a page's metric end its youth, where the app's own
// has not ended before.
const youngLoads = 5

// settle gives the pages what a rule needs for an app that is young or not, and lets go
// of what nobody needs: a rule that is no longer in force is fed until its last alert
// has ended. It reports whether anything changed.
func (p *pages) settle(by ruleset.Regression, young bool) (changed bool) {
	was := *p
	spec := by.InForce(young) == ruleset.Spec || p.spec != nil && p.spec.AnyOpen()
	confirmed := by != ruleset.Spec || p.confirmed != nil && p.confirmed.AnyOpen()
	switch {
	case spec && p.spec == nil && p.confirmed != nil:
		p.spec = p.confirmed.Learned()
	case spec && p.spec == nil:
		p.spec = regression.New()
	}
	switch {
	case confirmed && p.confirmed == nil && was.spec != nil:
		p.confirmed = was.spec.Learned()
	case confirmed && p.confirmed == nil:
		p.confirmed = regression.NewConfirmed()
	}
	if !spec {
		p.spec = nil
	}
	if !confirmed {
		p.confirmed = nil
	}
	return *p != was
}

// load asks the rules about one page load. About a metric of a page the rule that has
// an alert open goes on alone until that has ended; else the rule in force raises it.
func (p *pages) load(app string, e *telemetry.Event, by ruleset.Regression, young bool, now time.Time) (found []finding.Finding) {
	if p.spec != nil {
		for _, f := range p.spec.Load(app, e.URL, e.Vitals, now) {
			loads, open := p.spec.Loads(e.URL, metricOf(f))
			youngMetric := young && loads <= youngLoads // this load is one of them
			if f.Ends() || open || by.InForce(youngMetric) == ruleset.Spec && !p.confirmedHas(e.URL, metricOf(f)) {
				found = append(found, f)
			}
		}
	}
	if p.confirmed == nil {
		return found
	}
	for _, f := range p.confirmed.Load(app, e.URL, e.Vitals, now) {
		loads, open := 0, false
		if p.spec != nil {
			loads, open = p.spec.Loads(e.URL, metricOf(f))
		}
		youngMetric := young && loads <= youngLoads
		if f.Ends() || p.confirmed.Open(e.URL, metricOf(f)) || by.InForce(youngMetric) == ruleset.Confirmed && !open {
			found = append(found, f)
			continue
		}
		f.Withheld()
	}
	return found
}

func (p *pages) confirmedHas(url, metric string) bool {
	return p.confirmed != nil && p.confirmed.Open(url, metric)
}

// metricOf is the name of the metric that a finding is about.
func metricOf(f finding.Finding) string {
	name, _ := f.Alert.Context["metric"].(string)
	return name
}

// shown is the rule whose baselines are shown: the one that knows more of them.
func (p *pages) shown() interface {
	Baselines() []regression.Baseline
	BaselinesOf(page string) []regression.Baseline
	Names() []string
	Len() int
	Evicted() uint64
} {
	if p.confirmed != nil {
		return p.confirmed
	}
	return p.spec
}

// Size is about how many bytes are held.
func (p *pages) Size() (bytes int) {
	if p.spec != nil {
		bytes += p.spec.Size()
	}
	if p.confirmed != nil {
		bytes += p.confirmed.Size()
	}
	return bytes
}

func (p *pages) state(s *snapshot.State) {
	if s.Reading() {
		p.spec, p.confirmed = regression.New(), regression.NewConfirmed()
	}
	hasSpec, hasConfirmed := p.spec != nil, p.confirmed != nil
	s.Bool(1, &hasSpec)
	s.Bool(2, &hasConfirmed)
	if hasSpec {
		snapshot.Message(s, 3, p.spec, (*regression.Pages).State)
	} else {
		p.spec = nil
	}
	if hasConfirmed {
		snapshot.Message(s, 4, p.confirmed, (*regression.Confirmed).State)
	} else {
		p.confirmed = nil
	}
}
