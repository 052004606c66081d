// Package trigger decides which alerts start an investigation by themselves. It is pure: the
// time is an argument, and it knows no bus, no queue and no session. The limits of the queue and
// of an hour are those of a submission. One goroutine uses a [Triggers].
package trigger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// MaxAge is how old an alert may be that starts a session.
	MaxAge = 10 * time.Minute
	// MaxKnown is how many alerts are remembered with what they last were. Past it the one that
	// changed least recently is forgotten: a revision of it starts nothing.
	MaxKnown = 10_000
	// MaxEnded is how many dedup keys are remembered with the end of their last session. Past it
	// the oldest end is forgotten, and its cooldown with it.
	MaxEnded = 10_000
)

// Rule names the chain for the alerts that match.
type Rule struct {
	Match Match
	Chain string
	// Cooldown begins with the end of the last session of an alert's dedup key.
	Cooldown time.Duration
}

// Circumstances are what an alert does not say of itself.
type Circumstances struct {
	// Stored is when the alert was stored. The zero value means its own timestamp: a revision
	// may have that of the original.
	Stored                                    time.Time
	Closed, Inhibited, Silenced, Acknowledged bool
	// SessionOpen is set if a session of the alert's dedup key has not ended. The alert joins it.
	SessionOpen bool
}

// Action is what to do with an alert.
type Action uint8

// The actions.
const (
	// Skip leaves the alert as it is.
	Skip Action = iota
	// Start submits the alert to the chain.
	Start
)

// Reason is why an alert starts nothing. It labels a metric.
type Reason string

// The reasons.
const (
	ReasonOwnApp       Reason = "own_app"
	ReasonInvestigated Reason = "investigated"
	ReasonResolves     Reason = "resolves"
	ReasonClosed       Reason = "closed"
	ReasonInhibited    Reason = "inhibited"
	ReasonSilenced     Reason = "silenced"
	ReasonAcknowledged Reason = "acknowledged"
	// ReasonNotWorse is that of a revision without a higher severity or, for CI, another status.
	ReasonNotWorse Reason = "not_worse"
	// ReasonUnknown is that of a revision of an alert that is not known.
	ReasonUnknown  Reason = "unknown_original"
	ReasonNoRule   Reason = "no_rule"
	ReasonTooOld   Reason = "too_old"
	ReasonCooldown Reason = "cooldown"
	// The submission of a session that starts may be refused: for a full queue, for the limit of
	// an hour, for a full store, or for something else.
	ReasonQueueFull Reason = "queue_full"
	ReasonLimit     Reason = "max_per_hour"
	ReasonStoreFull Reason = "store_full"
	ReasonRefused   Reason = "refused"
)

// Reasons lists every reason.
func Reasons() []Reason {
	return []Reason{
		ReasonOwnApp, ReasonInvestigated, ReasonResolves, ReasonClosed, ReasonInhibited, ReasonSilenced, ReasonAcknowledged,
		ReasonNotWorse, ReasonUnknown, ReasonNoRule, ReasonTooOld, ReasonCooldown, ReasonQueueFull, ReasonLimit,
		ReasonStoreFull, ReasonRefused,
	}
}

// Decision is what to do with an alert, and why.
type Decision struct {
	Action Action
	// Rule is the index of the rule that matched, or -1, and Chain its chain.
	Rule  int
	Chain string
	// Reason is empty for Start.
	Reason Reason
}

// known is what an alert last was.
type known struct {
	// id is that of the alert or its last revision, and seq its place in the stream, if it has one.
	id  string
	seq uint64
	// severity and status are what a revision is compared with.
	severity int
	status   string
	// decided is set if there is a decision for id.
	decided  bool
	decision Decision
}

// Triggers decides, and remembers what it has to.
type Triggers struct {
	// rules are tried in order, and the first that matches decides.
	rules []Rule
	// known is by the ID of the original, ended by dedup key.
	known *simplelru.LRU[string, *known]
	ended *simplelru.LRU[string, time.Time]
}

// ErrConfig is returned for a rule that can't be obeyed.
var ErrConfig = errors.New("invalid triggers")

// New returns triggers that know no alert. The first rule that matches an alert decides.
func New(rules ...Rule) (*Triggers, error) {
	k, err := simplelru.NewLRU[string, *known](MaxKnown, nil)
	if err != nil {
		return nil, fmt.Errorf("remember alerts: %w", err)
	}
	ended, err := simplelru.NewLRU[string, time.Time](MaxEnded, nil)
	if err != nil {
		return nil, fmt.Errorf("remember ends of sessions: %w", err)
	}
	t := &Triggers{known: k, ended: ended}
	return t, t.Configure(rules...)
}

// Configure replaces the rules, and keeps what is remembered. After an error the last ones stay.
func (t *Triggers) Configure(rules ...Rule) error {
	for i, r := range rules {
		switch {
		case r.Chain == "":
			return fmt.Errorf("%w: rule %d has no chain", ErrConfig, i+1)
		case r.Cooldown < 0:
			return fmt.Errorf("%w: rule %d has a cooldown below 0", ErrConfig, i+1)
		case r.Match.SeverityMin != "" && r.Match.SeverityMin.Rank() == 0:
			return fmt.Errorf("%w: rule %d has the severity %q", ErrConfig, i+1, r.Match.SeverityMin)
		}
	}
	t.rules = slices.Clone(rules)
	return nil
}

// Key returns the key by which the sessions of an alert are one: its dedup key, or the ID of the
// original.
func Key(a alert.Alert) string {
	if a.DedupKey != "" {
		return a.DedupKey
	}
	return original(a)
}

func original(a alert.Alert) string {
	if a.Revises != "" {
		return a.Revises
	}
	return a.ID
}

// Decide decides on an alert. The same alert again has the same decision.
func (t *Triggers) Decide(a alert.Alert, c Circumstances, now time.Time) Decision {
	if a.Investigation != nil { // its other fields may be older than the alert's last revision
		return skip(ReasonInvestigated)
	}
	k, isKnown := t.known.Get(original(a))
	if isKnown && k.id == a.ID && k.decided {
		return k.decision
	}
	if isKnown && a.Seq != 0 && a.Seq < k.seq { // an older revision, read again
		return skip(ReasonNotWorse)
	}
	var before *known
	if isKnown {
		earlier := *k
		before = &earlier
	}
	k = t.remember(a)
	d := t.decide(a, c, before, now)
	k.decided, k.decision = true, d
	return d
}

// Remember records an alert that was raised before the triggers started. Its revisions are
// compared with it.
func (t *Triggers) Remember(a alert.Alert) {
	if a.Investigation == nil {
		t.remember(a)
	}
}

func (t *Triggers) remember(a alert.Alert) *known {
	next := &known{id: a.ID, seq: a.Seq, severity: a.Severity.Rank(), status: status(a)}
	t.known.Add(original(a), next)
	return next
}

func skip(r Reason) Decision { return Decision{Rule: -1, Reason: r} }

func (t *Triggers) decide(a alert.Alert, c Circumstances, before *known, now time.Time) Decision {
	switch {
	case a.App == telemetry.ReservedApp:
		return skip(ReasonOwnApp)
	case a.Resolves != "" || a.Resolved:
		return skip(ReasonResolves)
	case c.Closed:
		return skip(ReasonClosed)
	case c.Inhibited || a.InhibitedBy != "":
		return skip(ReasonInhibited)
	case c.Silenced:
		return skip(ReasonSilenced)
	case c.Acknowledged:
		return skip(ReasonAcknowledged)
	case a.Revises != "" && before == nil:
		return skip(ReasonUnknown)
	case before != nil && !worse(a, before):
		return skip(ReasonNotWorse)
	}
	n := slices.IndexFunc(t.rules, func(r Rule) bool { return r.Match.Matches(a) })
	if n < 0 {
		return skip(ReasonNoRule)
	}
	rule := t.rules[n]
	d := Decision{Rule: n, Chain: rule.Chain}
	stored := c.Stored
	if stored.IsZero() {
		stored = a.Timestamp
	}
	end, ended := t.ended.Peek(Key(a))
	switch {
	case now.Sub(stored) > MaxAge:
		d.Reason = ReasonTooOld
	case c.SessionOpen:
		d.Action = Start
	case ended && now.Before(end.Add(rule.Cooldown)):
		d.Reason = ReasonCooldown
	default:
		d.Action = Start
	}
	return d
}

// worse reports whether a revision has a higher severity or, for CI, another status than the
// alert had before.
func worse(a alert.Alert, before *known) bool {
	if a.Category == alert.CI {
		return status(a) != before.status
	}
	return a.Severity.Rank() > before.severity
}

// status returns the status of a CI alert.
func status(a alert.Alert) string {
	if a.Category != alert.CI {
		return ""
	}
	return text(a, "status")
}

// Ended records the end of a session with a dedup key. Ends may come in any order.
func (t *Triggers) Ended(key string, at time.Time) {
	if last, ok := t.ended.Peek(key); ok && !at.After(last) {
		return
	}
	t.ended.Add(key, at)
}
