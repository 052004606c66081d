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

// An error escalates when it comes far faster than it usually does (rate.go). An error that
// is new, or back, has no usual rate: then only what is much even for an unknown error
// counts, because its first alert was the news.

// Escalation is the alert about an error that escalates. Fingerprint is the current one, by
// which Errors know the error; its name may differ.
type Escalation struct {
	Fingerprint uint64
	Alert       alert.Alert
}

// escalates precedes the error in the title.
const escalates = "Error escalates: "

// stateEscalating is the state in the context of the alerts.
const stateEscalating = "escalating"

// escalating follows the dedup key of the error, so that the alerts about an escalation do
// not replace the one about a new error.
const escalating = ":escalating"

// Escalates counts the error that Log took last, with its event and its template, and
// reports whether it begins to escalate.
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

// Calm lets time pass for an error that escalates, and reports whether that has ended. Then
// end is what is counted now; changed reports whether the state has changed. An error that
// is no longer known or counted is calm, without a finding.
func (e *Errors) Calm(fingerprint uint64, now time.Time) (end ratetail.Finding, calm, changed bool) {
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

// Leading returns the error that came most often within the last 10 s, of those that are
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

// window is the time in which errors count as current.
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
