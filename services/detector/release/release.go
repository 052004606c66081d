// Package release decides what a deploy is: that a release of an app is heard
// of for the first time, and the minutes after that.
//
// A release that an app has had for long is no news. All of its alerts are of
// that release, so it tells nothing of what two of them have in common; that
// both came just after it was deployed does. The first release that an app is heard
// of with is taken for one that it has had for long: an app that is new here was
// mostly not deployed just now, and would else have a deploy to blame for minutes.
// The package knows no clock.
package release

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

const (
	// MaxReleases is how many releases of one app are remembered: the present one,
	// the one before in tabs that stay open, and those of a slow roll-out. Past it
	// the one not seen for the longest time is forgotten; it would be new again.
	MaxReleases = 8
	// MaxName is the longest name that is remembered, in bytes. A longer one is
	// never new.
	MaxName = 1 << 10
	// Fresh is for how long a release is a deploy.
	Fresh = 10 * time.Minute
)

// Releases remembers the releases of one app. The zero value is an app without
// releases, as most are: it holds nothing.
type Releases struct {
	// first is when each was seen first, in milliseconds since 1970, and 0 of the
	// first of all; nil before there is any.
	first   *lru.Map[string, int64]
	size    int
	evicted uint64
	// last is the one seen last: mostly it is the next one, too.
	last  string
	since int64
}

// entrySize is about what a release takes beside its name, in bytes.
const entrySize = 96

// Size is about how many bytes are held.
func (r *Releases) Size() int { return r.size }

// Evicted is how many were forgotten for lack of room since New.
func (r *Releases) Evicted() uint64 { return r.evicted }

// Len is the number of releases remembered.
func (r *Releases) Len() int {
	if r.first == nil {
		return 0
	}
	return r.first.Len()
}

// Heard takes the release that an event is of.
func (r *Releases) Heard(name string, now time.Time) {
	if name == r.last || name == "" || len(name) > MaxName {
		return
	}
	if r.first != nil {
		if known := r.first.Get(name); known != nil {
			r.last, r.since = name, *known
			return
		}
	}
	if r.first == nil {
		r.add(name, 0)
		return
	}
	r.add(name, now.UnixMilli())
}

// add makes a release the one seen last.
func (r *Releases) add(name string, first int64) {
	if r.first == nil {
		r.first = lru.New[string, int64](MaxReleases)
	}
	r.last, r.since = name, first
	_, gone := r.first.Add(name, first)
	r.size += entrySize + len(name)
	if gone != nil {
		r.size -= entrySize + len(gone.Key)
		r.evicted++
	}
}

// Deploy reports whether a release was seen first less than Fresh ago. A clock
// that was set back makes it one.
func (r *Releases) Deploy(name string, now time.Time) bool {
	if name == "" || r.first == nil {
		return false
	}
	since := r.since
	if name != r.last {
		known := r.first.Peek(name)
		if known == nil {
			return false
		}
		since = *known
	}
	return now.UnixMilli()-since < Fresh.Milliseconds()
}

// State has the releases, the one seen last at the end.
func (r *Releases) State(s *snapshot.State) {
	known := r.first
	if known == nil {
		known = lru.New[string, int64](MaxReleases)
	}
	snapshot.Entries(s, 1, known, func(s *snapshot.State, name *string, first *int64) {
		s.String(1, name, MaxName)
		snapshot.Int(s, 2, first, snapshot.AnyInt)
	}, r.add)
}
