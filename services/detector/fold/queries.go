package fold

import (
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// NoiseRules lists the noise rules about an app, or all for the empty name: first those added
// by hand, then those found, by app and pattern. It is never nil, because an empty list is []
// on the wire. Recent events are counted up to the newest message.
func (f *Fold) NoiseRules(app string) []query.NoiseRule {
	rules := []query.NoiseRule{}
	for name, a := range f.apps.All() {
		if app == "" || appName(app) == name {
			rules = append(rules, (*a).noise.Rules(f.newest)...)
		}
	}
	slices.SortFunc(rules, func(a, b query.NoiseRule) int {
		if byApp := strings.Compare(a.App, b.App); byApp != 0 {
			return byApp
		}
		return strings.Compare(a.Pattern+a.ID, b.Pattern+b.ID)
	})
	return slices.Insert(rules, 0, f.manual.Rules(app, f.newest)...)
}

// RemovedNoiseRules lists the noise rules about an app, or all for the empty name, that were
// found and then removed. They are ordered by app, the newest removal first.
func (f *Fold) RemovedNoiseRules(app string) []query.RemovedRule {
	var all []query.RemovedRule
	for name, a := range f.apps.All() {
		if app == "" || appName(app) == name {
			all = append(all, (*a).noise.Removed()...)
		}
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b query.RemovedRule) int { return strings.Compare(a.App, b.App) })
	return all
}

// Baselines lists the baselines of an app. Those of the page loaded last are at the end.
func (f *Fold) Baselines(app string) []regression.Baseline {
	if a := f.apps.Peek(appName(app)); a != nil {
		if r, ok := findRule[*regression.Rule](*a); ok {
			return r.Baselines().Baselines()
		}
	}
	return nil
}

// PageBaselines returns the baselines of one page of an app, by the names of the vitals. If
// the rule separates classes of devices, there is also one for each class, such as
// lcp_ms:mobile, and the one without a class is that of the class with the most loads.
func (f *Fold) PageBaselines(app, page string) map[string]query.Baseline {
	all := map[string]query.Baseline{}
	a := f.apps.Peek(appName(app))
	if a == nil {
		return all
	}
	r, ok := findRule[*regression.Rule](*a)
	if !ok {
		return all
	}
	for _, b := range r.Baselines().BaselinesOf(page) {
		usual := query.Baseline{Median: b.Median, Loads: b.Loads}
		if b.Device != "" {
			all[b.Metric+":"+string(b.Device)] = usual
		}
		if usual.Loads > all[b.Metric].Loads {
			all[b.Metric] = usual
		}
	}
	return all
}

// Pages lists the pages of an app that have baselines, the one loaded last first.
func (f *Fold) Pages(app string) []string {
	if a := f.apps.Peek(appName(app)); a != nil {
		if r, ok := findRule[*regression.Rule](*a); ok {
			return r.Baselines().Names()
		}
	}
	return nil
}

// Stats are the sizes of the state, and counts since New or Restore.
type Stats struct {
	// Apps, Pages, Templates and Errors are how many are remembered. Bytes is about how
	// much memory they take.
	Apps, Pages, Templates, Errors, Bytes int
	// Hidden counts the events that a noise rule hid, Suppressed the alerts suppressed in a
	// storm, and SuppressedLost those of them that no summary or count will include.
	Hidden, Suppressed, SuppressedLost uint64
	// NotTracked is how many apps had an event within the last 24 h and are not tracked.
	// Untracked counts the events of apps that were not tracked.
	NotTracked int
	Untracked  uint64
	// Recurring counts bursts of errors that came by their schedules and whose alerts
	// stayed at severity info, in tracked apps.
	Recurring uint64
	// Evicted counts what was forgotten for lack of room.
	Evicted Evicted
}

// Evicted counts what was forgotten for lack of room, by kind. A forgotten app counts as one,
// with all its state.
type Evicted struct {
	Apps, Pages, Templates, Errors, Circuits, Targets, CIResults, ExternalAlerts, StormKeys, Releases uint64
	// NoiseLeftOut counts patterns for which there was no room as a rule, in each run of
	// auto-detection.
	NoiseLeftOut uint64
	// Spikes counts open incidents of any rule, and CIFailures failing branches. No alert
	// will announce their end.
	Spikes, CIFailures uint64
}

// counters are counts of the fold itself.
type counters struct {
	hidden, suppressed, apps, untracked uint64
	// evictedApps has the evictions of apps that were themselves evicted.
	evictedApps Evicted
}

// count adds the evictions of an app, and returns the counts of its rules.
func (e *Evicted) count(a *app) (c rule.Counts) {
	for _, r := range a.rules {
		if r, ok := r.(rule.Counted); ok {
			r.Count(&c)
		}
	}
	e.Pages += c.EvictedPages
	e.Errors += c.EvictedErrors
	e.Circuits += c.EvictedCircuits
	e.Targets += c.EvictedTargets
	e.Templates += a.noise.Evicted()
	e.NoiseLeftOut += a.noise.LeftOut()
	e.Releases += a.releases.evicted
	return c
}

// Stats returns the sizes and counts. It visits all apps, so it is too slow for each message.
func (f *Fold) Stats() Stats {
	s := Stats{
		Apps: f.apps.Len(), Bytes: f.bytes,
		NotTracked: f.NotTracked(), Untracked: f.count.untracked,
		Hidden: f.count.hidden, Suppressed: f.count.suppressed, SuppressedLost: f.storm.Lost() + f.budget.Lost(), Evicted: f.count.evictedApps,
	}
	for _, stored := range f.apps.All() {
		a := *stored
		c := s.Evicted.count(a)
		s.Pages += c.Pages
		s.Errors += c.Errors
		s.Recurring += c.Recurring
		s.Templates += a.noise.Patterns()
	}
	s.Evicted.Apps, s.Evicted.CIResults, s.Evicted.StormKeys = f.count.apps, f.ci.Evicted(), f.storm.Evicted()
	s.Evicted.ExternalAlerts, s.Evicted.CIFailures, s.Evicted.Spikes = f.external.Evicted(), f.ci.EvictedFailing(), f.incidents.evicted
	return s
}
