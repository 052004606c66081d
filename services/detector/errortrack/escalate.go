package errortrack

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// An error escalates when it comes far faster than it usually does (rate.go). One that
// is new, or back, has no rate that is usual: then only what is much even for an error
// of which nothing is known counts, because its coming was the news.

// Escalation is the error that escalates, and what says so. Errors know it by its
// fingerprint alone: the one that it has now, which may not be the name of it.
type Escalation struct {
	Fingerprint uint64
	Alert       alert.Alert
}

// escalates is before the error in the title that says so.
const escalates = "Error escalates: "

// stateEscalating is the state that the alerts of it tell.
const stateEscalating = "escalating"

// escalating is behind the dedup key of the error: that it escalates, and that this is
// over, must not take the place of that it is new.
const escalating = ":escalating"

// Escalates counts the error that Log took last, with its event and its words, and
// reports whether it has begun to escalate with that.
func (e *Errors) Escalates(app string, event *telemetry.Event, words []byte, now time.Time) (Escalation, bool) {
	k := e.latest.known
	if k.rate == nil {
		e.count(k, newRate(now))
	}
	found, ok := k.rate.add(now)
	if !ok {
		return Escalation{}, false
	}
	id := e.identify(event.Log, words)
	return Escalation{Fingerprint: e.latest.fingerprint, Alert: sighting{app, event, words, id, *k, 0}.escalates(found)}, true
}

// Calm lets time pass for an error that escalated, and reports whether it does no more.
// Then end is what is counted now; moved reports whether something was counted again. One
// that is no longer known, or counted, is calm, and there is no finding.
func (e *Errors) Calm(fingerprint uint64, now time.Time) (end ratetail.Finding, calm, moved bool) {
	k := e.known.Peek(fingerprint)
	if k == nil || k.rate == nil {
		return ratetail.Finding{}, true, false
	}
	return k.rate.calm(now)
}

// resolution returns the alert that ends an escalation of an app.
func resolution(app string, i rule.Incident, end ratetail.Finding) alert.Alert {
	a := alert.Alert{
		Severity: alert.Info, Category: alert.Errors, Source: alert.SourceErrors, Resolves: i.ID, DedupKey: dedupKey(app, i.Name) + escalating,
		Title: "Resolved: " + i.Title, Detail: end.Resolution(app, alert.SignalLogs, i.ID).Detail, Context: map[string]any{fingerprintKey: i.Name},
	}
	switch {
	case end == (ratetail.Finding{}):
		a.Detail = "It is no longer known how fast it comes"
	case end.Kind == ratetail.SpikeStayed:
		a.Title = strings.Replace(i.Title, escalates, "Error stays as frequent, which is usual now: ", 1)
		a.Context[alert.OutcomeKey] = alert.NewLevel
	}
	return a
}

// Leading is the error that came most often within the last 10 s, of those that are
// counted: its name, and how often. The name is empty where none came.
func (e *Errors) Leading(now time.Time) (name string, count int64) {
	newest := now.Add(-window).UnixMilli()
	for _, k := range e.known.All() {
		if k.rate == nil || k.last <= newest {
			continue
		}
		if counted, _, _ := k.rate.small.Over(now); counted.Count >= count { // of equals the latest
			name, count = nameOf(k.name), counted.Count
		}
	}
	return name, count
}

// window is the time in which what comes counts as now.
const window = 10 * time.Second

// Counting reports whether any error is counted in time.
func (e *Errors) Counting() bool { return e.rates > 0 }

// StopCounting stops counting errors in time, and reports whether any was counted.
func (e *Errors) StopCounting() (changed bool) {
	changed = e.rates > 0
	for _, k := range e.known.All() {
		e.uncount(k)
	}
	return changed
}

func (e *Errors) count(k *record, r *rate) {
	k.rate = r
	e.rates++
}

func (e *Errors) uncount(k *record) {
	if k.rate != nil {
		k.rate = nil
		e.rates--
	}
}

func (s sighting) escalates(found ratetail.Finding) alert.Alert {
	spike := found.Alert(s.app, alert.SignalLogs)
	a := s.alert(escalates, stateEscalating, fmt.Sprintf("%s (first seen %s, seen %d times): %s", spike.Detail, s.since(), s.known.seen, s.event.Log.Message))
	delete(spike.Context, alert.SignalKey)
	maps.Copy(a.Context, spike.Context)
	a.DedupKey += escalating
	return a
}
