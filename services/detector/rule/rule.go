// Package rule is what all detection rules have in common.
//
// A rule watches one app for one kind of problem. It is given the events of the app, and
// returns what it finds in them; where that lasts, as an error spike does, it also says
// when it has ended. Each rule is a package with a type that implements [Rule], and a
// line in the table of package fold, which gives the rules their events, publishes what
// they find, and keeps their state.
//
// Rules have no clock: the time is an argument, so the same events give the same
// findings. They bound what they remember, whatever events hold.
package rule

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Rule is a detection rule for one app.
type Rule interface {
	// Observe takes an event and returns what the rule finds with it, mostly nothing. The
	// findings are good until the next call. Events that noise rules hide are left out.
	Observe(e *Event, now time.Time) []Finding
	// Tick lets time pass for an incident that the rule found and that is open. It
	// returns the end once the incident has ended, and reports whether the state has
	// changed. An end that cannot be published yet is asked for again.
	Tick(i Incident, now time.Time) (end []Finding, changed bool)
	// State has what the rule remembers.
	State(s *snapshot.State)
	// Size is about how many bytes that takes.
	Size() int
}

// Event is an event of an app that no noise rule hides.
type Event struct {
	*telemetry.Event
	// App is the name of the app.
	App string
	// Template is the template of a log's message, or of the path of a request's URL. It
	// is good until the next event.
	Template []byte
	// Tool reports whether a log comes from a browser extension or a development tool.
	Tool bool
	// Young reports whether the app is in its first 10 min.
	Young bool
}

// App is the app that a rule watches. Of an app that there is no room to remember only
// Name is set.
type App struct {
	Name string
	// Choice is which rules the settings choose for the app.
	Choice ruleset.Set
	// Incidents are those of the rule that are open.
	Incidents Incidents
	// Leading returns the error that came most often in the last 10 s, and how often. The
	// name is empty if none came or errors are not counted.
	Leading func(now time.Time) (name string, count int64)
}

// Incident is something that lasts, of which an alert was published.
type Incident struct {
	// Key tells the incidents of one rule and app apart.
	Key uint64
	// ID and Title are those of the first alert, Name is the rule's own.
	ID, Title, Name string
}

// Incidents are the incidents of one rule and app that are open.
type Incidents interface {
	// Find returns the incident with a key, if it is open.
	Find(key uint64) (Incident, bool)
	// Any reports whether an incident is open.
	Any() bool
}

// Switcher is a rule that consists of several, of which the choice and the age of the
// app decide which one raises alerts.
type Switcher interface {
	// Switch starts the rules that are needed from now on, and drops those that are
	// neither needed nor have anything open. It reports whether the state has changed.
	Switch(young bool, now time.Time) (changed bool)
}

// Leader is a rule that counts errors one by one.
type Leader interface {
	// Leading is that of [App].
	Leading(now time.Time) (name string, count int64)
}

// Counted is a rule that counts what it remembers and forgets.
type Counted interface {
	// Count adds the rule's counts.
	Count(c *Counts)
}

// Counts are those of the rules of all apps.
type Counts struct {
	// Pages and Errors are remembered now.
	Pages, Errors int
	// Recurring counts bursts of errors that came by their schedules and whose alerts
	// stayed at severity info.
	Recurring uint64
	// The others count what was forgotten for lack of room.
	EvictedPages, EvictedErrors, EvictedCircuits, EvictedTargets uint64
}

// Instant is part of rules whose findings do not last.
type Instant struct{}

// Tick returns nothing.
func (Instant) Tick(Incident, time.Time) ([]Finding, bool) { return nil, false }

// Stateless is part of rules that remember nothing.
type Stateless struct{ Instant }

// State has nothing.
func (Stateless) State(*snapshot.State) {}

// Size is zero.
func (Stateless) Size() int { return 0 }
