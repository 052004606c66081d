package network

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Rule raises an alert for each request that failed.
type Rule struct {
	rule.Stateless
	key   []byte
	found [1]rule.Finding // reused, so that a storm allocates little
}

// NewRule returns the rule for an app.
func NewRule(*rule.App) rule.Rule { return &Rule{} }

// Observe returns a finding for a request that failed.
func (r *Rule) Observe(e *rule.Event, _ time.Time) []rule.Finding {
	if e.Network == nil {
		return nil
	}
	severity, failed := Severity(e.Network.Status)
	if !failed {
		return nil
	}
	r.key = AppendKey(r.key[:0], e.Network, e.Template)
	r.found[0] = rule.Finding{
		Alert: alert.Alert{Category: alert.NetworkErrors, Severity: severity}, Key: r.key,
		Make: func() alert.Alert { return Alert(e.Network, string(e.Template)) },
	}
	return r.found[:]
}
