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
	// MaxSilences is how many silences may be active. Beyond it a new one is refused.
	MaxSilences = 100
	// MaxAcks is how many acknowledgements are kept. Beyond it an ended one is dropped, or
	// else the oldest.
	MaxAcks = 500
	// maxEnded is how many ended silences are kept. Beyond it the oldest is dropped.
	maxEnded = 100
	// maxText is how much text a list holds, in bytes. JSON at most doubles it, and a
	// message on the bus may have 1 MiB. Beyond it the oldest is dropped; of silences only
	// an ended one, because MaxSilences of the longest have less text.
	maxText = 384 << 10
	// retention is how long an ended entry is kept: as long as the bus keeps alerts.
	retention = 7 * 24 * time.Hour
)

// ErrFull is returned when MaxSilences are active.
var ErrFull = fmt.Errorf("there are %d silences already, the maximum: end one with unsilence (silence_list shows them)", MaxSilences)

// ErrUnknown is returned when nothing active has an id.
var ErrUnknown = errors.New("no such id")

// Set is everything that suppresses alerts. Its lists are values: a change returns a new
// list, so that readers may share one.
type Set struct {
	Silences Silences
	Acks     Acks
}

// Cause is what suppressed an alert: the id of a silence, or that of an acknowledged alert.
type Cause struct{ Silence, Ack string }

// Suppresses reports whether an alert is suppressed, and by what: the oldest silence, or
// else the oldest acknowledgement.
func (s Set) Suppresses(a alert.Alert, now time.Time) (by Cause, suppressed bool) {
	for _, x := range s.Silences {
		if x.suppresses(a, now) {
			return Cause{Silence: x.ID}, true
		}
	}
	for _, ack := range s.Acks {
		if ack.suppresses(a, now) {
			return Cause{Ack: ack.AlertID}, true
		}
	}
	return Cause{}, false
}

// Silences lists active and ended silences, oldest first.
type Silences []Silence

// Active returns the active silences.
func (l Silences) Active(now time.Time) Silences {
	return slices.DeleteFunc(slices.Clone(l), func(s Silence) bool { return !s.Active(now) })
}

// Add returns the list with a silence, and the silence as it is listed. An active silence
// with the same matcher is replaced; its id and beginning stay, so that what it has
// suppressed stays suppressed. The error is [ErrFull].
func (l Silences) Add(s Silence, now time.Time) (Silences, Silence, error) {
	s = s.normalize()
	if !s.valid() {
		return l, s, errors.New("a silence needs an id, something to match and an end")
	}
	l = l.pruned(now)
	i := slices.IndexFunc(l, func(other Silence) bool { return other.Active(now) && other.sameMatcher(s) })
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

// End returns the list with an active silence ended, and that silence. Alerts raised while
// it was active stay suppressed. The error is [ErrUnknown].
func (l Silences) End(id string, now time.Time) (Silences, Silence, error) {
	l = l.pruned(now)
	i := slices.IndexFunc(l, func(s Silence) bool { return s.ID == id && s.Active(now) })
	if i < 0 {
		return l, Silence{}, ErrUnknown
	}
	l[i].Until = normalizeTime(now)
	return l, l[i], nil
}

// pruned returns a copy without the silences that are not kept any longer.
func (l Silences) pruned(now time.Time) Silences {
	l = slices.DeleteFunc(slices.Clone(l), func(s Silence) bool { return now.Sub(s.Until) > retention })
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

// Acks lists active and ended acknowledgements, oldest first.
type Acks []Ack

// Active returns the active acknowledgements.
func (l Acks) Active(now time.Time) Acks {
	return slices.DeleteFunc(slices.Clone(l), func(ack Ack) bool { return !ack.Active(now) })
}

// Add returns the list with an acknowledgement. It replaces an earlier one of the same app
// and dedup key, and covers what that one did.
func (l Acks) Add(ack Ack, now time.Time) Acks {
	ack = ack.normalize()
	l = slices.DeleteFunc(slices.Clone(l), func(other Ack) bool {
		if other.App != ack.App || other.DedupKey != ack.DedupKey {
			return now.Sub(other.Until) > retention
		}
		if other.Since.After(ack.Since) {
			ack.Since = other.Since
			if other.Active(now) && other.Severity.Rank() > ack.Severity.Rank() {
				ack.Severity = other.Severity
			}
		}
		return true
	})
	return append(l, ack).pruned(now)
}

// End returns the list with the active acknowledgement of an alert ended, and that
// acknowledgement. The error is [ErrUnknown].
func (l Acks) End(alertID string, now time.Time) (Acks, Ack, error) {
	i := slices.IndexFunc(l, func(ack Ack) bool { return ack.AlertID == alertID && ack.Active(now) })
	if i < 0 {
		return l, Ack{}, ErrUnknown
	}
	l = slices.Clone(l)
	l[i].Until = normalizeTime(now)
	return l, l[i], nil
}

// Apply returns the list after an alert was raised, and the acknowledgements that it ended.
// Applying the same alert again changes nothing.
func (l Acks) Apply(a alert.Alert) (after, ended Acks) {
	for _, ack := range l {
		if ack.EndedBy(a) {
			ack.Until = normalizeTime(a.Timestamp)
			ended = append(ended, ack)
		}
	}
	after, _ = l.MarkEnded(ended...)
	return after, ended
}

// MarkEnded returns the list with acknowledgements ended that [Acks.Apply] returned for
// another state of it, and whether that changes anything.
func (l Acks) MarkEnded(ended ...Ack) (after Acks, changed bool) {
	for _, e := range ended {
		i := slices.IndexFunc(l, func(ack Ack) bool {
			return ack.AlertID == e.AlertID && ack.Created.Equal(e.Created) && e.Until.Before(ack.Until)
		})
		if i < 0 {
			continue
		}
		if !changed {
			l, changed = slices.Clone(l), true
		}
		l[i].Until = e.Until
	}
	return l, changed
}

// pruned drops, in place, the entries that have no room.
func (l Acks) pruned(now time.Time) Acks {
	text := 0
	for _, ack := range l {
		text += ack.textLen()
	}
	for len(l) > 1 && (len(l) > MaxAcks || text > maxText) {
		i := max(slices.IndexFunc(l, func(ack Ack) bool { return !ack.Active(now) }), 0)
		text -= l[i].textLen()
		l = slices.Delete(l, i, i+1)
	}
	return l
}

// textLen returns the bytes of text in an acknowledgement.
func (ack Ack) textLen() int {
	return len(ack.AlertID) + len(ack.App) + len(ack.DedupKey) + len(ack.By)
}
