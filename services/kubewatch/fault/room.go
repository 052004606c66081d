package fault

import (
	"container/list"
	"time"
)

// bucket is how many faults of a kind may be told: Burst at once, Rate a second. It
// counts in time: full is when all of Burst is there again.
type bucket struct {
	full time.Time
	// omitted is what was not told since the last one that was.
	omitted int
	// waiting are those that last and are told when there is room.
	waiting list.List
}

const each = time.Second / Rate

func (b *Book) bucket(kind string) *bucket {
	r := b.room[kind]
	if r == nil {
		r = &bucket{}
		b.room[kind] = r
	}
	return r
}

// next is when there is room for one.
func (r *bucket) next() time.Time { return r.full.Add(-(Burst - 1) * each) }

func (r *bucket) take(now time.Time) bool {
	if r.next().After(now) {
		return false
	}
	if r.full.Before(now) {
		r.full = now
	}
	r.full = r.full.Add(each)
	return true
}
