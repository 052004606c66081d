package fold

import (
	"github.com/tocsin-bus/tocsin/services/detector/ratelimit"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Waits reports whether alerts are suppressed that are published as time passes, which only
// messages bring.
func (f *Fold) Waits() bool { return f.budget.Waits() }

// Unfinished reports whether an incident is open, such as a spike. It ends as time passes,
// which only messages bring.
func (f *Fold) Unfinished() bool { return f.incidents.any() }

// summarizeDue publishes the summaries of apps that have suppressed alerts for so long that
// they no longer wait for another alert.
func (t *turn) summarizeDue() {
	for _, app := range t.fold.budget.Due(t.now) {
		t.summarize(app)
	}
}

// summarize publishes one alert in place of those of an app that are suppressed, if there
// are any. Its key is bounded like every other key. Past that bound it waits and counts
// what comes meanwhile.
func (t *turn) summarize(app string) {
	f := t.fold
	if !f.budget.Holds(app) {
		return
	}
	f.key = append(append(f.key[:0], "storm:"...), app...)
	n := t.stormKey(app)
	if !f.storm.OfferUncounted(f.key, t.now) {
		return
	}
	key := string(f.key[:n])
	held := f.budget.Take(app)
	t.complete(app, summary(held, key), held.Total-1)
	if known := f.apps.Peek(app); known != nil {
		f.raised(*known)
	}
}

// summary returns the alert that stands for alerts that are suppressed.
func summary(held ratelimit.Summary, key string) alert.Alert {
	return held.Fill(alert.Alert{Severity: held.Severity, DedupKey: key})
}
