// Package query is what the detector answers on the bus: it sees every event
// anyway and remembers the newest, so whoever wants to look at telemetry asks
// it instead of following the stream.
//
// Requests and replies are JSON over NATS request-reply, served by nats.go's
// micro package under the service name Service. A refusal carries the micro
// error headers; its text is for people.
package query

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Service is the name under which the detector registers.
const Service = "tocsin-detector"

// The subjects of the detector's endpoints.
const (
	SubjectEvents = "query.events"
	SubjectStatus = "query.status"
	SubjectNoise  = "query.noise"
)

// MaxReply bounds a reply in bytes, below the 1 MB payload that NATS servers
// allow by default. Events past it are left out and Truncated says so.
const MaxReply = 900_000

// Bounds on EventsRequest.Limit.
const (
	DefaultLimit = 50
	MaxLimit     = 200
)

// EventsRequest asks for remembered events, newest first.
type EventsRequest struct {
	// Kinds to look through; empty means all.
	Kinds []telemetry.Kind `json:"kinds,omitempty"`
	// App is exact; empty means all.
	App string `json:"app,omitempty"`
	// URL is a substring of the event's page or request URL.
	URL string `json:"url,omitempty"`
	// MinRank is the lowest severity rank (alert.Severity.Rank) an event must
	// have; 0 means all.
	MinRank int `json:"min_rank,omitempty"`
	// Since leaves out what arrived earlier; zero means no bound.
	Since time.Time `json:"since,omitzero"`
	// Until leaves out what arrived later; zero means no bound.
	Until time.Time `json:"until,omitzero"`
	// Limit is how many events at most: DefaultLimit for 0, never over MaxLimit.
	Limit int `json:"limit,omitempty"`
	// Paged asks for the position of each event, and for how many older ones there
	// are.
	Paged bool `json:"paged,omitempty"`
	// Before leaves out the event at that position and what came after it; zero
	// means no bound.
	Before EventPosition `json:"before,omitzero"`
}

// MaxOlder bounds EventsReply.Older.
const MaxOlder = 1000

// EventPosition is where an event is in the stream TELEMETRY: the sequence of its
// message, and which of the events in that.
type EventPosition struct {
	Seq   uint64 `json:"seq"`
	Index int    `json:"index"`
}

// Compare returns -1 where p comes before q, 1 where it comes after it, else 0.
func (p EventPosition) Compare(q EventPosition) int {
	return cmp.Or(cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Index, q.Index))
}

// StoredEvent is an event as stored, with the bus's stamp of its arrival.
type StoredEvent struct {
	telemetry.Event
	Received time.Time `json:"received"`
	// Position is there in the answer to a Paged request.
	Position EventPosition `json:"position,omitzero"`
}

// EventsReply answers an EventsRequest.
type EventsReply struct {
	Events []StoredEvent `json:"events"`
	// Truncated says that MaxReply left events out.
	Truncated bool `json:"truncated,omitempty"`
	// Older is how many events match the request beside those, in the answer to a
	// Paged one: at most MaxOlder are counted of each partition.
	Older int `json:"older,omitempty"`
	Part
}

// Part says what a reply lacks: telemetry may be split into partitions, each of
// which a detector answers for.
type Part struct {
	// Unanswered are those that none answered for, as while one takes over from
	// another: what is known of their apps is missing here.
	Unanswered []int `json:"unanswered,omitempty"`
}

// Incomplete is empty, or says for people that the reply lacks something.
func (p Part) Incomplete() string {
	if len(p.Unanswered) == 0 {
		return ""
	}
	return fmt.Sprintf("no detector answers for %d of the parts into which telemetry is split by app: what is known of their apps is missing here; ask again in 5 s", len(p.Unanswered))
}

// StatusReply tells data from silence.
type StatusReply struct {
	Apps     []AppStatus    `json:"apps"`
	Detector DetectorStatus `json:"detector"`
}

// AppStatus is what is known of one app.
type AppStatus struct {
	App string `json:"app"`
	// Senders are the products that sent for it, at most 8.
	Senders []string `json:"senders"`
	// LastEventSeconds is the age of the newest event, in seconds.
	LastEventSeconds float64 `json:"last_event_seconds"`
	// LastMinute is how many events arrived in the last 60 s.
	LastMinute int `json:"events_last_minute"`
	// History reports whether the app has raised an alert, or was seen for over 10 min.
	History bool `json:"history,omitempty"`
}

// DetectorStatus is how the detector itself is.
type DetectorStatus struct {
	// Ready says that it has caught up with the stream.
	Ready bool `json:"ready"`
	// Behind is how many messages it has still to read.
	Behind uint64 `json:"behind"`
	// Lost counts messages that the stream dropped before it read them: where it has
	// several partitions, at most so many, of all of them.
	Lost uint64 `json:"lost"`
	// AppsNotTracked is how many apps had an event within the last 24 h and are not
	// tracked, because 1,000 others are: at most 10,000. They are not among the apps of
	// a StatusReply.
	AppsNotTracked int `json:"apps_not_tracked,omitempty"`
	// Rules are the detection rules in force. There are several where detectors are set up differently, which they
	// should not be: which of them holds for an app then depends on who owns it.
	Rules []string `json:"rules,omitempty"`
	Part
}

// NoiseAction is what a NoiseRequest wants.
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
	// Pattern is the plain substring that an added rule looks for.
	Pattern string `json:"pattern,omitempty"`
	// RuleID names the rule to remove; or, for add without a pattern, a rule that is
	// proposed or was removed, and is to apply.
	RuleID string `json:"rule_id,omitempty"`
}

// NoiseReply answers a NoiseRequest with the rules as they are after it.
type NoiseReply struct {
	Rules []NoiseRule `json:"rules"`
	// Removed are found rules that somebody removed and that don't come back by
	// themselves, by app and the one removed last first, MaxRemoved of them.
	Removed []RemovedRule `json:"removed,omitempty"`
	// Added is the ID of the rule that add made.
	Added string `json:"added,omitempty"`
	// Found is how many new patterns auto_detect found, 0 for other actions.
	Found int `json:"found"`
	// HiddenTotal is how many events the rules have hidden, also those that the
	// reply has no room for.
	HiddenTotal uint64 `json:"hidden_total,omitempty"`
	// Truncated says that MaxReply left rules out.
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
	// Hidden is how many events the rule has kept from raising an alert.
	Hidden  uint64 `json:"hidden"`
	Example string `json:"example,omitempty"`

	// HiddenLast10Min is how many of them came within the 10 minutes, to a minute,
	// before the newest event.
	HiddenLast10Min uint64 `json:"hidden_last_10min"`
	// AlertsHeld is how many of them were such as alerts are raised for: lines of
	// level error, requests that failed.
	AlertsHeld uint64 `json:"alerts_held"`
	// WouldHide, WouldHideLast10Min and WouldHoldAlerts are the same for a rule that
	// is proposed: what it would have hidden since it was, and in the 10 minutes that
	// led to it, as far as that was counted (29 of one template).
	WouldHide          uint64 `json:"would_hide,omitempty"`
	WouldHideLast10Min uint64 `json:"would_hide_last_10min,omitempty"`
	WouldHoldAlerts    uint64 `json:"would_hold_alerts,omitempty"`
	// ByLevel is how many lines of which level are in Hidden; in WouldHide, of those
	// since the rule was proposed.
	ByLevel map[telemetry.Level]uint64 `json:"by_level,omitempty"`
	// Examples are different messages or URLs that it matched of late, at most 3 and
	// the newest last.
	Examples []string `json:"examples,omitempty"`
	// Since is when it began to apply or was proposed, LastSeen when it last matched;
	// of rules of before these were noted they are missing.
	Since    time.Time `json:"since,omitzero"`
	LastSeen time.Time `json:"last_seen,omitzero"`
}

// MaxRemoved is how many removed rules a NoiseReply holds at most.
const MaxRemoved = 50

// RemovedRule is a rule that was found and removed. Add with its id brings it back.
type RemovedRule struct {
	ID      string         `json:"rule_id"`
	App     string         `json:"app,omitempty"`
	Kind    telemetry.Kind `json:"kind,omitempty"`
	Pattern string         `json:"pattern"`
}
