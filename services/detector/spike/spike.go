// Package spike is the detection rule for errors that come faster than they usually do.
//
// It counts the errors of an app in two signals, logs and requests. Each signal is counted
// by the rules that the settings and the age of the app need. The rule ratio3x finds more
// than 3 times the rolling average (ratio.go). The rule rate-tail finds counts that are very
// unlikely given the app's own rate, and drifts (package ratetail).
//
// Only the rule in force opens incidents. An open incident continues until it has ended,
// also when the other rule is in force by then. The other rule opens no incident of the same
// signal meanwhile.
package spike

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/network"
	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Rule counts the errors of one app.
type Rule struct {
	app            *rule.App
	logs, requests counters
	outcomes       outcomes
}

// NewRule returns the rule for an app. It counts nothing before Switch was called.
func NewRule(app *rule.App) rule.Rule { return &Rule{app: app} }

// incidentKey distinguishes the incidents of an app.
type incidentKey struct {
	signal string
	kind   incidentKind
}

// incidentKind is what an incident is, and which counter found it.
type incidentKind uint8

const (
	ratioSpike incidentKind = iota // a spike, found by RatioCounter
	tailSpike                      // a spike or a recurring burst, found by ratetail.Counter
	tailDrift                      // a drift, found by ratetail.Counter
)

// encode returns the key as a number, for [rule.Incident].
func (k incidentKey) encode() uint64 {
	key := 2 * uint64(k.kind)
	if k.signal == alert.SignalRequests {
		key++
	}
	return key
}

func decodeKey(key uint64) incidentKey {
	return incidentKey{[...]string{alert.SignalLogs, alert.SignalRequests}[key%2], incidentKind(key / 2)}
}

func (r *Rule) counters(signal string) *counters {
	if signal == alert.SignalLogs {
		return &r.logs
	}
	return &r.requests
}

// Observe counts a log of level error, or a request.
func (r *Rule) Observe(e *rule.Event, now time.Time) []rule.Finding {
	switch {
	case e.Log != nil && e.Log.Level == telemetry.LevelError:
		return r.count(alert.SignalLogs, e.Young, now)
	case e.Network != nil:
		failed := network.Failed(e.Network.Status)
		r.outcomes.add(now, failed)
		if failed {
			return r.count(alert.SignalRequests, e.Young, now)
		}
	}
	return nil
}

// count counts an error of a signal by each rule that the app needs.
func (r *Rule) count(signal string, young bool, now time.Time) (found []rule.Finding) {
	c := r.counters(signal)
	if c.ratio != nil {
		key := incidentKey{signal, ratioSpike}
		if spike, ok := c.ratio.Add(now); ok && r.mayOpen(key, young) {
			found = append(found, opening(key, spike.Alert(r.app.Name, signal)))
		}
	}
	if c.tail == nil {
		return found
	}
	if burst, ok := c.tail.Add(now, r.outcomes.failing(now)); ok {
		found = append(found, r.tailFindings(burst, signal, young, now)...)
	}
	return found
}

// tailFindings returns the alert about what rate-tail found, if the rule may raise it.
func (r *Rule) tailFindings(burst ratetail.Finding, signal string, young bool, now time.Time) []rule.Finding {
	key := incidentKey{signal, tailSpike}
	if burst.Kind == ratetail.Drift {
		key.kind = tailDrift
	}
	open, isOpen := r.app.Incidents.Find(key.encode())
	revises := burst.Upgrades && isOpen // the severity of the open alert changes
	if !revises && !r.mayOpen(key, young) {
		return nil
	}
	raised := burst.Alert(r.app.Name, signal)
	if burst.Kind == ratetail.Spike && signal == alert.SignalLogs {
		r.addLeadingError(&raised, now)
	}
	if revises {
		raised.Revises = open.ID
		return []rule.Finding{{Alert: raised}}
	}
	return []rule.Finding{opening(key, raised)}
}

func opening(key incidentKey, a alert.Alert) rule.Finding {
	return rule.Finding{Alert: a, Opens: &rule.Incident{Key: key.encode()}}
}

// mayOpen reports whether an incident may be opened: the rule that found it is in force, and
// the other rule has no spike open in the same signal. A drift may begin during a spike.
func (r *Rule) mayOpen(key incidentKey, young bool) bool {
	finder, other := ruleset.RateTail, incidentKey{key.signal, ratioSpike}
	if key.kind == ratioSpike {
		finder, other.kind = ruleset.Ratio3x, tailSpike
	}
	if r.app.Choice.Anomaly.InForce(young) != finder {
		return false
	}
	return key.kind == tailDrift || !r.isOpen(other)
}

func (r *Rule) isOpen(key incidentKey) bool {
	_, open := r.app.Incidents.Find(key.encode())
	return open
}

// addLeadingError adds to an alert about logs the error that came most often, if errors are
// counted one by one.
func (r *Rule) addLeadingError(spike *alert.Alert, now time.Time) {
	if name, count := r.app.Leading(now); name != "" {
		spike.Context["leading_fingerprint"], spike.Context["leading_count"] = name, count
	}
}

// Tick returns the end of a spike or a drift.
func (r *Rule) Tick(i rule.Incident, now time.Time) (end []rule.Finding, changed bool) {
	resolution, ended, changed := r.advance(decodeKey(i.Key), i.ID, now)
	if ended {
		end = []rule.Finding{{Alert: resolution}}
	}
	return end, changed
}

// advance lets time pass for an incident. If that has ended, it returns the resolution of
// the incident's alert, which has the id.
func (r *Rule) advance(key incidentKey, id string, now time.Time) (resolution alert.Alert, ended, changed bool) {
	c := r.counters(key.signal)
	if key.kind == ratioSpike {
		if c.ratio == nil {
			return r.droppedResolution(key, id), true, false
		}
		counted, ended, changed := c.ratio.Over(now)
		if ended {
			resolution = counted.Resolution(r.app.Name, key.signal, id)
		}
		return resolution, ended, changed
	}
	if c.tail == nil {
		return r.droppedResolution(key, id), true, false
	}
	over := c.tail.Over
	if key.kind == tailDrift {
		over = c.tail.DriftOver
	}
	end, ended, changed := over(now)
	if ended {
		resolution = end.Resolution(r.app.Name, key.signal, id)
	}
	return resolution, ended, changed
}

// droppedResolution returns the resolution of an incident that has no counter any more. The
// snapshot of an earlier version can have one.
func (r *Rule) droppedResolution(key incidentKey, id string) (resolution alert.Alert) {
	switch key.kind {
	case tailSpike:
		resolution = ratetail.Finding{Kind: ratetail.SpikeOver}.Resolution(r.app.Name, key.signal, id)
	case tailDrift:
		resolution = ratetail.Finding{Kind: ratetail.DriftOver}.Resolution(r.app.Name, key.signal, id)
	default:
		resolution = RatioSpike{}.Resolution(r.app.Name, key.signal, id)
	}
	resolution.Detail, resolution.Context = "The app uses another rule now", map[string]any{alert.SignalKey: key.signal}
	return resolution
}

// Switch starts and drops counters. A new counter continues from what the other one knows.
func (r *Rule) Switch(young bool, now time.Time) (changed bool) {
	ratio := r.app.Choice.Anomaly.InForce(young) == ruleset.Ratio3x
	tail := r.app.Choice.Anomaly != ruleset.Ratio3x // also while the app is young: it learns
	for _, signal := range []string{alert.SignalLogs, alert.SignalRequests} {
		c := r.counters(signal)
		next := c.keep(
			ratio || r.isOpen(incidentKey{signal, ratioSpike}),
			tail || r.isOpen(incidentKey{signal, tailSpike}) || r.isOpen(incidentKey{signal, tailDrift}), now)
		changed = changed || next != *c
		*c = next
	}
	return changed
}

// Count counts the bursts that recur.
func (r *Rule) Count(c *rule.Counts) { c.Recurring += r.logs.recurred() + r.requests.recurred() }

// Size is about how many bytes the counters take.
func (r *Rule) Size() int { return r.logs.size() + r.requests.size() }

// State reads or writes the counters.
func (r *Rule) State(s *snapshot.Codec) {
	snapshot.Message(s, 1, &r.logs, (*counters).state)
	snapshot.Message(s, 2, &r.requests, (*counters).state)
	snapshot.Message(s, 3, &r.outcomes, (*outcomes).state)
}
