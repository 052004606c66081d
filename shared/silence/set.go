package silence

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Bounds of a set.
const (
	// MaxSilences is how many silences may last at a time. Past it a new one is
	// refused.
	MaxSilences = 100
	// MaxAcks is how many acknowledgements are kept. Past it one that is over goes,
	// or else the oldest.
	MaxAcks = 500
	// maxEnded is how many silences are kept that are over. Past it the oldest goes.
	maxEnded = 100
	// maxText is how much text a list holds, in bytes. JSON at most doubles it, and
	// a message on the bus may have 1 MiB. Past it the oldest goes, of silences only
	// one that is over: MaxSilences of the longest are less.
	maxText = 384 << 10
	// kept is how long what is over is kept: as long as the bus has its alerts.
	kept = 7 * 24 * time.Hour
)

// ErrFull says that there are MaxSilences already.
var ErrFull = fmt.Errorf("there are %d silences already, which is the most: end one with unsilence (silence_list shows them)", MaxSilences)

// ErrUnknown says that nothing that lasts has that id.
var ErrUnknown = errors.New("no such id")

// Set is all that is held back. Its lists are values: what changes one returns
// another, so that readers may share it.
type Set struct {
	Silences Silences
	Acks     Acks
}

// Why is what held an alert back: the silence with that id, or the
// acknowledgement of the alert with that id.
type Why struct{ Silence, Ack string }

// Hushes says whether an alert is told to nobody, and why. Of several reasons it
// is the oldest silence, then the oldest acknowledgement.
func (s Set) Hushes(a alert.Alert, now time.Time) (why Why, hushed bool) {
	for _, x := range s.Silences {
		if x.hushes(a) {
			return Why{Silence: x.ID}, true
		}
	}
	for _, k := range s.Acks {
		if k.hushes(a, now) {
			return Why{Ack: k.AlertID}, true
		}
	}
	return Why{}, false
}

// Silences are those that last and those that are over, oldest first.
type Silences []Silence

// Active are those that last.
func (l Silences) Active(now time.Time) Silences {
	return slices.DeleteFunc(slices.Clone(l), func(s Silence) bool { return !s.Active(now) })
}

// Add returns the list with a silence, and the silence as it is in it. One that
// matches the same as one that lasts takes its place, its id and its beginning:
// what that one has held back stays held back. Its error is ErrFull.
func (l Silences) Add(s Silence, now time.Time) (Silences, Silence, error) {
	s = s.tidy()
	if !s.valid() {
		return l, s, errors.New("a silence needs an id, something to match and an end")
	}
	l = l.pruned(now)
	i := slices.IndexFunc(l, func(other Silence) bool { return other.Active(now) && other.same(s) })
	switch {
	case i >= 0:
		s.ID = l[i].ID
		if l[i].Created.Before(s.Created) {
			s.Created = l[i].Created
		}
		l[i] = s
	case len(l.Active(now)) >= MaxSilences:
		return l, s, ErrFull
	default:
		l = append(l, s)
	}
	return l.pruned(now), s, nil
}

// End returns the list without a silence that lasted, and that silence. What was
// raised while it lasted stays held back. Its error is ErrUnknown.
func (l Silences) End(id string, now time.Time) (Silences, Silence, error) {
	l = l.pruned(now)
	i := slices.IndexFunc(l, func(s Silence) bool { return s.ID == id && s.Active(now) })
	if i < 0 {
		return l, Silence{}, ErrUnknown
	}
	l[i].Until = tidyTime(now)
	return l, l[i], nil
}

// pruned is a copy without what needs not be kept any more.
func (l Silences) pruned(now time.Time) Silences {
	l = slices.DeleteFunc(slices.Clone(l), func(s Silence) bool { return now.Sub(s.Until) > kept })
	ended, text := 0, 0
	for i := len(l) - 1; i >= 0; i-- { // the newest are kept
		text += len(l[i].DedupKey) + len(l[i].App) + len(l[i].Reason) + len(l[i].By)
		if l[i].Active(now) {
			continue
		}
		if ended++; ended > maxEnded || text > maxText {
			l = slices.Delete(l, i, i+1)
		}
	}
	return l
}

// Acks are those that last and those that are over, oldest first.
type Acks []Ack

// Active are those that last.
func (l Acks) Active(now time.Time) Acks {
	return slices.DeleteFunc(slices.Clone(l), func(k Ack) bool { return !k.Active(now) })
}

// Add returns the list with an acknowledgement. It takes the place of an earlier
// one of the same app and dedup key, and covers what that one did.
func (l Acks) Add(k Ack, now time.Time) Acks {
	k = k.tidy()
	l = slices.DeleteFunc(slices.Clone(l), func(other Ack) bool {
		if other.App != k.App || other.DedupKey != k.DedupKey {
			return now.Sub(other.Until) > kept
		}
		if other.Since.After(k.Since) {
			k.Since = other.Since
			if other.Active(now) && other.Severity.Rank() > k.Severity.Rank() {
				k.Severity = other.Severity
			}
		}
		return true
	})
	return append(l, k).pruned(now)
}

// End returns the list without the acknowledgement of an alert, which lasted,
// and that acknowledgement. Its error is ErrUnknown.
func (l Acks) End(alertID string, now time.Time) (Acks, Ack, error) {
	i := slices.IndexFunc(l, func(k Ack) bool { return k.AlertID == alertID && k.Active(now) })
	if i < 0 {
		return l, Ack{}, ErrUnknown
	}
	l = slices.Clone(l)
	l[i].Until = tidyTime(now)
	return l, l[i], nil
}

// Over returns the list as it is after an alert, and those of it that the alert
// ended. To take the same alert again changes nothing.
func (l Acks) Over(a alert.Alert) (after, ended Acks) {
	for _, k := range l {
		if k.EndedBy(a) {
			k.Until = tidyTime(a.Timestamp)
			ended = append(ended, k)
		}
	}
	after, _ = l.Ended(ended...)
	return after, ended
}

// Ended returns the list as it is when some of it have ended, as Over said of
// another state of it, and whether that changes anything.
func (l Acks) Ended(ended ...Ack) (after Acks, changed bool) {
	for _, over := range ended {
		i := slices.IndexFunc(l, func(k Ack) bool {
			return k.AlertID == over.AlertID && k.Created.Equal(over.Created) && over.Until.Before(k.Until)
		})
		if i < 0 {
			continue
		}
		if !changed {
			l, changed = slices.Clone(l), true
		}
		l[i].Until = over.Until
	}
	return l, changed
}

// pruned drops, of a list that is the caller's own, what has no room.
func (l Acks) pruned(now time.Time) Acks {
	text := 0
	for _, k := range l {
		text += k.text()
	}
	for len(l) > 1 && (len(l) > MaxAcks || text > maxText) {
		i := max(slices.IndexFunc(l, func(k Ack) bool { return !k.Active(now) }), 0)
		text -= l[i].text()
		l = slices.Delete(l, i, i+1)
	}
	return l
}

func (k Ack) text() int { return len(k.AlertID) + len(k.App) + len(k.DedupKey) + len(k.By) }
