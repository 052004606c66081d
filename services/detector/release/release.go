// Package release finds deploys: a release of an app is seen for the first time, and the
// minutes after that.
//
// Alerts just after a deploy are likely to be about it. A release that an app has had for
// long says nothing: all alerts are of that release. The first release of an app counts as
// one that it has had for long, because an app that is new to the detector was mostly not
// deployed just now. The package has no clock.
package release

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

const (
	// MaxReleases is how many releases of one app are remembered: the current one, the one
	// before it in tabs that stay open, and those of a slow roll-out. Past it the least
	// recently seen one is forgotten and would be new again.
	MaxReleases = 8
	// MaxName is the longest name that is remembered, in bytes. A longer one is never new.
	MaxName = 1 << 10
	// Fresh is how long a release counts as a deploy.
	Fresh = 10 * time.Minute
)

// Releases remembers the releases of one app. The zero value has none and holds nothing, as
// for most apps.
type Releases struct {
	// first is when each was first seen, in milliseconds since 1970, and 0 for the very
	// first; nil before there is any.
	first   *lru.Map[string, int64]
	size    int
	evicted uint64
	// last is the one seen last, which mostly is the next one, too.
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

// Observe notes the release of an event.
func (r *Releases) Observe(name string, now time.Time) {
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

// Deploy reports whether a release was first seen less than Fresh ago, or later than now
// because a clock was set back.
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
