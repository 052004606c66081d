package errortrack

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Rule raises an alert for errors that are new or back, and, with the error-spike rule
// rate-tail, for those that escalate. An incident is an error that escalates; its key is
// the error's fingerprint.
type Rule struct {
	*Errors
	app *rule.App
}

// NewRule returns the rule for an app.
func NewRule(app *rule.App) rule.Rule { return &Rule{Errors: New(), app: app} }

// Observe returns findings for a log of level error.
func (r *Rule) Observe(e *rule.Event, now time.Time) (found []rule.Finding) {
	if e.Log == nil || e.Log.Level != telemetry.LevelError {
		return nil
	}
	if raised, ok := r.Log(e.App, e.Event, e.Tool, e.Template, now); ok {
		found = append(found, rule.Finding{Alert: raised})
	}
	if r.app.Choice.Anomaly == ruleset.Ratio3x && !r.CountsRates() {
		return found
	}
	escalation, ok := r.DetectEscalation(e.App, e.Event, e.Template, now)
	if !ok || r.app.Choice.Anomaly.InForce(e.Young) != ruleset.RateTail {
		return found
	}
	name, _ := escalation.Alert.Context[fingerprintKey].(string)
	return append(found, rule.Finding{Alert: escalation.Alert, Opens: &rule.Incident{Key: escalation.Fingerprint, Name: name}})
}

// Tick returns the end of an escalation.
func (r *Rule) Tick(i rule.Incident, now time.Time) (end []rule.Finding, changed bool) {
	counted, ended, changed := r.Advance(i.Key, now)
	if ended {
		end = []rule.Finding{{Alert: resolution(r.app.Name, i, counted)}}
	}
	return end, changed
}

// Switch stops counting the rates of errors once no variant of the rules needs them.
func (r *Rule) Switch(bool, time.Time) (changed bool) {
	return r.app.Choice.Anomaly == ruleset.Ratio3x && !r.app.Incidents.Any() && r.StopCountingRates()
}

// Count adds the numbers of errors to c.
func (r *Rule) Count(c *rule.Counts) {
	c.Errors += r.Len()
	c.EvictedErrors += r.Evicted()
}

// Escalating reports whether an alert is about an error that has begun to escalate.
func Escalating(a *alert.Alert) bool {
	return a.Category == alert.Errors && a.Context["state"] == stateEscalating
}
