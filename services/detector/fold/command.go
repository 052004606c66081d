package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// applyNoiseCommand executes a noise command.
func (t *turn) applyNoiseCommand(c *query.NoiseRequest) (report noise.Report) {
	f := t.fold
	if report.Err = noise.Check(*c); report.Err != nil {
		return report
	}
	switch c.Action {
	case query.NoiseAdd:
		if c.Pattern == "" {
			report.Added = c.RuleID
			if !f.acceptRule(c.RuleID, t.now) {
				report = noise.Report{Err: noise.ErrNoRule}
			}
			break
		}
		rule := *c
		if rule.App != "" {
			rule.App = appName(rule.App)
		}
		report.Added, report.Err = f.manual.Add(rule, t.now)
	case query.NoiseRemove:
		if !f.manual.Remove(c.RuleID) && !f.removeRule(c.RuleID) {
			report.Err = noise.ErrNoRule
		}
	case query.NoiseList: // changes nothing
	case query.NoiseAutoDetect:
		for name, a := range f.apps.All() {
			if c.App != "" && appName(c.App) != name {
				continue
			}
			found := (*a).noise.Detect(t.now)
			report.Found += found.Len()
			t.announceNoiseRules(*a, found)
			f.recordChange(*a)
		}
	}
	f.evictToFit()
	return report
}

// acceptRule puts a rule in force that was proposed or removed.
func (f *Fold) acceptRule(id string, now time.Time) bool {
	for _, a := range f.apps.All() {
		if (*a).noise.Accept(id, now) {
			f.recordChange(*a)
			return true
		}
	}
	return false
}

// removeRule removes a rule that auto-detection found.
func (f *Fold) removeRule(id string) bool {
	for _, a := range f.apps.All() {
		if (*a).noise.Remove(id) {
			f.recordChange(*a)
			return true
		}
	}
	return false
}
