// Package spike is the detection rule for errors that come faster than they usually do.
//
// It counts the errors of an app in two signals, logs and requests, by the rules that the
// choice and the age of the app need: package anomaly finds more than 3 times the rolling
// average, package ratetail counts that are unlikely given the app's own rate, and
// drifts. Only the rule in force raises alerts. One that has an incident open continues
// until that has ended, whatever rule is in force then, and no other raises an alert
// about the same signal meanwhile.
package spike

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/anomaly"
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
	logs, requests signal
	outcomes       outcomes
}

// NewRule returns the rule for an app. It counts nothing before Switch was called.
func NewRule(app *rule.App) rule.Rule { return &Rule{app: app} }

// source is what an incident is of: a signal, and what found it.
type source struct {
	signal string
	by     finder
}

// finder is what finds something that has an end.
type finder uint8

const (
	byRatio finder = iota // anomaly.Counter
	byTail                // ratetail.Counter: a spike or a recurring burst
	byDrift               // ratetail.Counter: a drift
)

// key returns the key of an incident.
func (s source) key() uint64 {
	key := 2 * uint64(s.by)
	if s.signal == alert.SignalRequests {
		key++
	}
	return key
}

// sourceOf returns the source of an incident with a key.
func sourceOf(key uint64) source {
	return source{[...]string{alert.SignalLogs, alert.SignalRequests}[key%2], finder(key / 2)}
}

func (r *Rule) signal(name string) *signal {
	if name == alert.SignalLogs {
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
func (r *Rule) count(name string, young bool, now time.Time) (found []rule.Finding) {
	counters := r.signal(name)
	if counters.ratio != nil {
		of := source{name, byRatio}
		if spike, ok := counters.ratio.Add(now); ok && r.raises(of, young) {
			found = append(found, opening(of, spike.Alert(r.app.Name, name)))
		}
	}
	if counters.tail == nil {
		return found
	}
	burst, ok := counters.tail.Add(now, r.outcomes.failing(now))
	if !ok {
		return found
	}
	of := source{name, byTail}
	if burst.Kind == ratetail.Drift {
		of.by = byDrift
	}
	open, isOpen := r.app.Incidents.Find(of.key())
	raises := burst.Upgrades && isOpen // the severity of the alert that is open
	if !raises && !r.raises(of, young) {
		return found
	}
	news := burst.Alert(r.app.Name, name)
	if burst.Kind == ratetail.Spike && name == alert.SignalLogs {
		r.lead(&news, now)
	}
	if raises {
		news.Revises = open.ID
		return append(found, rule.Finding{Alert: news})
	}
	return append(found, opening(of, news))
}

func opening(of source, a alert.Alert) rule.Finding {
	return rule.Finding{Alert: a, Opens: &rule.Incident{Key: of.key()}}
}

// raises reports whether a source may raise an alert: its rule is in force, and the
// other has none open, which it ends by itself.
func (r *Rule) raises(of source, young bool) bool {
	needed, other := ruleset.RateTail, source{of.signal, byRatio}
	if of.by == byRatio {
		needed, other.by = ruleset.Ratio3x, byTail
	}
	if r.app.Choice.Anomaly.InForce(young) != needed {
		return false
	}
	return of.by == byDrift || !r.open(other)
}

func (r *Rule) open(of source) bool {
	_, open := r.app.Incidents.Find(of.key())
	return open
}

// lead names in a spike of the logs the error that came most often, where errors are
// counted one by one.
func (r *Rule) lead(spike *alert.Alert, now time.Time) {
	if name, count := r.app.Leading(now); name != "" {
		spike.Context["leading_fingerprint"], spike.Context["leading_count"] = name, count
	}
}

// Tick returns the end of a spike or a drift.
func (r *Rule) Tick(i rule.Incident, now time.Time) (end []rule.Finding, changed bool) {
	a, over, changed := r.end(sourceOf(i.Key), i.ID, now)
	if over {
		end = []rule.Finding{{Alert: a}}
	}
	return end, changed
}

// end lets time pass for a source, and returns the end of its incident, of which the
// alert with an id was published.
func (r *Rule) end(of source, id string, now time.Time) (end alert.Alert, over, changed bool) {
	counters := r.signal(of.signal)
	if of.by == byRatio {
		if counters.ratio == nil {
			return r.dropped(of, id), true, false
		}
		counted, over, changed := counters.ratio.Over(now)
		if over {
			end = counted.Resolution(r.app.Name, of.signal, id)
		}
		return end, over, changed
	}
	if counters.tail == nil {
		return r.dropped(of, id), true, false
	}
	ask := counters.tail.Over
	if of.by == byDrift {
		ask = counters.tail.DriftOver
	}
	found, over, changed := ask(now)
	if over {
		end = found.Resolution(r.app.Name, of.signal, id)
	}
	return end, over, changed
}

// dropped returns the end of an incident that nothing counts any more. A snapshot of an
// older version can have one.
func (r *Rule) dropped(of source, id string) (end alert.Alert) {
	switch of.by {
	case byTail:
		end = ratetail.Finding{Kind: ratetail.SpikeOver}.Resolution(r.app.Name, of.signal, id)
	case byDrift:
		end = ratetail.Finding{Kind: ratetail.DriftOver}.Resolution(r.app.Name, of.signal, id)
	default:
		end = anomaly.Spike{}.Resolution(r.app.Name, of.signal, id)
	}
	end.Detail, end.Context = "The app uses another rule now", map[string]any{alert.SignalKey: of.signal}
	return end
}

// Switch starts and drops counters, which continue from what the others know.
func (r *Rule) Switch(young bool, now time.Time) (changed bool) {
	ratio := r.app.Choice.Anomaly.InForce(young) == ruleset.Ratio3x
	tail := r.app.Choice.Anomaly != ruleset.Ratio3x // also while the app is young: it learns
	for _, name := range []string{alert.SignalLogs, alert.SignalRequests} {
		counters := r.signal(name)
		next := counters.with(
			ratio || r.open(source{name, byRatio}),
			tail || r.open(source{name, byTail}) || r.open(source{name, byDrift}), now)
		changed = changed || next != *counters
		*counters = next
	}
	return changed
}

// Count counts the bursts that recur.
func (r *Rule) Count(c *rule.Counts) { c.Recurring += r.logs.recurred() + r.requests.recurred() }

// Size is about how many bytes the counters take.
func (r *Rule) Size() int { return r.logs.size() + r.requests.size() }

// State has the counters.
func (r *Rule) State(s *snapshot.State) {
	snapshot.Message(s, 1, &r.logs, (*signal).state)
	snapshot.Message(s, 2, &r.requests, (*signal).state)
	snapshot.Message(s, 3, &r.outcomes, (*outcomes).state)
}
