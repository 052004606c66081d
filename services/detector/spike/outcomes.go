package spike

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// No burst of errors passes for one that recurs while more than mostFailing of mostOf of
// the app's requests fail, of at least leastRequests in outcomeSeconds.
const (
	mostFailing, mostOf = 3, 10
	leastRequests       = 5
	outcomeSeconds      = 10
)

// outcomes counts the requests of an app in the last 10 s, and those that failed.
// The zero value is ready.
type outcomes struct {
	at          int64 // the newest second
	slots       [outcomeSeconds]outcome
	all, failed uint32
}

type outcome struct{ all, failed uint32 }

// add counts a request.
func (o *outcomes) add(now time.Time, failed bool) {
	slot := o.until(now)
	slot.all++
	o.all++
	if failed {
		slot.failed++
		o.failed++
	}
}

// failing reports whether too many requests fail.
func (o *outcomes) failing(now time.Time) bool {
	if o.failed == 0 {
		return false
	}
	o.until(now)
	return o.all >= leastRequests && mostOf*uint64(o.failed) > mostFailing*uint64(o.all)
}

// until lets time pass and returns the slot of the current second. When a clock was set
// back, counting starts again.
func (o *outcomes) until(now time.Time) *outcome {
	s := now.Unix()
	if s < o.at || s >= o.at+outcomeSeconds {
		*o = outcomes{at: s}
	}
	for o.at < s {
		o.at++
		slot := o.slot()
		o.all, o.failed = o.all-slot.all, o.failed-slot.failed
		*slot = outcome{}
	}
	return o.slot()
}

func (o *outcomes) slot() *outcome {
	return &o.slots[((o.at%outcomeSeconds)+outcomeSeconds)%outcomeSeconds]
}

// maxOutcomes is more requests than come in a second.
const maxOutcomes = 1 << 28

func (o *outcomes) state(s *snapshot.State) {
	snapshot.Int(s, 1, &o.at, snapshot.AnyInt)
	for i := range o.slots {
		snapshot.Message(s, protowire.Number(2+i), &o.slots[i], (*outcome).state)
	}
	if s.Reading() {
		o.all, o.failed = 0, 0
		for _, slot := range o.slots {
			o.all, o.failed = o.all+slot.all, o.failed+slot.failed
		}
	}
}

func (o *outcome) state(s *snapshot.State) {
	snapshot.Uint(s, 1, &o.all, maxOutcomes)
	snapshot.Uint(s, 2, &o.failed, uint64(o.all))
}
