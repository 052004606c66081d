package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/errortrack"
	"github.com/tocsin-bus/tocsin/services/detector/frustration"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/release"
	"github.com/tocsin-bus/tocsin/services/detector/rules"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/threshold"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// app is what the rules remember of one app.
type app struct {
	name           string
	rules          rules.Set
	pages          pages
	errors         *errortrack.Errors
	logs, requests signal
	noise          *noise.App
	states         *threshold.States
	targets        *frustration.Targets
	releases       release.Releases
	links          links

	// size is about how many bytes the app takes, as the fold has counted it.
	size int
	// encoded is the app in a snapshot, nil when it has changed since.
	encoded []byte
}

func newApp(name string, set rules.Set, now time.Time) *app {
	return &app{
		name: name, rules: set, pages: newPages(set.Regression), errors: errortrack.New(), logs: newSignal(set.Anomaly, now), requests: newSignal(set.Anomaly, now),
		noise: noise.New(name, set.Noise), states: threshold.New(), targets: frustration.New(),
	}
}

// appSize is about what an app takes that remembers nothing, in bytes.
const appSize = 2048

func (a *app) measure() int {
	return appSize + len(a.name) + a.pages.Size() + a.errors.Size() + a.logs.Size() + a.requests.Size() +
		a.noise.Size() + a.states.Size() + a.targets.Size() + a.releases.Size()
}

func (a *app) save(w *snapshot.Writer) {
	savePages(a.rules.Regression, a.pages, w)
	a.errors.Save(w)
	a.logs.save(w)
	a.requests.save(w)
	a.noise.Save(w)
	a.states.Save(w)
	a.targets.Save(w)
	a.links.regression.save(w)
	a.links.anomaly.save(w)
	a.releases.Save(w)
	a.links.escalation.save(w)
}

// restoreApp reads what save wrote. Errors are in r.
func restoreApp(name string, set rules.Set, r *snapshot.Reader) *app {
	a := &app{
		name: name, rules: set,
		pages: restorePages(set.Regression, r), errors: errortrack.Restore(r), logs: restoreSignal(r), requests: restoreSignal(r),
		noise: noise.Restore(name, set.Noise, r), states: threshold.Restore(r), targets: frustration.Restore(r),
		links: links{regression: restoreLink(r), anomaly: restoreLink(r)},
	}
	if r.Has(snapshot.Trust) {
		a.releases = release.Restore(r)
		a.links.escalation = restoreLink(r)
	}
	return a
}

// judge gives the signals and the errors what the app's rules need from now on, and
// says whether they lacked or had anything else.
func (a *app) judge(now time.Time) (changed bool) {
	logs, requests := a.logs.judgedBy(a.rules.Anomaly, now), a.requests.judgedBy(a.rules.Anomaly, now)
	changed = logs != a.logs || requests != a.requests
	a.logs, a.requests = logs, requests
	if a.rules.Anomaly == rules.Ratio3x && a.errors.Uncounted() {
		changed = true
	}
	return changed
}

// links are the newest alerts of an app that others can belong to; of several
// at one time, the first.
type links struct{ regression, anomaly, escalation link }

// link is when such an alert came, and its correlation id.
type link struct {
	at time.Time
	id string
}

// correlationWindow is how far a regression and an anomaly may be apart to
// belong together, in both directions and inclusive.
const correlationWindow = 5 * time.Second

// correlate gives an alert the correlation id of the one it belongs to: the
// newest, and of several at one time, such as the regressions of one load, the
// first. That is the one with which alert.Digest joins it. The end of either
// belongs to none.
func (l *links) correlate(a *alert.Alert) {
	if a.Over() {
		return
	}
	own, other := &l.regression, &l.anomaly
	switch a.Category {
	case alert.Regression:
	case alert.Anomaly:
		own, other = other, own
	default:
		return
	}
	switch {
	case other.near(a):
		a.CorrelationID = other.id
	case a.Category == alert.Anomaly && l.escalation.near(a):
		a.CorrelationID = l.escalation.id
	}
	if own.id == "" || !own.at.Equal(a.Timestamp) {
		*own = link{at: a.Timestamp, id: a.CorrelationID}
	}
}

// escalated gives the alert that an error escalates the correlation id of a spike that
// came just before it, and lets one that comes just after have its own: mostly they
// are of the same errors.
func (l *links) escalated(a *alert.Alert) {
	if l.anomaly.near(a) {
		a.CorrelationID = l.anomaly.id
	}
	l.escalation = link{at: a.Timestamp, id: a.CorrelationID}
}

// near says whether an alert came just after this one.
func (l link) near(a *alert.Alert) bool {
	gap := a.Timestamp.Sub(l.at)
	return l.id != "" && gap >= 0 && gap <= correlationWindow
}

func (l link) save(w *snapshot.Writer) {
	w.String(l.id)
	w.Int(l.at.UnixMilli())
}

func restoreLink(r *snapshot.Reader) link {
	id, at := r.String(idLen), r.Int()
	if id == "" {
		return link{}
	}
	return link{id: id, at: time.UnixMilli(at).UTC()}
}
