package kubewatch

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/feed"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// degradedAfter is how many consecutive errors make a watch degraded.
const degradedAfter = 5

// watchStatus decides when the watch of a cluster is degraded and when it has recovered.
// Each is published once. It is pure and belongs to one goroutine.
type watchStatus struct {
	// published is the status that was published last, by this kubewatch or a predecessor.
	published kube.Watch
	// since is when the first of the present consecutive errors occurred.
	since time.Time
}

// update takes the health of the API connection and reports whether the status changed.
func (s *watchStatus) update(h feed.Health, now time.Time, clean func(string) string) bool {
	if h.Errors == 0 {
		s.since = time.Time{}
		if !s.published.Degraded {
			return false
		}
		s.published = kube.Watch{Since: now.UTC()}
		return true
	}
	if s.since.IsZero() {
		s.since = now
	}
	if s.published.Degraded || h.Errors < degradedAfter {
		return false
	}
	s.published = kube.Watch{Degraded: true, Error: clean(h.Err.Error()), Since: s.since.UTC()}
	return true
}
