package fold

import (
	"github.com/tocsin-bus/tocsin/services/detector/errortrack"
	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// maxEscalations is how many errors of all apps are watched for the end of their
// escalation, as maxSpikes is how many spikes are.
const maxEscalations = 100

// escalations are the errors that escalate, each with what was told of it. As with
// spikes, an error is counted until what was told of it has ended, by whatever rule the
// app is judged then.
type escalations struct {
	open    *lru.Map[escalation, errortrack.Told]
	evicted uint64
}

// escalation is an error of an app, by its fingerprint.
type escalation struct {
	app         *app
	fingerprint uint64
}

func newEscalations() escalations {
	return escalations{open: lru.New[escalation, errortrack.Told](maxEscalations)}
}

func (e *escalations) begin(of escalation, what errortrack.Told) {
	if _, gone := e.open.Add(of, what); gone != nil {
		e.evicted++
	}
}

// forget watches the errors of an app no more.
func (e *escalations) forget(a *app) {
	for of := range e.open.All() {
		if of.app == a {
			e.open.Delete(of)
		}
	}
}

// has reports whether an error of an app escalates.
func (e *escalations) has(a *app) bool {
	for of := range e.open.All() {
		if of.app == a {
			return true
		}
	}
	return false
}

// escalate counts the error that a has just taken, where anybody asks how fast each
// comes. It raises an alert where the rule that asks is in force.
func (t *turn) escalate(a *app, e *telemetry.Event) {
	if a.ruleset.Anomaly == ruleset.Ratio3x && !a.errors.Counted() {
		return
	}
	found, ok := a.errors.Escalates(a.name, e, t.fold.template, t.now)
	if !ok || a.ruleset.Anomaly.InForce(a.young()) != ruleset.RateTail {
		return
	}
	key, held, leaves := t.admit(a.name, found.Alert, false)
	if !leaves {
		return
	}
	found.Alert.DedupKey = key
	said := t.say(a, found.Alert, held)
	a.links.escalated(said)
	t.fold.escalations.begin(escalation{a, found.Fingerprint}, errortrack.ToldBy(*said))
}

// calm publishes the ends of escalations. One that is held back is tried again with
// the next message.
func (t *turn) calm() {
	for of, told := range t.fold.escalations.open.All() {
		end, over, moved := of.app.errors.Calm(of.fingerprint, t.now)
		if moved {
			t.fold.changed(of.app)
		}
		if !over {
			continue
		}
		if _, left := t.offer(of.app, told.Resolution(of.app.name, end)); left {
			t.fold.escalations.open.Delete(of)
			t.settle(of.app)
		}
	}
}

// lead names in a spike of the logs the error that came most often, where errors are
// counted one by one.
func (t *turn) lead(a *app, spike *alert.Alert) {
	if name, count := a.errors.Leading(t.now); name != "" {
		spike.Context["leading_fingerprint"], spike.Context["leading_count"] = name, count
	}
}
