package fold

import (
	"github.com/tocsin-bus/tocsin/services/detector/ratelimit"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// HasSuppressed reports whether suppressed alerts wait for their summary, which only a later
// message can bring.
func (f *Fold) HasSuppressed() bool { return f.budget.AnySuppressed() }

// HasOpenIncidents reports whether an incident is open, such as a spike, which only a later
// message can end.
func (f *Fold) HasOpenIncidents() bool { return f.incidents.any() }

// summarizeDue publishes the summaries that have waited long enough for another alert of
// their app.
func (t *turn) summarizeDue() {
	for _, app := range t.fold.budget.DueSummaries(t.now) {
		t.summarize(app)
	}
}

// summarize publishes one alert in place of the suppressed alerts of an app, if there are
// any. The storm limiter bounds summaries, too: a summary that it does not allow waits and
// includes the alerts that are suppressed meanwhile.
func (t *turn) summarize(app string) {
	f := t.fold
	if !f.budget.HasSuppressed(app) {
		return
	}
	f.key = append(append(f.key[:0], "storm:"...), app...)
	keyLen := t.appendApp(app)
	if !f.storm.AllowUncounted(f.key, t.now) {
		return
	}
	key := string(f.key[:keyLen])
	suppressed := f.budget.TakeSummary(app)
	t.appendAlert(app, summary(suppressed, key), suppressed.Total-1)
	if a := f.apps.Peek(app); a != nil {
		f.recordAlert(*a)
	}
}

// summary returns the alert that replaces suppressed alerts.
func summary(suppressed ratelimit.Summary, key string) alert.Alert {
	return suppressed.Fill(alert.Alert{Severity: suppressed.Severity, DedupKey: key})
}
