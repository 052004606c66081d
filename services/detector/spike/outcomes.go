package spike

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// A burst of errors is not taken for one that recurs while too many of the app's requests
// fail: more than maxFailing of failingOf, with at least minRequests in outcomeSeconds.
const (
	maxFailing, failingOf = 3, 10
	minRequests           = 5
	outcomeSeconds        = 10
)

// outcomes counts the requests of an app in the last 10 s, and those that failed. The zero
// value is ready.
type outcomes struct {
	newest      int64 // second, since 1970
	seconds     [outcomeSeconds]outcome
	all, failed uint32 // in all seconds
}

// outcome counts the requests of one second.
type outcome struct{ all, failed uint32 }

// add counts a request.
func (o *outcomes) add(now time.Time, failed bool) {
	current := o.advance(now)
	current.all++
	o.all++
	if failed {
		current.failed++
		o.failed++
	}
}

// failing reports whether too many requests fail.
func (o *outcomes) failing(now time.Time) bool {
	if o.failed == 0 {
		return false
	}
	o.advance(now)
	return o.all >= minRequests && failingOf*uint64(o.failed) > maxFailing*uint64(o.all)
}

// advance lets time pass and returns the current second. When a clock was set back, counting
// starts again.
func (o *outcomes) advance(now time.Time) *outcome {
	s := now.Unix()
	if s < o.newest || s >= o.newest+outcomeSeconds {
		*o = outcomes{newest: s}
	}
	for o.newest < s {
		o.newest++
		expired := o.second()
		o.all, o.failed = o.all-expired.all, o.failed-expired.failed
		*expired = outcome{}
	}
	return o.second()
}

// second returns the element of the newest second, which takes the place of an expired one.
func (o *outcomes) second() *outcome {
	return &o.seconds[((o.newest%outcomeSeconds)+outcomeSeconds)%outcomeSeconds]
}

// maxOutcomes is more requests than come in a second.
const maxOutcomes = 1 << 28

func (o *outcomes) state(s *snapshot.Codec) {
	snapshot.Int(s, 1, &o.newest, snapshot.AnyInt)
	for i := range o.seconds {
		snapshot.Message(s, protowire.Number(2+i), &o.seconds[i], (*outcome).state)
	}
	if s.Reading() {
		o.all, o.failed = 0, 0
		for _, second := range o.seconds {
			o.all, o.failed = o.all+second.all, o.failed+second.failed
		}
	}
}

func (o *outcome) state(s *snapshot.Codec) {
	snapshot.Uint(s, 1, &o.all, maxOutcomes)
	snapshot.Uint(s, 2, &o.failed, uint64(o.all))
}
