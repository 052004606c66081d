// Package rule defines what all detection rules have in common.
//
// A rule watches one app for one kind of problem. It observes the events of the app and
// returns its findings. If a problem lasts, as an error spike does, the rule also finds its
// end. Each rule is a package with a type that implements [Rule], and a line in the table of
// package fold, which calls the rules, publishes their findings and stores their state.
//
// Rules have no clock: the time is an argument, so the same events give the same findings.
// Each bounds its memory, because senders choose the events.
package rule

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Rule is a detection rule for one app.
type Rule interface {
	// Observe returns the findings of an event, usually none. They are valid until the next
	// call. The rule does not get events that noise rules hide.
	Observe(e *Event, now time.Time) []Finding
	// Tick lets time pass for an open incident of the rule. It returns the end once the
	// incident has ended, and reports whether the state has changed. If the end is
	// suppressed, Tick is called again.
	Tick(i Incident, now time.Time) (end []Finding, changed bool)
	// State reads or writes the rule's state, depending on [snapshot.Codec.Reading].
	State(s *snapshot.Codec)
	// Size is about how many bytes the state takes.
	Size() int
}

// Event is an event of an app that no noise rule hides.
type Event struct {
	*telemetry.Event
	// App is the name of the app.
	App string
	// Template is the template of a log's message, or of the path of a request's URL. It is
	// valid until the next event.
	Template []byte
	// Tool reports whether a log comes from a browser extension or a development tool.
	Tool bool
	// Young reports whether the app is in its first 10 min.
	Young bool
}

// App is the app that a rule watches. It is empty for apps that are not tracked.
type App struct {
	Name string
	// Choice has the variants of rules that the settings choose for the app.
	Choice ruleset.Set
	// Incidents are the open incidents of the rule.
	Incidents Incidents
	// Leading returns the error that came most often in the last 10 s, and how often it came.
	// The name is empty if no error came or errors are not counted one by one.
	Leading func(now time.Time) (name string, count int64)
}

// Incident is a problem that lasts, such as a spike, and whose alert was published.
type Incident struct {
	// Key identifies the incident among those of the rule and app.
	Key uint64
	// ID and Title are those of the first alert. Name is for the rule's own use.
	ID, Title, Name string
}

// Incidents are the open incidents of one rule and app.
type Incidents interface {
	// Find returns the incident with a key, if it is open.
	Find(key uint64) (Incident, bool)
	// Any reports whether an incident is open.
	Any() bool
}

// Switcher is a rule with several variants. The settings and the age of the app decide which
// variant raises alerts.
type Switcher interface {
	// Switch starts the variants that are needed from now on. It drops those that are not
	// needed and have no open incident. It reports whether the state has changed.
	Switch(young bool, now time.Time) (changed bool)
}

// Leader is a rule that counts errors one by one.
type Leader interface {
	// Leading implements App.Leading.
	Leading(now time.Time) (name string, count int64)
}

// Counted is a rule with counts for the detector's metrics.
type Counted interface {
	// Count adds the rule's counts to c.
	Count(c *Counts)
}

// Counts are sums over the rules.
type Counts struct {
	// Pages and Errors are how many are remembered now.
	Pages, Errors int
	// Recurring counts bursts of errors that came by their schedules and whose alerts
	// stayed at severity info.
	Recurring uint64
	// The others count what was forgotten for lack of room.
	EvictedPages, EvictedErrors, EvictedCircuits, EvictedTargets uint64
}

// Instant is embedded in rules that open no incidents.
type Instant struct{}

// Tick implements [Rule].
func (Instant) Tick(Incident, time.Time) ([]Finding, bool) { return nil, false }

// Stateless is embedded in rules that remember nothing.
type Stateless struct{ Instant }

// IsStateless reports that one value can serve any number of apps.
func (Stateless) IsStateless() bool { return true }

// State implements [Rule].
func (Stateless) State(*snapshot.Codec) {}

// Size implements [Rule].
func (Stateless) Size() int { return 0 }
