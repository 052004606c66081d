package threshold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
)

// Rule is [States] as a detection rule.
type Rule struct {
	rule.Instant
	*States
}

// NewRule returns the rule for an app.
func NewRule(*rule.App) rule.Rule { return &Rule{States: New()} }

// Observe returns a finding when the memory or a circuit changes its state.
func (r *Rule) Observe(e *rule.Event, _ time.Time) []rule.Finding {
	var found rule.Finding
	var ok bool
	switch {
	case e.Memory != nil:
		found, ok = r.Memory(e.App, e.Memory)
	case e.Circuit != nil:
		found, ok = r.Circuit(e.App, e.Circuit)
	}
	if !ok {
		return nil
	}
	return []rule.Finding{found}
}

// Count counts the circuits that were forgotten.
func (r *Rule) Count(c *rule.Counts) { c.EvictedCircuits += r.Evicted() }
