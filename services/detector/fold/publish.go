package fold

import (
	"github.com/tocsin-bus/tocsin/services/detector/ratelimit"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// publishFindings publishes the findings of the rule with an index in the table.
func (t *turn) publishFindings(a *app, index int, findings []rule.Finding) {
	ended := false
	for _, f := range findings {
		t.publishFinding(a, index, f)
		ended = ended || f.Ends()
	}
	if ended {
		a.switchRules(t.now) // it may need fewer of them
	}
}

// publishFinding publishes a finding of the rule with an index in the table, unless it is
// suppressed, and reports whether it did.
func (t *turn) publishFinding(a *app, index int, f rule.Finding) bool {
	var key string
	var suppressed int
	var allowed bool
	if f.Make != nil {
		t.fold.key = append(t.fold.key[:0], f.Key...)
		key, suppressed, allowed = t.allowUnbuilt(a.name, f.Alert.Category, f.Alert.Severity, func() string { return f.Make().Title })
	} else {
		key, suppressed, allowed = t.allow(a.name, f.Alert, f.Again)
	}
	if !allowed {
		return false
	}
	if f.Make != nil {
		f.Alert = f.Make()
	}
	f.Alert.DedupKey = key
	published := t.publishCorrelated(a, f.Alert, suppressed)
	f.MarkPublished(published.ID)
	if f.Opens != nil {
		opened := *f.Opens
		opened.ID, opened.Title = published.ID, published.Title
		t.fold.incidents.add(a, index, opened)
	}
	return true
}

// publishForApp publishes an alert of an app that is not a finding, unless it is suppressed.
func (t *turn) publishForApp(a *app, raised alert.Alert) {
	key, suppressed, allowed := t.allow(a.name, raised, false)
	if !allowed {
		return
	}
	raised.DedupKey = key
	t.publishCorrelated(a, raised, suppressed)
}

// allow reports whether the budget and the storm limiter allow an alert. If so, key is its
// dedup key, shortened if it is too long, and suppressed is how many earlier alerts with that
// key were suppressed. Suppressed revisions and mere resolutions are not counted. again
// reports whether the alert was suppressed before, and so is counted already.
func (t *turn) allow(app string, a alert.Alert, again bool) (key string, suppressed int, allowed bool) {
	f := t.fold
	f.key = append(f.key[:0], a.DedupKey...)
	keyLen := t.appendApp(app)
	if a.Resolves != "" && a.Category != alert.Threshold {
		f.key = append(f.key, endSuffix...)
	}
	if t.suppressOverBudget(app, &a) {
		return "", 0, false
	}
	switch {
	case a.Revises != "" || a.OnlyResolves():
		allowed = f.storm.AllowUncounted(f.key, t.now)
	case again:
		if suppressed, allowed = f.storm.AllowRetry(f.key, t.now); !allowed {
			return "", 0, false
		}
	default:
		suppressed, allowed = f.storm.Allow(f.key, t.now)
	}
	return t.countDecision(keyLen, allowed), suppressed, allowed
}

// endSuffix is appended to the storm key of an alert that resolves another one with the same
// dedup key, because many alerts must not suppress their resolution. The resolution of a
// threshold has a dedup key of its own.
const endSuffix = "\x00end"

// suppressOverBudget reports whether the budget of the app or of all apps does not allow a
// new alert, whose storm key is in the fold's buffer. If so, it counts the alert for the
// summary. It leaves repetitions to the storm limiter.
func (t *turn) suppressOverBudget(app string, a *alert.Alert) bool {
	if !ratelimit.IsLimited(a.Category) || a.Revises != "" || a.Resolves != "" {
		return false
	}
	return t.suppressLimited(app, a.Category, a.Severity, func() string { return a.Title })
}

// suppressLimited is suppressOverBudget for an alert of a category that the budget limits.
func (t *turn) suppressLimited(app string, c alert.Category, s alert.Severity, title func() string) bool {
	f := t.fold
	if !f.storm.HasRoom(f.key, t.now) || f.budget.TryPay(app, t.now) {
		return false
	}
	f.count.suppressed++
	f.budget.Suppress(app, f.key, c, s, func() string {
		return sanitize.Cut(sanitize.Visible(title()), alert.MaxTitle)
	}, t.now)
	return true
}

// allowUnbuilt is allow for an alert that is not built yet, and whose dedup key is in the
// fold's buffer. title returns its title, for the summary.
func (t *turn) allowUnbuilt(app string, c alert.Category, s alert.Severity, title func() string) (key string, suppressed int, allowed bool) {
	keyLen := t.appendApp(app)
	if t.suppressLimited(app, c, s, title) {
		return "", 0, false
	}
	suppressed, allowed = t.fold.storm.Allow(t.fold.key, t.now)
	return t.countDecision(keyLen, allowed), suppressed, allowed
}

// appendApp appends the app to the dedup key in the fold's buffer, which becomes the key for
// the storm limiter. It returns the length of the dedup key.
func (t *turn) appendApp(app string) (keyLen int) {
	f := t.fold
	f.key = rule.Bounded(f.key)
	keyLen = len(f.key)
	f.key = append(append(f.key, 0), app...)
	return keyLen
}

// countDecision counts an alert that is not allowed. For an allowed one it returns the dedup
// key: the first keyLen bytes of the storm key in the fold's buffer.
func (t *turn) countDecision(keyLen int, allowed bool) string {
	if !allowed {
		t.fold.count.suppressed++
		return ""
	}
	return string(t.fold.key[:keyLen])
}

// publishCorrelated publishes an alert of an app and correlates it with the app's others.
func (t *turn) publishCorrelated(a *app, raised alert.Alert, suppressed int) *alert.Alert {
	t.addPageAndRelease(a, &raised)
	published := t.publish(a.name, raised, suppressed)
	t.fold.recordAlert(a)
	a.links.correlate(published)
	return published
}

// publish publishes an alert and then the summary of the suppressed alerts of its app.
func (t *turn) publish(app string, a alert.Alert, suppressed int) *alert.Alert {
	index := len(t.alerts)
	t.appendAlert(app, a, suppressed)
	t.summarize(app)
	return &t.alerts[index]
}

// appendAlert completes an alert and adds it to the outcome.
func (t *turn) appendAlert(app string, a alert.Alert, suppressed int) {
	a.ID = t.nextID()
	t.ordinal++
	a.App, a.Timestamp, a.CorrelationID = app, t.now, a.ID
	if suppressed > 0 {
		a.Count = 1 + suppressed
	}
	clean(&a)
	t.alerts = append(t.alerts, a)
}

// addPageAndRelease adds to an alert's context the path template of the page where its
// event happened, and the release. Readers group alerts with one cause by them.
func (t *turn) addPageAndRelease(a *app, raised *alert.Alert) {
	if t.event == nil || raised.OnlyResolves() {
		return
	}
	context := raised.Context
	if context == nil {
		context = map[string]any{}
	}
	switch raised.Category {
	case alert.Errors, alert.NetworkErrors, alert.Security, alert.UserFrustration:
		if page := template.Page(t.event.URL); page != "" {
			context[alert.PageKey] = page
		}
	case alert.Regression, alert.Anomaly, alert.Threshold: // a regression has its page already
	default: // about many events
		return
	}
	if release := t.event.Release; release != "" {
		context[alert.ReleaseKey] = release
		if a.releases.isDeploy(release, t.now) {
			context[alert.DeployKey] = release
		}
	}
	if len(context) > 0 {
		raised.Context = context
	}
}
