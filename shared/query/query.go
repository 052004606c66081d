// Package query defines the requests that services answer on the bus. The detector reads every
// event and remembers the newest, so readers of telemetry ask it and need not follow the
// stream.
//
// Requests and replies are JSON over NATS request-reply, served by nats.go's micro package
// under the name [Service]. A refusal has the error headers of micro; its text is for people.
package query

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Service is the service name of the detector.
const Service = "tocsin-detector"

// The subjects of the detector's endpoints.
const (
	SubjectEvents = "query.events"
	SubjectStatus = "query.status"
	SubjectNoise  = "query.noise"
)

// MaxReply bounds a reply in bytes, below the default maximum payload of NATS servers, 1 MB.
// Further events are left out, and Truncated is set.
const MaxReply = 900_000

// Bounds on EventsRequest.Limit.
const (
	DefaultLimit = 50
	MaxLimit     = 200
)

// EventsRequest asks for remembered events, newest first.
type EventsRequest struct {
	// Kinds are those to search; empty means all.
	Kinds []telemetry.Kind `json:"kinds,omitempty"`
	// App is exact; empty means all.
	App string `json:"app,omitempty"`
	// URL is a substring of the event's page or request URL.
	URL string `json:"url,omitempty"`
	// MinRank is the lowest severity rank (alert.Severity.Rank) an event must
	// have; 0 means all.
	MinRank int `json:"min_rank,omitempty"`
	// Since leaves out events that arrived earlier; zero means no bound.
	Since time.Time `json:"since,omitzero"`
	// Until leaves out events that arrived later; zero means no bound.
	Until time.Time `json:"until,omitzero"`
	// Limit is the maximum number of events: 0 means DefaultLimit, and the most is MaxLimit.
	Limit int `json:"limit,omitempty"`
	// Paged asks for the position of each event and the number of older ones.
	Paged bool `json:"paged,omitempty"`
	// Before leaves out the event at a position and all later ones; zero means no bound.
	Before EventPosition `json:"before,omitzero"`
}

// MaxOlder bounds EventsReply.Older.
const MaxOlder = 1000

// EventPosition is the position of an event in the stream TELEMETRY: the sequence of its
// message, and the index in that.
type EventPosition struct {
	Seq   uint64 `json:"seq"`
	Index int    `json:"index"`
}

// Compare returns -1 where p is before q, 1 where it is after q, and 0 where they are equal.
func (p EventPosition) Compare(q EventPosition) int {
	return cmp.Or(cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Index, q.Index))
}

// StoredEvent is an event as stored, with the time of its arrival on the bus.
type StoredEvent struct {
	telemetry.Event
	Received time.Time `json:"received"`
	// Position is set in the answer to a Paged request.
	Position EventPosition `json:"position,omitzero"`
}

// EventsReply answers an EventsRequest.
type EventsReply struct {
	Events []StoredEvent `json:"events"`
	// Truncated means that events were left out because of MaxReply.
	Truncated bool `json:"truncated,omitempty"`
	// Older is how many more events match, in the answer to a Paged request: at most MaxOlder
	// are counted in each partition.
	Older int `json:"older,omitempty"`
	Part
}

// Part is what a reply lacks. Telemetry may be split into partitions, each answered by its
// owner.
type Part struct {
	// Unanswered are the partitions that no detector answered for, as during a takeover: their
	// apps are missing.
	Unanswered []int `json:"unanswered,omitempty"`
}

// Incomplete describes what the reply lacks, or is empty.
func (p Part) Incomplete() string {
	if len(p.Unanswered) == 0 {
		return ""
	}
	return fmt.Sprintf("no detector answers for %d partitions of telemetry: their apps are missing here; ask again in 5 s", len(p.Unanswered))
}

// StatusReply lists the apps with telemetry, and the state of the detector.
type StatusReply struct {
	Apps     []AppStatus    `json:"apps"`
	Detector DetectorStatus `json:"detector"`
}

// AppStatus is the state of one app.
type AppStatus struct {
	App string `json:"app"`
	// Senders are the products that sent events of it, at most 8.
	Senders []string `json:"senders"`
	// LastEventSeconds is the age of the newest event, in seconds.
	LastEventSeconds float64 `json:"last_event_seconds"`
	// LastMinute is how many events arrived in the last 60 s.
	LastMinute int `json:"events_last_minute"`
	// History reports whether the app has raised an alert, or was seen for over 10 min.
	History bool `json:"history,omitempty"`
}

// DetectorStatus is the state of the detector.
type DetectorStatus struct {
	// Ready means that it has caught up with the stream.
	Ready bool `json:"ready"`
	// Behind is its lag in messages.
	Behind uint64 `json:"behind"`
	// Lost counts messages that the stream dropped before they were read. With several
	// partitions it is an upper bound, over all of them.
	Lost uint64 `json:"lost"`
	// AppsNotTracked is how many apps had an event within the last 24 h and are not tracked,
	// because 1,000 others are: at most 10,000. A StatusReply does not list them.
	AppsNotTracked int `json:"apps_not_tracked,omitempty"`
	// Rules are the detection rules in use. There are several where detectors are configured
	// differently, which is a mistake: the rules for an app then depend on its owner.
	Rules []string `json:"rules,omitempty"`
	Part
}

// NoiseAction is the action of a NoiseRequest.
type NoiseAction string

// The noise actions.
const (
	NoiseList       NoiseAction = "list"
	NoiseAdd        NoiseAction = "add"
	NoiseRemove     NoiseAction = "remove"
	NoiseAutoDetect NoiseAction = "auto_detect"
)

// NoiseRequest lists or changes the noise rules.
type NoiseRequest struct {
	Action NoiseAction `json:"action"`
	// App limits list, add and auto_detect to one app; empty means all.
	App string `json:"app,omitempty"`
	// Kind limits an added rule to log or network; empty means both.
	Kind telemetry.Kind `json:"kind,omitempty"`
	// Pattern is the plain substring that an added rule matches.
	Pattern string `json:"pattern,omitempty"`
	// RuleID is the rule to remove; or, for add without a pattern, the proposed or removed rule
	// to apply.
	RuleID string `json:"rule_id,omitempty"`
}

// NoiseReply answers a NoiseRequest with the rules after it.
type NoiseReply struct {
	Rules []NoiseRule `json:"rules"`
	// Removed are automatic rules that were removed by a user and do not return by
	// themselves: by app, the one removed last first, at most MaxRemoved.
	Removed []RemovedRule `json:"removed,omitempty"`
	// Added is the ID of the added rule.
	Added string `json:"added,omitempty"`
	// Found is how many new patterns auto_detect found, 0 for other actions.
	Found int `json:"found"`
	// HiddenTotal is how many events all rules have hidden, including those that the reply has
	// no room for.
	HiddenTotal uint64 `json:"hidden_total,omitempty"`
	// Truncated means that rules were left out because of MaxReply.
	Truncated bool `json:"truncated,omitempty"`
	Part
}

// NoiseRule is one rule, applied or only proposed.
type NoiseRule struct {
	ID  string `json:"rule_id"`
	App string `json:"app,omitempty"`
	// State is applied, proposed or manual.
	State      string         `json:"state"`
	Kind       telemetry.Kind `json:"kind,omitempty"`
	Pattern    string         `json:"pattern"`
	Confidence float64        `json:"confidence,omitempty"`
	// Hidden is how many events the rule has kept from raising alerts.
	Hidden  uint64 `json:"hidden"`
	Example string `json:"example,omitempty"`

	// HiddenLast10Min is how many of them arrived within the 10 minutes before the newest
	// event, counted by minutes.
	HiddenLast10Min uint64 `json:"hidden_last_10min"`
	// AlertsHeld is how many of them could have raised an alert: lines of level error, failed
	// requests.
	AlertsHeld uint64 `json:"alerts_held"`
	// WouldHide, WouldHideLast10Min and WouldHoldAlerts are the same for a proposed rule: what
	// it would have hidden since the proposal and in the 10 minutes before it, as far as that
	// was counted (29 of one template).
	WouldHide          uint64 `json:"would_hide,omitempty"`
	WouldHideLast10Min uint64 `json:"would_hide_last_10min,omitempty"`
	WouldHoldAlerts    uint64 `json:"would_hold_alerts,omitempty"`
	// ByLevel counts the lines in Hidden by level; for a proposed rule those in WouldHide since
	// the proposal.
	ByLevel map[telemetry.Level]uint64 `json:"by_level,omitempty"`
	// Examples are different messages or URLs that it matched recently, at most 3, the newest
	// last.
	Examples []string `json:"examples,omitempty"`
	// Since is when it was applied or proposed, LastSeen when it last matched. Rules from
	// before these were recorded lack them.
	Since    time.Time `json:"since,omitzero"`
	LastSeen time.Time `json:"last_seen,omitzero"`
}

// MaxRemoved is how many removed rules a NoiseReply holds at most.
const MaxRemoved = 50

// RemovedRule is an automatic rule that was removed. Add with its ID applies it again.
type RemovedRule struct {
	ID      string         `json:"rule_id"`
	App     string         `json:"app,omitempty"`
	Kind    telemetry.Kind `json:"kind,omitempty"`
	Pattern string         `json:"pattern"`
}
