// Package silence decides which alerts are suppressed: those that match a silence, and
// repetitions of those that were acknowledged. It also stores both lists on the bus.
//
// [Set.Suppresses] decides, from the alert and the time alone; [Silences] and [Acks] have
// the rules for changing the lists. [Store] changes them on the bus by compare-and-set. The
// package does not know which reader received which alert.
//
// A silence suppresses alerts that are raised while it is active. Alerts raised before stay
// pending, because the person who silences them has not seen them. An ended silence is kept
// as long as the bus keeps alerts, so that every reader agrees about an alert that was
// raised while it was active.
//
// An acknowledgement is for an alert that was seen, so it suppresses that one as well, and
// older ones with its key.
package silence

import (
	"cmp"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Bounds of one silence.
const (
	// MaxKey is the longest dedup key of a silence, in bytes.
	MaxKey = 1024
	// MaxApp is the longest name of an app, in bytes.
	MaxApp = 256
	// maxReason and maxBy truncate texts of people, in characters.
	maxReason = 200
	maxBy     = 100
)

// Silence suppresses every alert that it matches and that is raised while it is active.
type Silence struct {
	// ID identifies it, to end it.
	ID string `json:"id"`
	// DedupKey, Category and App each match alerts with the same value. An empty one
	// matches every alert; at least one is not empty.
	DedupKey string         `json:"dedup_key,omitempty"`
	Category alert.Category `json:"category,omitempty"`
	App      string         `json:"app,omitempty"`
	// Reason is a text of at most 200 characters.
	Reason string `json:"reason,omitempty"`
	// By is the client that asked for it.
	By string `json:"by"`
	// Created is when it began; a prolonged silence keeps the time of its beginning.
	Created time.Time `json:"created"`
	// Until is when it ends.
	Until time.Time `json:"until"`
}

// normalize sanitizes the texts and rounds the times to what is stored.
func (s Silence) normalize() Silence {
	s.Reason = sanitize.Cut(sanitize.Visible(s.Reason), maxReason)
	s.By = sanitize.Cut(sanitize.Visible(s.By), maxBy)
	s.Created, s.Until = normalizeTime(s.Created), normalizeTime(s.Until)
	return s
}

// valid reports whether the silence has an id to end it by, and matches something in
// particular: one that matched every alert would hide far too much.
func (s Silence) valid() bool {
	return s.ID != "" && cmp.Or(s.DedupKey, string(s.Category), s.App) != "" &&
		len(s.DedupKey) <= MaxKey && len(s.App) <= MaxApp && !s.Created.IsZero() && !s.Until.IsZero()
}

// Active reports whether the silence has not ended.
func (s Silence) Active(now time.Time) bool { return now.Before(s.Until) }

// sameMatcher reports whether both match the same alerts.
func (s Silence) sameMatcher(other Silence) bool {
	return s.DedupKey == other.DedupKey && s.Category == other.Category && s.App == other.App
}

// suppresses reports whether an alert matches and was raised while the silence was active. The
// end of an investigation is news of now, however old its alert is.
func (s Silence) suppresses(a alert.Alert, now time.Time) bool {
	return (s.DedupKey == "" || s.DedupKey == a.DedupKey) && (s.Category == "" || s.Category == a.Category) &&
		(s.App == "" || s.App == a.App) && (s.contains(a.Timestamp) ||
		(a.OnlyInvestigation || a.EndsInvestigation()) && s.contains(normalizeTime(now)))
}

// contains reports whether a time is within the silence.
func (s Silence) contains(t time.Time) bool { return !t.Before(s.Created) && t.Before(s.Until) }

// normalizeTime returns a time as it is stored: in UTC, in milliseconds. It is zero where the
// year is none of RFC 3339.
func normalizeTime(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Millisecond)
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}
	}
	return t
}
