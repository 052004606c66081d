package kubewatch

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/feed"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// degradedAfter is how many errors one after the other make a watch a degraded one.
const degradedAfter = 5

// outlook decides when the watch of a cluster is degraded, and when it has recovered:
// each is told once. It is pure, and belongs to one goroutine.
type outlook struct {
	// watch is how it is; as it was told last, by a predecessor maybe.
	watch kube.Watch
	// since is when the first of the errors came that are not over.
	since time.Time
}

// take says whether a sign changed how the watch is.
func (o *outlook) take(s feed.Sign, now time.Time, clean func(string) string) bool {
	if s.Errors == 0 {
		o.since = time.Time{}
		if !o.watch.Degraded {
			return false
		}
		o.watch = kube.Watch{Since: now.UTC()}
		return true
	}
	if o.since.IsZero() {
		o.since = now
	}
	if o.watch.Degraded || s.Errors < degradedAfter {
		return false
	}
	o.watch = kube.Watch{Degraded: true, Error: clean(s.Err.Error()), Since: o.since.UTC()}
	return true
}
