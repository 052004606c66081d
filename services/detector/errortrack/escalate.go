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

// Escalation is the alert about an error that escalates: it comes far faster than it usually
// does (rate.go). An error that is new or back has no usual rate and has just raised an
// alert, so only a rate that is high for any error is an escalation.
type Escalation struct {
	// Fingerprint identifies the error for [Errors.Advance]. Its name in alerts may differ.
	Fingerprint uint64
	Alert       alert.Alert
}

// escalationTitle precedes the error's template in the title.
const escalationTitle = "Error escalates: "

// stateEscalating is the state in the context of the alerts.
const stateEscalating = "escalating"

// escalationSuffix follows the dedup key of the error, so that an alert about an escalation
// does not replace the one about a new error.
const escalationSuffix = ":escalating"

// DetectEscalation counts the error of the last call of Log, and reports whether it begins to
// escalate.
func (e *Errors) DetectEscalation(app string, event *telemetry.Event, messageTemplate []byte, now time.Time) (Escalation, bool) {
	k := e.latest.known
	if k.rate == nil {
		e.startRate(k, newRate(now))
	}
	found, ok := k.rate.add(now)
	if !ok {
		return Escalation{}, false
	}
	id := e.identify(event.Log, messageTemplate)
	return Escalation{Fingerprint: e.latest.fingerprint, Alert: sighting{app, event, messageTemplate, id, *k, 0}.escalationAlert(found)}, true
}

// Advance lets time pass for an error that escalates, and reports whether the escalation has
// ended and whether the state has changed. end has the present counts. It is zero for an
// error that is no longer known or counted, whose escalation has ended.
func (e *Errors) Advance(fingerprint uint64, now time.Time) (end ratetail.Finding, ended, changed bool) {
	k := e.known.Peek(fingerprint)
	if k == nil || k.rate == nil {
		return ratetail.Finding{}, true, false
	}
	return k.rate.advance(now)
}

// resolution returns the alert that ends an escalation in an app.
func resolution(app string, i rule.Incident, end ratetail.Finding) alert.Alert {
	a := alert.Alert{
		Severity: alert.Info, Category: alert.Errors, Source: alert.SourceErrors, Resolves: i.ID, DedupKey: dedupKey(app, i.Name) + escalationSuffix,
		Title: "Resolved: " + i.Title, Detail: end.Resolution(app, alert.SignalLogs, i.ID).Detail, Context: map[string]any{fingerprintKey: i.Name},
	}
	switch {
	case end == (ratetail.Finding{}):
		a.Detail = "The rate of this error is no longer known"
	case end.Kind == ratetail.SpikeStayed:
		a.Title = strings.Replace(i.Title, escalationTitle, "Error stays frequent, now treated as normal: ", 1)
		a.Context[alert.OutcomeKey] = alert.NewLevel
	}
	return a
}

// Leading returns the name of the counted error that occurred most often within the last
// 10 s, and how often it did. The name is empty if none occurred.
func (e *Errors) Leading(now time.Time) (name string, count int64) {
	newest := now.Add(-leadingWindow).UnixMilli()
	for _, k := range e.known.All() {
		if k.rate == nil || k.last <= newest {
			continue
		}
		if counted, _, _ := k.rate.small.Over(now); counted.Count >= count { // of equals, the one that occurred last
			name, count = nameOf(k.name), counted.Count
		}
	}
	return name, count
}

// leadingWindow is how far back Leading counts.
const leadingWindow = 10 * time.Second

// CountsRates reports whether the rate of any error is counted.
func (e *Errors) CountsRates() bool { return e.rates > 0 }

// StopCountingRates stops counting the rates of errors, and reports whether any was counted.
func (e *Errors) StopCountingRates() (changed bool) {
	changed = e.rates > 0
	for _, k := range e.known.All() {
		e.stopRate(k)
	}
	return changed
}

func (e *Errors) startRate(k *record, r *rate) {
	k.rate = r
	e.rates++
}

func (e *Errors) stopRate(k *record) {
	if k.rate != nil {
		k.rate = nil
		e.rates--
	}
}

func (s sighting) escalationAlert(found ratetail.Finding) alert.Alert {
	spike := found.Alert(s.app, alert.SignalLogs)
	a := s.buildAlert(escalationTitle, stateEscalating, fmt.Sprintf("%s (first seen %s, seen %d times): %s", spike.Detail, s.since(), s.known.seen, s.event.Log.Message))
	delete(spike.Context, alert.SignalKey)
	maps.Copy(a.Context, spike.Context)
	a.DedupKey += escalationSuffix
	return a
}
