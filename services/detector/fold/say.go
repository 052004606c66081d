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
	f := t.fold
	f.key = bounded(f.key)
	n := len(f.key)
	f.key = append(append(f.key, 0), app...)
	held, leaves = f.storm.Offer(f.key, t.now)
	if !leaves {
		f.count.held++
		return "", 0, false
	}
	return string(f.key[:n]), held, true
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
