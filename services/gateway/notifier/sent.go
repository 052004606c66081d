package notifier

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// duplicateWindow is how long after its sending an alert is a duplicate: 30 s,
	// less what it may come too early.
	duplicateWindow = 30*time.Second - jitter
	// maxKeys is how many sent alerts are remembered. Past it, the one sent
	// first is forgotten, and its next repetition is sent.
	maxKeys = 500
)

// sent remembers what was sent lately, in the order of sending. A look at all
// of it takes a microsecond.
//
// A finding whose end was sent is forgotten: raised again it is news, else that it
// is over would be the last word. So is the end of a finding that was sent since
// the last one's end.
type sent []sending

type sending struct {
	// key is that of the alert, finding that of what it is about: the same, unless
	// it says that this is over.
	key, finding key
	at           time.Time
	rank         int
	// ids are those of the alert, and of what was held back as a repetition of it.
	ids []string
}

// maxIDs is how many ids of an alert are remembered, the newest: a finding is over
// by the newest or by several that are as new.
const maxIDs = 4

// key is a hash of a merge key: those are as long as the outside likes.
type key [16]byte

// keysOf are the keys of an alert and of the finding that it is about.
func keysOf(a alert.Alert) (of, finding key) {
	k := a.MergeKey()
	of = keyOf(k)
	if !k.Over {
		return of, of
	}
	k.Over = false
	return of, keyOf(k)
}

func keyOf(k alert.MergeKey) key {
	over := byte(0)
	if k.Over {
		over = 1
	}
	text := binary.AppendUvarint([]byte{over}, uint64(len(k.App)))
	sum := sha256.Sum256(append(append(text, k.App...), k.DedupKey...))
	return key(sum[:len(key{})])
}

// raised says whether what was sent told of a finding, and not of an end.
func (e *sending) raised() bool { return e.key == e.finding }

// endedBy says whether an alert that tells the end of a finding tells that of what
// was sent. It has that one's key, or one of its own and names the id.
func (e *sending) endedBy(end alert.Alert, finding key) bool {
	return e.raised() && (e.finding == finding || slices.ContainsFunc(e.ids, end.Ends))
}

// repeat notes that an alert is held back as a repetition of what was sent.
func (e *sending) repeat(a alert.Alert) {
	e.ids = append(slices.Clone(e.ids[max(len(e.ids)+1-maxIDs, 0):]), a.ID)
}

// find returns how the alert was sent within the window at no lower severity, or
// nil.
func (s sent) find(a alert.Alert, now time.Time) *sending {
	k, _ := keysOf(a)
	i := slices.IndexFunc(s, func(e sending) bool {
		return e.key == k && now.Sub(e.at) < duplicateWindow && a.Severity.Rank() <= e.rank
	})
	if i < 0 {
		return nil
	}
	return &s[i]
}

// ends says whether the alert tells the end of what was sent within the window.
func (s sent) ends(end alert.Alert, now time.Time) bool {
	_, finding := keysOf(end)
	return slices.ContainsFunc(s, func(e sending) bool { return now.Sub(e.at) < duplicateWindow && e.endedBy(end, finding) })
}

// forget forgets the findings of which an end was sent.
func (s *sent) forget(end alert.Alert) {
	_, finding := keysOf(end)
	*s = slices.DeleteFunc(*s, func(e sending) bool { return e.endedBy(end, finding) })
}

// add remembers that the alert with those ids was sent now, and nothing older than
// the window.
func (s *sent) add(a alert.Alert, ids []string, now time.Time) {
	k, finding := keysOf(a)
	*s = slices.DeleteFunc(*s, func(e sending) bool {
		return e.key == k || now.Sub(e.at) >= duplicateWindow
	})
	if len(*s) == maxKeys {
		*s = slices.Delete(*s, 0, 1)
	}
	*s = append(*s, sending{key: k, finding: finding, at: now, rank: a.Severity.Rank(), ids: ids[max(len(ids)-maxIDs, 0):]})
}

const (
	// rateWindow and rateLimit: at most rateLimit notifications in any
	// rateWindow. One that was sent exactly that long ago counts no more.
	rateWindow = 60 * time.Second
	rateLimit  = 12
)

// pace holds the times of the newest rateLimit notifications, oldest first.
type pace []time.Time

// add notes a notification.
func (p *pace) add(now time.Time) {
	if len(*p) == rateLimit {
		*p = slices.Delete(*p, 0, 1)
	}
	*p = append(*p, now)
}

// free is the time from which the next notification may go: the throttle has
// passed and the window has room. It is the zero time before the first.
func (p pace) free(throttle time.Duration) time.Time {
	if len(p) == 0 {
		return time.Time{}
	}
	free := p[len(p)-1].Add(throttle)
	if len(p) == rateLimit {
		free = later(free, p[0].Add(rateWindow))
	}
	return free
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
