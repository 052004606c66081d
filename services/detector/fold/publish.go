package fold

import (
	"github.com/tocsin-bus/tocsin/services/detector/ratelimit"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// found publishes what a rule of the table found.
func (t *turn) found(a *app, index int, all []rule.Finding) {
	ended := false
	for _, f := range all {
		t.deliver(a, index, f)
		ended = ended || f.Ends()
	}
	if ended {
		a.switchRules(t.now) // that may have been the last of a rule
	}
}

// deliver publishes a finding, unless its storm is suppressed, and reports whether it did.
func (t *turn) deliver(a *app, index int, f rule.Finding) bool {
	var key string
	var held int
	var leaves bool
	if f.Make != nil {
		t.fold.key = append(t.fold.key[:0], f.Key...)
		key, held, leaves = t.leave(a.name, f.Alert.Category, f.Alert.Severity, func() string { return f.Make().Title })
	} else {
		key, held, leaves = t.admit(a.name, f.Alert, f.Again)
	}
	if !leaves {
		return false
	}
	if f.Make != nil {
		f.Alert = f.Make()
	}
	f.Alert.DedupKey = key
	said := t.say(a, f.Alert, held)
	f.Delivered(said.ID)
	if f.Opens != nil {
		opened := *f.Opens
		opened.ID, opened.Title = said.ID, said.Title
		t.fold.incidents.add(a, index, opened)
	}
	return true
}

// offer publishes an alert of an app unless its storm is suppressed.
func (t *turn) offer(a *app, found alert.Alert) {
	key, held, leaves := t.admit(a.name, found, false)
	if !leaves {
		return
	}
	found.DedupKey = key
	t.say(a, found, held)
}

// admit asks the storm limiter whether an alert may be published. If so, key is its dedup
// key, shortened if it is too long, and held is the number of suppressed alerts that its
// count includes. Revisions and mere ends are suppressed without being counted. again
// reports whether the alert was suppressed before, so that it is counted already.
func (t *turn) admit(app string, a alert.Alert, again bool) (key string, held int, leaves bool) {
	f := t.fold
	f.key = append(f.key[:0], a.DedupKey...)
	n := t.stormKey(app)
	if a.Resolves != "" && a.Category != alert.Threshold {
		f.key = append(f.key, ends...)
	}
	if t.overBudget(app, &a) {
		return "", 0, false
	}
	switch {
	case a.Revises != "" || a.OnlyResolves():
		leaves = f.storm.OfferUncounted(f.key, t.now)
	case again:
		if held, leaves = f.storm.OfferAgain(f.key, t.now); !leaves {
			return "", 0, false
		}
	default:
		held, leaves = f.storm.Offer(f.key, t.now)
	}
	return t.passed(n, leaves), held, leaves
}

// ends is appended to the storm key of an alert that resolves another one under the same
// dedup key: what came often must not suppress its end. The end of a threshold has a dedup
// key of its own.
const ends = "\x00end"

// overBudget reports whether a new alert, whose storm key is in the fold's buffer, is one
// too many of its app or of all apps. Then it is counted for a summary. A repetition that
// the storm limiter will suppress is not counted.
func (t *turn) overBudget(app string, a *alert.Alert) bool {
	if !ratelimit.Counts(a.Category) || a.Revises != "" || a.Resolves != "" {
		return false
	}
	return t.unpaid(app, a.Category, a.Severity, func() string { return a.Title })
}

func (t *turn) unpaid(app string, c alert.Category, s alert.Severity, title func() string) bool {
	f := t.fold
	if !f.storm.Room(f.key, t.now) || f.budget.Pay(app, t.now) {
		return false
	}
	f.count.held++
	f.budget.Hold(app, f.key, c, s, func() string {
		return sanitize.Cut(sanitize.Visible(title()), alert.MaxTitle)
	}, t.now)
	return true
}

// leave is admit for an alert that is not built yet and whose dedup key is in the fold's
// buffer. title returns the title for a summary.
func (t *turn) leave(app string, c alert.Category, s alert.Severity, title func() string) (key string, held int, leaves bool) {
	n := t.stormKey(app)
	if t.unpaid(app, c, s, title) {
		return "", 0, false
	}
	held, leaves = t.fold.storm.Offer(t.fold.key, t.now)
	return t.passed(n, leaves), held, leaves
}

// stormKey turns the dedup key in the fold's buffer into the key for the storm limiter. It
// begins with the dedup key, whose length is returned.
func (t *turn) stormKey(app string) int {
	f := t.fold
	f.key = rule.Bounded(f.key)
	n := len(f.key)
	f.key = append(append(f.key, 0), app...)
	return n
}

// passed returns the dedup key of an alert that is published, the first n bytes of the
// storm key in the fold's buffer. Others it counts as suppressed.
func (t *turn) passed(n int, leaves bool) string {
	if !leaves {
		t.fold.count.held++
		return ""
	}
	return string(t.fold.key[:n])
}

// say publishes an alert of an app and correlates it with others.
func (t *turn) say(a *app, found alert.Alert, held int) *alert.Alert {
	t.place(a, &found)
	said := t.publish(a.name, found, held)
	t.fold.raised(a)
	a.links.correlate(said)
	return said
}

// publish completes an alert. The summary of what is suppressed of its app is published with
// it.
func (t *turn) publish(app string, a alert.Alert, held int) *alert.Alert {
	at := len(t.alerts)
	t.complete(app, a, held)
	t.summarize(app)
	return &t.alerts[at]
}

func (t *turn) complete(app string, a alert.Alert, held int) {
	a.ID = t.id()
	t.ordinal++
	a.App, a.Timestamp, a.CorrelationID = app, t.now, a.ID
	if held > 0 {
		a.Count = 1 + held
	}
	clean(&a)
	t.alerts = append(t.alerts, a)
}

// place adds to an alert where its event happened: the path template of the page, and the
// release. Readers find what has one cause by them.
func (t *turn) place(a *app, found *alert.Alert) {
	if t.of == nil || found.OnlyResolves() {
		return
	}
	context := found.Context
	if context == nil {
		context = map[string]any{}
	}
	switch found.Category {
	case alert.Errors, alert.NetworkErrors, alert.Security, alert.UserFrustration:
		if page := template.Page(t.of.URL); page != "" {
			context[alert.PageKey] = page
		}
	case alert.Regression, alert.Anomaly, alert.Threshold: // a regression says its page itself
	default: // what was found in many events
		return
	}
	if release := t.of.Release; release != "" {
		context[alert.ReleaseKey] = release
		if a.releases.Deploy(release, t.now) {
			context[alert.DeployKey] = release
		}
	}
	if len(context) > 0 {
		found.Context = context
	}
}
