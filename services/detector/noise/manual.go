package noise

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// MaxManual is how many rules can be added by hand, for all apps together.
	MaxManual = 200
	// MaxPattern is the longest pattern of such a rule, in bytes.
	MaxPattern = 500
)

// Errors of commands. The texts name the argument and what is allowed.
var (
	ErrAction  = errors.New("action must be one of list, add, remove, auto_detect")
	ErrPattern = fmt.Errorf("pattern must be 1 to %d bytes that are not all white space", MaxPattern)
	ErrKind    = errors.New("kind must be log or network, or empty for both")
	ErrFull    = fmt.Errorf("there are %d rules added by hand: remove one first", MaxManual)
	ErrNoRule  = errors.New("rule_id names no rule: noise list shows them")
)

// Report is the result of a command.
type Report struct {
	// Added is the id of the rule that was added, found or applied.
	Added string
	// Found is how many new patterns auto_detect found, in one app or all.
	Found int
	// Err is one of the errors above if the command was refused. Then nothing was changed.
	Err error
}

// Check returns an error if a command is invalid. It does not look at the existing rules.
func Check(c query.NoiseRequest) error {
	switch c.Action {
	case query.NoiseList, query.NoiseAutoDetect:
		return nil
	case query.NoiseRemove:
		if c.RuleID == "" {
			return ErrNoRule
		}
		return nil
	case query.NoiseAdd:
		if c.Pattern == "" && c.RuleID != "" {
			return nil
		}
		if strings.TrimSpace(c.Pattern) == "" || len(c.Pattern) > MaxPattern {
			return ErrPattern
		}
		if c.Kind != "" && c.Kind != telemetry.KindLog && c.Kind != telemetry.KindNetwork {
			return ErrKind
		}
		return nil
	default:
		return ErrAction
	}
}

// Manual holds the rules that were added by hand. They hide events of any level whose text
// contains their pattern. The zero value has no rules.
type Manual struct{ rules []manualRule }

type manualRule struct {
	id, app, pattern string
	kind             telemetry.Kind
	seen             record
}

// Add adds a rule for a command that Check has accepted and returns its id. If an equal rule
// exists, it returns the id of that. Its only error is ErrFull.
func (m *Manual) Add(c query.NoiseRequest, now time.Time) (id string, err error) {
	id = ruleID("manual", c.App, string(c.Kind), c.Pattern)
	if m.index(id) >= 0 {
		return id, nil
	}
	if len(m.rules) == MaxManual {
		return "", ErrFull
	}
	r := manualRule{id: id, app: c.App, pattern: c.Pattern, kind: c.Kind}
	r.seen.since = now.UnixMilli()
	m.rules = append(m.rules, r)
	return id, nil
}

// Remove removes a rule and reports whether there was one.
func (m *Manual) Remove(id string) bool {
	i := m.index(id)
	if i >= 0 {
		m.rules = slices.Delete(m.rules, i, i+1)
	}
	return i >= 0
}

func (m *Manual) index(id string) int {
	return slices.IndexFunc(m.rules, func(r manualRule) bool { return r.id == id })
}

// Hides reports whether a rule hides an event of an app, of kind log or network, and counts
// it.
func (m *Manual) Hides(app string, kind telemetry.Kind, s Sighting, now time.Time) bool {
	if len(m.rules) == 0 {
		return false
	}
	text := head(s.Text)
	for i := range m.rules {
		r := &m.rules[i]
		if (r.app == "" || r.app == app) && (r.kind == "" || r.kind == kind) && strings.Contains(text, r.pattern) {
			r.seen.count(s, now.UnixMilli())
			return true
		}
	}
	return false
}

// Rules lists the rules about an app, or all for the empty name, in the order in which they
// were added.
func (m *Manual) Rules(app string, now time.Time) []query.NoiseRule {
	var all []query.NoiseRule
	for i := range m.rules {
		r := &m.rules[i]
		if app == "" || r.app == "" || r.app == app {
			d := query.NoiseRule{ID: r.id, App: r.app, State: StateManual, Kind: r.kind, Pattern: r.pattern}
			r.seen.describe(&d, true, now.UnixMilli())
			all = append(all, d)
		}
	}
	return all
}
