package frustration

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
)

// Rule is [Targets] as a detection rule.
type Rule struct {
	rule.Instant
	*Targets
}

// NewRule returns the rule for an app.
func NewRule(*rule.App) rule.Rule { return &Rule{Targets: New()} }

// Observe returns a finding when a burst of clicks or submissions is complete.
func (r *Rule) Observe(e *rule.Event, now time.Time) []rule.Finding {
	if e.Action == nil {
		return nil
	}
	if a, ok := r.Action(e.App, e.Event, now); ok {
		return []rule.Finding{{Alert: a}}
	}
	return nil
}

// Count counts the targets that were forgotten.
func (r *Rule) Count(c *rule.Counts) { c.EvictedTargets += r.Evicted() }
