// Package silence decides which alerts are told to nobody for a while: those
// that somebody silenced, and repetitions of those that somebody acknowledged.
//
// It decides by the alert and by times, and holds the rules for changing what is
// silenced. It knows no bus and no clock, and not who was told what: whoever is
// about to tell an alert asks Set.Hushes.
//
// A silence holds back what is raised while it lasts. What was raised before goes
// on to wait for its readers: nobody could have meant alerts that they were not
// told of, and what is dropped never comes back. It is kept, when it is over, for
// as long as alerts are: an alert that was raised while it lasted is not told
// later either, by whatever reader comes to it then, so that all of them agree.
//
// An acknowledgement is of an alert that somebody knows, and so it takes that one
// with it, and what is older of its key.
package silence

import (
	"cmp"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Bounds of what one silence says.
const (
	// MaxKey is how long the dedup key of a silence may be, in bytes.
	MaxKey = 1024
	// MaxApp is how long an app's name may be, in bytes.
	MaxApp = 256
	// maxReason and maxBy cut the texts of people, in characters.
	maxReason = 200
	maxBy     = 100
)

// Silence holds back every alert that it matches and that is raised while it
// lasts.
type Silence struct {
	// ID names it for whoever ends it.
	ID string `json:"id"`
	// DedupKey, Category and App each match alerts that have the same. Those that
	// are empty match any; one at least is not.
	DedupKey string         `json:"dedup_key,omitempty"`
	Category alert.Category `json:"category,omitempty"`
	App      string         `json:"app,omitempty"`
	// Reason is why, in somebody's words: at most 200 characters.
	Reason string `json:"reason,omitempty"`
	// By is the client that asked for it.
	By string `json:"by"`
	// Created is when it began. One that took the place of another began with that.
	Created time.Time `json:"created"`
	// Until is when it is over.
	Until time.Time `json:"until"`
}

// tidy makes the texts fit to be shown and the times fit to be written.
func (s Silence) tidy() Silence {
	s.Reason = sanitize.Cut(sanitize.Visible(s.Reason), maxReason)
	s.By = sanitize.Cut(sanitize.Visible(s.By), maxBy)
	s.Created, s.Until = tidyTime(s.Created), tidyTime(s.Until)
	return s
}

// valid says whether it names something and can be ended: one that matched every
// alert would hide what nobody asked to hide.
func (s Silence) valid() bool {
	return s.ID != "" && cmp.Or(s.DedupKey, string(s.Category), s.App) != "" &&
		len(s.DedupKey) <= MaxKey && len(s.App) <= MaxApp && !s.Created.IsZero() && !s.Until.IsZero()
}

// Active says whether it is not over yet.
func (s Silence) Active(now time.Time) bool { return now.Before(s.Until) }

// same says whether both match the same alerts.
func (s Silence) same(other Silence) bool {
	return s.DedupKey == other.DedupKey && s.Category == other.Category && s.App == other.App
}

// hushes says whether the alert is held back: one that matches and was raised
// while it lasted, whenever it is looked at.
func (s Silence) hushes(a alert.Alert) bool {
	return (s.DedupKey == "" || s.DedupKey == a.DedupKey) && (s.Category == "" || s.Category == a.Category) &&
		(s.App == "" || s.App == a.App) && !a.Timestamp.Before(s.Created) && a.Timestamp.Before(s.Until)
}

// tidyTime is a time as it is written: UTC, milliseconds, and of a year that RFC
// 3339 has. It is zero where there is no such time.
func tidyTime(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Millisecond)
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}
	}
	return t
}
