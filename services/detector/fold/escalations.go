package fold

import (
	"github.com/tocsin-bus/tocsin/services/detector/errortrack"
	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/rules"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// maxEscalations is how many errors of all apps are watched for the end of their
// escalation, as maxSpikes is how many spikes are.
const maxEscalations = 100

// escalations are the errors that escalate, each with what was told of it. As with
// spikes, what was told in the shadow ends there, by whatever rule an app is judged
// then.
type escalations struct {
	open    *lru.Map[escalation, told]
	evicted uint64
}

type told struct {
	errortrack.Told
	shadow bool
}

// escalation is an error of an app, by its fingerprint.
type escalation struct {
	app         *app
	fingerprint uint64
}

func newEscalations() escalations {
	return escalations{open: lru.New[escalation, told](maxEscalations)}
}

func (e *escalations) begin(of escalation, what told) {
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

// escalate counts the error that a has just taken, where the app's rules ask how fast
// each comes.
func (t *turn) escalate(a *app, e *telemetry.Event) {
	if a.rules.Anomaly == rules.Ratio3x {
		return
	}
	found, ok := a.errors.Escalates(a.name, e, t.fold.template, t.now)
	if !ok {
		return
	}
	of := escalation{a, found.Fingerprint}
	if a.rules.Anomaly == rules.Both {
		found.Alert.ID = t.whisper(a, found.Alert)
		t.fold.escalations.begin(of, told{errortrack.ToldBy(found.Alert), true})
		return
	}
	key, held, leaves := t.admit(a.name, found.Alert, false)
	if !leaves {
		return
	}
	found.Alert.DedupKey = key
	said := t.say(a, found.Alert, held)
	a.links.escalated(said)
	t.fold.escalations.begin(of, told{errortrack.ToldBy(*said), false})
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
		ended := told.Resolution(of.app.name, end)
		if told.shadow {
			t.whisper(of.app, ended)
		} else if _, left := t.offer(of.app, ended); !left {
			continue
		}
		t.fold.escalations.open.Delete(of)
	}
}

// lead names in a spike of the logs the error that came most often, where errors are
// counted one by one.
func (t *turn) lead(a *app, spike *alert.Alert) {
	if name, count := a.errors.Leading(t.now); name != "" {
		spike.Context["leading_fingerprint"], spike.Context["leading_count"] = name, count
	}
}

// save writes the open escalations, by the names of their apps.
func (e *escalations) save(w *snapshot.Writer) {
	w.Len(e.open.Len())
	for of, told := range e.open.All() {
		w.String(of.app.name)
		w.Uint(of.fingerprint)
		told.Save(w)
		w.Bool(told.shadow)
	}
}

// restoreEscalations reads what save wrote. Errors are in r.
func restoreEscalations(apps *lru.Map[string, *app], r *snapshot.Reader) escalations {
	e := newEscalations()
	for range r.Len(maxEscalations) {
		name, fingerprint, what := r.String(maxApp), r.Uint(), told{errortrack.RestoreTold(r), r.Bool()}
		if known := apps.Peek(name); known != nil {
			e.begin(escalation{*known, fingerprint}, what)
		}
	}
	return e
}
