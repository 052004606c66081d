package notifier

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// duplicateWindow is how long a repetition of a sent alert is a duplicate: 30 s,
	// less the jitter.
	duplicateWindow = 30*time.Second - jitter
	// maxSent is the number of sent alerts that are remembered. Beyond it the one sent
	// first is forgotten, and its next repetition is sent.
	maxSent = 500
	// maxIDs is the number of ids remembered of one sent alert, the newest: a
	// resolution names the newest alert of a finding, or several that are as new.
	maxIDs = 4
)

// sentAlerts remembers the alerts of the duplicate window in the order of sending. A linear
// search takes a microsecond.
//
// A finding whose resolution was sent is forgotten: raised again it is sent again, or
// the client would go on to believe that it is resolved. A resolution is forgotten
// when its finding is sent again.
type sentAlerts []sentAlert

type sentAlert struct {
	// key is the alert's key, and finding the key of the finding that it is about. They
	// differ if the alert is a resolution.
	key, finding key
	sentAt       time.Time
	rank         int
	// ids are the ids of the alert and of the duplicates suppressed since.
	ids []string
}

// key is a hash of a merge key, whose length senders choose.
type key [16]byte

// keysOf returns the keys of an alert and of the finding that it is about.
func keysOf(a alert.Alert) (own, finding key) {
	k := a.MergeKey()
	own = keyOf(k)
	if !k.Resolution {
		return own, own
	}
	k.Resolution = false
	return own, keyOf(k)
}

func keyOf(k alert.MergeKey) key {
	flag := byte(0)
	if k.Resolution {
		flag = 1
	}
	text := binary.AppendUvarint([]byte{flag}, uint64(len(k.App)))
	sum := sha256.Sum256(append(append(text, k.App...), k.DedupKey...))
	return key(sum[:len(key{})])
}

// resolution reports whether the sent alert was a resolution.
func (e *sentAlert) resolution() bool { return e.key != e.finding }

// resolvedBy reports whether a resolution, which is about finding, resolves the sent
// alert: it has the same key, or another one and names an id.
func (e *sentAlert) resolvedBy(end alert.Alert, finding key) bool {
	return !e.resolution() && (e.finding == finding || slices.ContainsFunc(e.ids, end.Ends))
}

// addRepeat adds the id of a duplicate that was suppressed.
func (e *sentAlert) addRepeat(a alert.Alert) {
	e.ids = append(slices.Clone(e.ids[max(len(e.ids)+1-maxIDs, 0):]), a.ID)
}

// find returns the entry of the same alert sent within the window at no lower
// severity, or nil.
func (s sentAlerts) find(a alert.Alert, now time.Time) *sentAlert {
	k, _ := keysOf(a)
	i := slices.IndexFunc(s, func(e sentAlert) bool {
		return e.key == k && now.Sub(e.sentAt) < duplicateWindow && a.Severity.Rank() <= e.rank
	})
	if i < 0 {
		return nil
	}
	return &s[i]
}

// resolvedBy reports whether a resolution resolves an alert sent within the window.
func (s sentAlerts) resolvedBy(end alert.Alert, now time.Time) bool {
	_, finding := keysOf(end)
	return slices.ContainsFunc(s, func(e sentAlert) bool { return now.Sub(e.sentAt) < duplicateWindow && e.resolvedBy(end, finding) })
}

// forgetResolved forgets the findings that a sent resolution resolves.
func (s *sentAlerts) forgetResolved(end alert.Alert) {
	_, finding := keysOf(end)
	*s = slices.DeleteFunc(*s, func(e sentAlert) bool { return e.resolvedBy(end, finding) })
}

// add remembers an alert, sent now under these ids, and forgets what is older than the
// window.
func (s *sentAlerts) add(a alert.Alert, ids []string, now time.Time) {
	k, finding := keysOf(a)
	*s = slices.DeleteFunc(*s, func(e sentAlert) bool {
		return e.key == k || now.Sub(e.sentAt) >= duplicateWindow
	})
	if len(*s) == maxSent {
		*s = slices.Delete(*s, 0, 1)
	}
	*s = append(*s, sentAlert{key: k, finding: finding, sentAt: now, rank: a.Severity.Rank(), ids: ids[max(len(ids)-maxIDs, 0):]})
}
