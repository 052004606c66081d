package gateway

import (
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// maxEnding is how many acknowledgements are remembered that have ended, until the
// bus has that. Past it the oldest is forgotten: another gateway will have met
// what ended it, or the next alert like that does.
const maxEnding = 64

// hush is what a session holds back, and what it has held back. The session's
// loop owns it.
type hush struct {
	set silence.Set
	// revisions are the places of the two documents that set was made of.
	revisions map[string]uint64
	// ending are acknowledgements that have ended lately. A document that was
	// written before would bring them back.
	ending silence.Acks
	// held counts alerts by what held them back.
	held map[silence.Cause]uint64
	// over passes on what has ended, for the others. It may be nil.
	over chan<- silence.Ack
	log  *slog.Logger
}

func newHush(log *slog.Logger) *hush {
	return &hush{revisions: map[string]uint64{}, held: map[silence.Cause]uint64{}, log: log}
}

// learn takes a document over, unless it has a newer one already. One that can't
// be read changes nothing: what was held back stays so.
func (h *hush) learn(d silence.Record) {
	if d.Revision <= h.revisions[d.Key] {
		return
	}
	h.revisions[d.Key] = d.Revision
	if err := d.Apply(&h.set); err != nil {
		h.log.Warn("what is silenced can't be read", "key", d.Key, "error", err)
	}
	h.set.Acks, _ = h.set.Acks.MarkEnded(h.ending...)
}

// doubt makes it take over whatever document comes next: the bucket may be
// another one than before.
func (h *hush) doubt() { clear(h.revisions) }

// complete says that every document there is has come since doubt.
func (h *hush) complete() {
	if h.revisions[bus.KeySilences] == 0 {
		h.set.Silences = nil
	}
	if h.revisions[bus.KeyAcks] == 0 {
		h.set.Acks = nil
	}
}

// holds says whether an alert that comes in is held back, and counts it.
func (h *hush) holds(a alert.Alert, now time.Time) bool {
	why, hushed := h.hushes(a, now)
	if hushed {
		h.count(why, 1)
	}
	return hushed
}

// hushes says whether an alert is held back, and why. One that ends an
// acknowledgement does so first; to ask twice changes nothing.
func (h *hush) hushes(a alert.Alert, now time.Time) (why silence.Cause, hushed bool) {
	after, ended := h.set.Acks.Apply(a)
	h.set.Acks = after
	for _, k := range ended {
		h.ending = append(h.ending, k)
		select {
		case h.over <- k:
		default: // nobody takes it, or they are slow: see maxEnding
		}
	}
	h.ending = h.ending[max(len(h.ending)-maxEnding, 0):]
	return h.set.Suppresses(a, now)
}

func (h *hush) count(why silence.Cause, alerts int) {
	h.held[why] += uint64(alerts)
	if len(h.held) > maxHeld {
		h.forgetCounts()
	}
}

// maxHeld is for how many silences and acknowledgements it is counted what they
// held back. Past it those that are not kept any more are forgotten.
const maxHeld = 2 * (silence.MaxSilences + silence.MaxAcks)

func (h *hush) forgetCounts() {
	known := make(map[silence.Cause]uint64, len(h.held))
	for _, s := range h.set.Silences {
		if why := (silence.Cause{Silence: s.ID}); h.held[why] > 0 {
			known[why] = h.held[why]
		}
	}
	for _, k := range h.set.Acks {
		if why := (silence.Cause{Ack: k.AlertID}); h.held[why] > 0 {
			known[why] = h.held[why]
		}
	}
	h.held = known
}

// learn takes documents over, and takes out of inbox and batch what they hold
// back: what was acknowledged, and what was raised after it was silenced but came
// before the news of that.
func (s *session) learn(now time.Time, documents ...silence.Record) {
	for _, d := range documents {
		s.hush.learn(d)
	}
	s.inbox.SuppressWhere(func(a alert.Alert, offers int) bool {
		why, hushed := s.hush.set.Suppresses(a, now)
		if hushed {
			s.hush.count(why, offers)
		}
		return hushed
	})
	s.stream.SuppressWhere(func(a alert.Alert) bool {
		_, hushed := s.hush.set.Suppresses(a, now)
		return hushed
	})
}
