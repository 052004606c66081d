package security

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Rule raises an alert for each security event.
type Rule struct {
	rule.Stateless
	key   []byte
	found [1]rule.Finding // reused, so that a storm allocates little
}

// NewRule returns the rule for an app.
func NewRule(*rule.App) rule.Rule { return &Rule{} }

// Observe returns a finding for a security event.
func (r *Rule) Observe(e *rule.Event, _ time.Time) []rule.Finding {
	if e.Security == nil {
		return nil
	}
	r.key = AppendKey(r.key[:0], e.App, e.Security)
	r.found[0] = rule.Finding{
		Alert: alert.Alert{Category: alert.Security, Severity: alert.Warning}, Key: r.key,
		Make: func() alert.Alert { return Alert(e.Event) },
	}
	return r.found[:]
}
