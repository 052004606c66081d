package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/errortrack"
	"github.com/tocsin-bus/tocsin/services/detector/frustration"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/release"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/threshold"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// app is what the rules remember of one app.
type app struct {
	name string
	// untracked reports whether there is no room to remember anything of the app: it has a
	// name and lasts for one message.
	untracked      bool
	ruleset        ruleset.Set
	age            age
	pages          pages
	errors         *errortrack.Errors
	logs, requests signal
	noise          *noise.App
	states         *threshold.States
	targets        *frustration.Targets
	releases       release.Releases
	links          links
	outcomes       outcomes

	// size is about how many bytes the app takes, as the fold has counted it.
	size int
	// encoded is the app in a snapshot, nil when it has changed since.
	encoded []byte
}

// newApp is an app whose first event comes now.
func newApp(name string, set ruleset.Set, now time.Time) *app {
	a := emptyApp(name, set)
	a.age = age{first: now, last: now}
	a.settle(opened{}, now)
	return a
}

// emptyApp is an app that still needs an age.
func emptyApp(name string, set ruleset.Set) *app {
	return &app{
		name: name, ruleset: set, errors: errortrack.New(),
		noise: noise.New(name, set.Noise.InForce()), states: threshold.New(), targets: frustration.New(),
	}
}

// appSize is about what an app takes that remembers nothing, in bytes.
const appSize = 2048

func (a *app) measure() int {
	return appSize + len(a.name) + a.pages.Size() + a.errors.Size() + a.logs.Size() + a.requests.Size() +
		a.noise.Size() + a.states.Size() + a.targets.Size() + a.releases.Size()
}

// The numbers of the fields of an app. Those of rules begin at 16.
const (
	fieldErrors      = 16
	fieldSpikes      = 18
	fieldRegressions = 19
	fieldFrustration = 20
	fieldThresholds  = 21
)

func (a *app) state(s *snapshot.State) {
	snapshot.Message(s, 1, &a.age, (*age).state)
	snapshot.Message(s, 2, a.noise, (*noise.App).State)
	snapshot.Message(s, 3, &a.releases, (*release.Releases).State)
	snapshot.Message(s, 4, &a.outcomes, (*outcomes).state)
	snapshot.Message(s, 5, &a.links, (*links).state)
	snapshot.Message(s, fieldErrors, a.errors, (*errortrack.Errors).State)
	snapshot.Message(s, fieldSpikes, a, (*app).signals)
	snapshot.Message(s, fieldRegressions, &a.pages, (*pages).state)
	snapshot.Message(s, fieldFrustration, a.targets, (*frustration.Targets).State)
	snapshot.Message(s, fieldThresholds, a.states, (*threshold.States).State)
}

func (a *app) signals(s *snapshot.State) {
	snapshot.Message(s, 1, &a.logs, (*signal).state)
	snapshot.Message(s, 2, &a.requests, (*signal).state)
}

// opened are the alerts of an app that are open, as far as the fold keeps them: of each
// signal those of the rule by ratio and of the rule by rate, and of errors that escalate.
type opened struct {
	logs, requests struct{ ratio, tail bool }
	escalations    bool
}

// settle gives the app what the rules in force need from now on, and lets go of what
// nobody needs any more: a rule that is no longer in force is fed until the last alert
// that it raised has ended. It reports whether anything changed.
func (a *app) settle(open opened, now time.Time) (changed bool) {
	ratio := a.ruleset.Anomaly.InForce(a.young()) == ruleset.Ratio3x
	tail := a.ruleset.Anomaly != ruleset.Ratio3x // also while the app is young: it learns
	logs := a.logs.with(ratio || open.logs.ratio, tail || open.logs.tail, now)
	requests := a.requests.with(ratio || open.requests.ratio, tail || open.requests.tail, now)
	changed = logs != a.logs || requests != a.requests
	a.logs, a.requests = logs, requests
	if !tail && !open.escalations && a.errors.Uncounted() {
		changed = true
	}
	return a.pages.settle(a.ruleset.Regression, a.young()) || changed
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
	if a.IsResolution() {
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

func (l *links) state(s *snapshot.State) {
	snapshot.Message(s, 1, &l.regression, (*link).state)
	snapshot.Message(s, 2, &l.anomaly, (*link).state)
	snapshot.Message(s, 3, &l.escalation, (*link).state)
}

func (l *link) state(s *snapshot.State) {
	s.String(1, &l.id, idLen)
	s.Time(2, &l.at)
}
