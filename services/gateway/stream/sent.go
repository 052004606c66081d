package stream

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
type sent []sending

type sending struct {
	key  key
	at   time.Time
	rank int
}

// key is a hash of a merge key: those are as long as the outside likes.
type key [16]byte

func keyOf(a alert.Alert) key {
	k := a.MergeKey()
	over := byte(0)
	if k.Over {
		over = 1
	}
	text := binary.AppendUvarint([]byte{over}, uint64(len(k.App)))
	sum := sha256.Sum256(append(append(text, k.App...), k.DedupKey...))
	return key(sum[:len(key{})])
}

// has says whether the alert was sent within the window at no lower severity.
func (s sent) has(a alert.Alert, now time.Time) bool {
	k := keyOf(a)
	return slices.ContainsFunc(s, func(e sending) bool {
		return e.key == k && now.Sub(e.at) < duplicateWindow && a.Severity.Rank() <= e.rank
	})
}

// add remembers that the alert was sent now, and nothing older than the window.
func (s *sent) add(a alert.Alert, now time.Time) {
	k := keyOf(a)
	*s = slices.DeleteFunc(*s, func(e sending) bool {
		return e.key == k || now.Sub(e.at) >= duplicateWindow
	})
	if len(*s) == maxKeys {
		*s = slices.Delete(*s, 0, 1)
	}
	*s = append(*s, sending{key: k, at: now, rank: a.Severity.Rank()})
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
