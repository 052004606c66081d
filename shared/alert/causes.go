package alert

import (
	"slices"
	"strings"
	"time"
)

// CauseWindow is how far from its cause an alert may have begun, before or after it and
// inclusive, to be grouped under it.
const CauseWindow = 10 * time.Second

// Pending is an alert that is not delivered yet.
type Pending struct {
	Alert
	// Since is the time of the first alert that was merged into it; zero is its own
	// Timestamp, which is that of the newest.
	Since time.Time
}

func (p Pending) since() time.Time {
	if p.Since.IsZero() || p.Since.After(p.Timestamp) {
		return p.Timestamp
	}
	return p.Since
}

// Alerts returns the alerts of a list.
func Alerts(all []Pending) []Alert {
	alerts := make([]Alert, len(all))
	for i, p := range all {
		alerts[i] = p.Alert
	}
	return alerts
}

// Causes groups alerts under their likely cause: alerts of one app that began within
// [CauseWindow] of the cause and name the same endpoint, page or deploy as it does, or as
// one that is grouped under it already. A CI result belongs to no app: it is the cause of
// alerts of any app whose release has its commit.
//
// The cause is the alert of the first kind (a deploy or CI result, then failed requests,
// then errors, then slow pages), of the same kind the most severe, then the earliest. An
// alert of the same kind is not grouped under it, because it does not explain it; neither
// is a resolution.
//
// Causes remembers what was delivered in the last CauseWindow, so that a symptom that is
// raised after its cause was delivered is recognized. The zero value remembers nothing.
// It is not safe for concurrent use.
type Causes struct{ delivered []facts }

// maxDelivered is how many delivered alerts are remembered. Beyond it those go first that
// were grouped under a cause, then the earliest; their later symptoms are shown without a
// cause.
const maxDelivered = 16

// Digest returns alerts as a reader gets them: a regression and an anomaly that belong
// together become one alert, and the result is grouped, see [Causes.Group].
func (c *Causes) Digest(pending []Pending) []Pending { return c.Group(correlate(pending)) }

// Group returns alerts in the order in which they are shown:
//
//  1. The most severe first; of equal severity the newest.
//  2. Of equal severity, alerts with one cause stand together, in the place of the first
//     of them, and the cause stands first.
//  3. A CI result and all its symptoms, of any severity, stand together in the place of
//     the most severe of them.
//
// For example, an error E, its cause N (an error as well), and a slow page R with the same
// cause (a warning) are shown as N, E, R. Titles and details are truncated to MaxTitle and
// MaxDetail. The input stays as it is, and nothing counts as delivered: see
// [Causes.Delivered].
func (c *Causes) Group(pending []Pending) []Pending {
	sorted := inOrder(pending)
	all := make([]facts, 0, len(c.delivered)+len(sorted))
	all = append(all, c.delivered...)
	for i := range sorted {
		sorted[i].InhibitedBy, sorted[i].Symptoms, sorted[i].Reason = "", 0, ""
		all = append(all, factsOf(sorted[i]))
	}
	groups := make([]*causeGroup, len(sorted)) // the group of each alert, or nil
	for _, g := range findGroups(all) {
		g.mark(all, len(c.delivered), sorted, groups)
	}
	shown := make([]Pending, 0, len(sorted))
	placed := make([]bool, len(sorted))
	place := func(i int) {
		if !placed[i] {
			shown, placed[i] = append(shown, sorted[i]), true
		}
	}
	for i, g := range groups {
		if placed[i] {
			continue
		}
		// together reports whether an alert stands with this one.
		together := func(m int) bool {
			return m == i || g != nil && groups[m] == g && !placed[m] && (g.together || sorted[m].Severity == sorted[i].Severity)
		}
		if g != nil && together(g.cause) {
			place(g.cause)
		}
		for m := i; m < len(sorted); m++ {
			if together(m) {
				place(m)
			}
		}
	}
	return shown
}

// mark sets the cause of the grouped alerts in sorted, and their group in groups. The first
// alerts of all are the delivered ones, which sorted and groups do not have; a group whose
// cause was delivered is not set.
func (g *causeGroup) mark(all []facts, delivered int, sorted []Pending, groups []*causeGroup) {
	g.symptoms = slices.DeleteFunc(g.symptoms, func(m int) bool { return m < delivered })
	if len(g.symptoms) == 0 {
		return
	}
	for _, m := range g.symptoms {
		sorted[m-delivered].InhibitedBy = all[g.cause].id
	}
	if g.cause < delivered {
		return
	}
	first := &sorted[g.cause-delivered]
	g.together = all[g.cause].kind == kindDeploy
	first.Symptoms, first.Reason = len(g.symptoms), g.reason(all, first.Alert)
	g.cause -= delivered
	groups[g.cause] = g
	for _, m := range g.symptoms {
		groups[m-delivered] = g
	}
}

// Delivered remembers alerts that were delivered, as Digest or Group returned them.
func (c *Causes) Delivered(alerts []Pending) {
	delivered := slices.Clone(c.delivered)
	for _, p := range alerts {
		if f := factsOf(p); f.kind != kindUnrelated {
			delivered = append(delivered, f)
		}
	}
	var newest time.Time
	for _, f := range delivered {
		if f.since.After(newest) {
			newest = f.since
		}
	}
	delivered = slices.DeleteFunc(delivered, func(f facts) bool { return newest.Sub(f.since) > CauseWindow })
	slices.SortStableFunc(delivered, func(a, b facts) int {
		switch {
		case a.grouped == b.grouped:
			return a.since.Compare(b.since)
		case a.grouped:
			return -1
		default:
			return 1
		}
	})
	delivered = delivered[max(len(delivered)-maxDelivered, 0):]
	for i := range delivered { // let go of the texts that the paths are parts of
		for n, path := range delivered[i].paths {
			delivered[i].paths[n] = strings.Clone(path)
		}
	}
	c.delivered = slices.Clone(delivered)
}
