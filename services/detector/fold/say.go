package fold

import "github.com/tocsin-bus/tocsin/shared/alert"

// offer publishes an alert of an app unless its storm is held back.
func (t *turn) offer(a *app, found alert.Alert) {
	t.fold.key = append(t.fold.key[:0], found.DedupKey...)
	if key, held, leaves := t.leave(a.name); leaves {
		found.DedupKey = key
		t.say(a, found, held)
	}
}

// leave asks whether an alert with the dedup key in the fold's buffer may leave.
// When it may, key is the key for it.
func (t *turn) leave(app string) (key string, held int, leaves bool) {
	n := t.stormKey(app)
	held, leaves = t.fold.storm.Offer(t.fold.key, t.now)
	return t.passed(n, leaves), held, leaves
}

// leaveRevised is leave for an alert that takes the place of an earlier one,
// which is in no count.
func (t *turn) leaveRevised(app string) (key string, held int, leaves bool) {
	n := t.stormKey(app)
	leaves = t.fold.storm.OfferRevision(t.fold.key, t.now)
	return t.passed(n, leaves), 0, leaves
}

// stormKey makes of the dedup key in the fold's buffer the key for the storm
// limiter, which begins with the dedup key of the length that it returns.
func (t *turn) stormKey(app string) int {
	f := t.fold
	f.key = bounded(f.key)
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
func (t *turn) say(a *app, found alert.Alert, held int) {
	a.links.correlate(t.publish(a.name, found, held))
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
