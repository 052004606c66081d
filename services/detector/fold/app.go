package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/errortrack"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// app is the state of one app.
type app struct {
	name string
	// untracked reports whether there is no room for the app. Then it is dropped after its
	// events of one message.
	untracked bool
	age       age
	noise     *noise.App
	// rules are the rules of the table, in its order, with their states.
	rules    []rule.Rule
	releases releases
	links    links

	// size is the part of Fold.bytes that is counted for the app.
	size int
	// encoded is the app in the last snapshot, nil if it has changed since.
	encoded []byte
}

// newApp returns an app whose first event is observed now.
func (f *Fold) newApp(name string, now time.Time) *app {
	a := f.emptyApp(name)
	a.age = age{first: now, last: now}
	a.switchRules(now)
	return a
}

// emptyApp returns an app without an age, whose rules are not switched yet.
func (f *Fold) emptyApp(name string) *app {
	choice := f.cfg.Rules.For(name)
	a := &app{name: name, noise: noise.New(name, choice.Noise.InForce()), rules: make([]rule.Rule, 0, len(table))}
	for i, e := range table {
		a.rules = append(a.rules, e.new(f.ruleApp(a, choice, i)))
	}
	return a
}

// ruleApp returns what the rule with an index in the table sees of an app.
func (f *Fold) ruleApp(a *app, choice ruleset.Set, index int) *rule.App {
	return &rule.App{Name: a.name, Choice: choice, Incidents: openIncidents{f.incidents.open[index], a}, Leading: a.leadingError}
}

// leadingError returns the error that came most often in the last 10 s.
func (a *app) leadingError(now time.Time) (name string, count int64) {
	if leader, ok := findRule[rule.Leader](a); ok {
		return leader.Leading(now)
	}
	return "", 0
}

// findRule returns the first rule of an app that is a T.
func findRule[T any](a *app) (found T, ok bool) {
	for _, r := range a.rules {
		if found, ok = r.(T); ok {
			return found, true
		}
	}
	return found, false
}

// appSize is about what an app without state takes, in bytes.
const appSize = 2048

// measure returns about how many bytes the app takes.
func (a *app) measure() int {
	size := appSize + len(a.name) + a.noise.Size() + a.releases.size
	for _, r := range a.rules {
		size += r.Size()
	}
	return size
}

func (a *app) state(s *snapshot.Codec) {
	snapshot.Message(s, 1, &a.age, (*age).state)
	snapshot.Message(s, 2, a.noise, (*noise.App).State)
	snapshot.Message(s, 3, &a.releases, (*releases).state)
	snapshot.Message(s, 5, &a.links, (*links).state)
	for i, e := range table {
		snapshot.Message(s, e.number, &a.rules[i], func(r *rule.Rule, s *snapshot.Codec) { (*r).State(s) })
	}
}

// switchRules starts and drops variants of rules, by the age of the app and its open
// incidents. It reports whether the state has changed.
func (a *app) switchRules(now time.Time) (changed bool) {
	for _, r := range a.rules {
		if r, ok := r.(rule.Switcher); ok && r.Switch(a.isYoung(), now) {
			changed = true
		}
	}
	return changed
}

// links are the newest alerts of an app with which later alerts can be correlated. Of
// several at the same time the first is kept.
type links struct{ regression, anomaly, escalation link }

// link is the time of such an alert and its correlation id.
type link struct {
	time time.Time
	id   string
}

// correlationWindow is the largest time between a regression and an anomaly that belong
// together, in either order.
const correlationWindow = 5 * time.Second

// correlate gives an alert the correlation id of the one that it belongs to: the newest, and
// of several at the same time, such as the regressions of one load, the first. alert.Digest
// joins the two. Resolutions belong to no other alert.
func (l *links) correlate(a *alert.Alert) {
	if a.IsResolution() {
		return
	}
	own, other := &l.regression, &l.anomaly
	switch {
	case a.Category == alert.Regression:
	case a.Category == alert.Anomaly:
		own, other = other, own
	case errortrack.Escalating(a):
		l.correlateEscalation(a)
		return
	default:
		return
	}
	switch {
	case other.isBefore(a):
		a.CorrelationID = other.id
	case a.Category == alert.Anomaly && l.escalation.isBefore(a):
		a.CorrelationID = l.escalation.id
	}
	if own.id == "" || !own.time.Equal(a.Timestamp) {
		*own = link{time: a.Timestamp, id: a.CorrelationID}
	}
}

// correlateEscalation gives the alert about an escalating error the correlation id of a spike
// just before it. A spike just after it gets the id of the escalation. Usually both are about
// the same errors.
func (l *links) correlateEscalation(a *alert.Alert) {
	if l.anomaly.isBefore(a) {
		a.CorrelationID = l.anomaly.id
	}
	l.escalation = link{time: a.Timestamp, id: a.CorrelationID}
}

// isBefore reports whether an alert came within correlationWindow after the linked one.
func (l link) isBefore(a *alert.Alert) bool {
	gap := a.Timestamp.Sub(l.time)
	return l.id != "" && gap >= 0 && gap <= correlationWindow
}

func (l *links) state(s *snapshot.Codec) {
	snapshot.Message(s, 1, &l.regression, (*link).state)
	snapshot.Message(s, 2, &l.anomaly, (*link).state)
	snapshot.Message(s, 3, &l.escalation, (*link).state)
}

func (l *link) state(s *snapshot.Codec) {
	s.String(1, &l.id, idLen)
	s.Time(2, &l.time)
}
