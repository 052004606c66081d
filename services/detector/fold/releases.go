package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

const (
	// maxReleases is how many releases of one app are remembered: the current one, the one
	// before it in tabs that stay open, and those of a slow roll-out. Past it the least
	// recently seen one is forgotten and would be new again.
	maxReleases = 8
	// maxReleaseName is the longest name that is remembered, in bytes. A longer one is never
	// a deploy.
	maxReleaseName = 1 << 10
	// deployPeriod is how long a release counts as a deploy after its first event.
	deployPeriod = 10 * time.Minute
)

// releases remembers the releases of one app, to find deploys: alerts just after a deploy
// are likely to be about it. The first release of an app is not a deploy, because an app
// that is new to the detector was usually deployed long ago. The zero value has no releases
// and takes no memory.
type releases struct {
	// firstSeen is when each release was first seen, in milliseconds since 1970, and 0 for
	// the first release of the app. It is nil before there is any.
	firstSeen *lru.Map[string, int64]
	size      int
	evicted   uint64
	// latest is the release seen last, and usually the next one, too; latestSince is when
	// it was first seen.
	latest      string
	latestSince int64
}

// releaseSize is about what a release takes besides its name, in bytes.
const releaseSize = 96

// observe records the release of an event.
func (r *releases) observe(name string, now time.Time) {
	if name == r.latest || name == "" || len(name) > maxReleaseName {
		return
	}
	if r.firstSeen == nil {
		r.add(name, 0)
		return
	}
	if known := r.firstSeen.Get(name); known != nil {
		r.latest, r.latestSince = name, *known
		return
	}
	r.add(name, now.UnixMilli())
}

// add adds a release, which is then the latest.
func (r *releases) add(name string, firstSeen int64) {
	if r.firstSeen == nil {
		r.firstSeen = lru.New[string, int64](maxReleases)
	}
	r.latest, r.latestSince = name, firstSeen
	_, evicted := r.firstSeen.Add(name, firstSeen)
	r.size += releaseSize + len(name)
	if evicted != nil {
		r.size -= releaseSize + len(evicted.Key)
		r.evicted++
	}
}

// isDeploy reports whether a release was first seen less than 10 min ago, or later than now
// because a clock was set back.
func (r *releases) isDeploy(name string, now time.Time) bool {
	if name == "" || r.firstSeen == nil {
		return false
	}
	since := r.latestSince
	if name != r.latest {
		known := r.firstSeen.Peek(name)
		if known == nil {
			return false
		}
		since = *known
	}
	return now.UnixMilli()-since < deployPeriod.Milliseconds()
}

// state reads or writes the releases, with the latest at the end.
func (r *releases) state(s *snapshot.Codec) {
	known := r.firstSeen
	if known == nil {
		known = lru.New[string, int64](maxReleases)
	}
	snapshot.Entries(s, 1, known, func(s *snapshot.Codec, name *string, firstSeen *int64) {
		s.String(1, name, maxReleaseName)
		snapshot.Int(s, 2, firstSeen, snapshot.AnyInt)
	}, r.add)
}
