package fold

import (
	"github.com/tocsin-bus/tocsin/services/detector/finding"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// track publishes what a rule found, or its end, and has the rule remember what
// left.
func (t *turn) track(a *app, found finding.Finding) {
	if id, left := t.offer(a, found.Alert); left {
		found.Told(id)
	}
}

// offer publishes an alert of an app unless its storm is held back, and returns
// its id when it has left.
func (t *turn) offer(a *app, found alert.Alert) (id string, left bool) {
	key, held, leaves := t.leaveOnce(a.name, found)
	if !leaves {
		return "", false
	}
	found.DedupKey = key
	return t.say(a, found, held).ID, true
}

// leaveOnce asks whether an alert may leave, as leave does. One that tells
// nothing new, a revision or no more than an end, is bounded as every alert is,
// but held back it is in no count, and it tells none.
func (t *turn) leaveOnce(app string, a alert.Alert) (key string, held int, leaves bool) {
	t.fold.key = append(t.fold.key[:0], a.DedupKey...)
	if a.Revises == "" && !a.OnlyResolves() {
		return t.leave(app)
	}
	n := t.stormKey(app)
	leaves = t.fold.storm.OfferUncounted(t.fold.key, t.now)
	return t.passed(n, leaves), 0, leaves
}

// leave asks whether an alert with the dedup key in the fold's buffer may leave.
// When it may, key is the key for it.
func (t *turn) leave(app string) (key string, held int, leaves bool) {
	n := t.stormKey(app)
	held, leaves = t.fold.storm.Offer(t.fold.key, t.now)
	return t.passed(n, leaves), held, leaves
}

// stormKey makes of the dedup key in the fold's buffer the key for the storm
// limiter, which begins with the dedup key of the length that it returns.
func (t *turn) stormKey(app string) int {
	f := t.fold
	f.key = finding.Bounded(f.key)
	n := len(f.key)
	f.key = append(append(f.key, 0), app...)
	return n
}

// passed is the dedup key for an alert that leaves, and counts others as held.
func (t *turn) passed(n int, leaves bool) string {
	if !leaves {
		t.fold.count.held++
		return ""
	}
	return string(t.fold.key[:n])
}

// say publishes an alert of an app and links it to those it belongs to.
func (t *turn) say(a *app, found alert.Alert, held int) *alert.Alert {
	said := t.publish(a.name, found, held)
	a.links.correlate(said)
	return said
}

// publish completes an alert that leaves.
func (t *turn) publish(app string, a alert.Alert, held int) *alert.Alert {
	a.ID = t.id()
	t.ordinal++
	a.App, a.Timestamp, a.CorrelationID = app, t.now, a.ID
	if held > 0 {
		a.Count = 1 + held
	}
	clean(&a)
	t.alerts = append(t.alerts, a)
	return &t.alerts[len(t.alerts)-1]
}
