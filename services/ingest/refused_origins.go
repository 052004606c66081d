package ingest

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/shared/query"
)

const (
	// maxRefusedOrigins is how many sites are remembered. One more replaces the one that
	// was refused longest ago.
	maxRefusedOrigins = 20
	// refusedOriginTTL is how long a site is remembered after its last request.
	refusedOriginTTL = time.Hour
	// originLogEvery is the shortest time between two log lines.
	originLogEvery = time.Minute
	// maxLoggedOrigins is how many sites one line names.
	maxLoggedOrigins = 5
)

// refusedOrigins remembers the sites whose pages were refused, so that people find out why
// the telemetry of a page does not arrive.
type refusedOrigins struct {
	mu    sync.Mutex
	sites map[string]*refusedSite
	// unlogged counts the requests that no log line has counted yet.
	unlogged uint64
	// wake has one signal while there are requests to log.
	wake chan struct{}
}

type refusedSite struct {
	count  uint64
	last   time.Time
	logged bool
}

func newRefusedOrigins() *refusedOrigins {
	return &refusedOrigins{sites: map[string]*refusedSite{}, wake: make(chan struct{}, 1)}
}

// record counts a refused request of a page with an origin.
func (o *refusedOrigins) record(origin string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	site := o.sites[origin]
	if site == nil {
		o.forget(now)
		if len(o.sites) == maxRefusedOrigins {
			delete(o.sites, o.newestFirst()[len(o.sites)-1])
		}
		site = &refusedSite{}
		o.sites[origin] = site
	}
	site.count++
	site.last, site.logged = now, false
	o.unlogged++
	select {
	case o.wake <- struct{}{}:
	default: // the signal is set
	}
}

// list returns the refused origins, the newest first.
func (o *refusedOrigins) list(now time.Time) []query.RefusedOrigin {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(now)
	var all []query.RefusedOrigin
	for _, origin := range o.newestFirst() {
		site := o.sites[origin]
		all = append(all, query.RefusedOrigin{Origin: origin, Count: site.count, Last: site.last.UTC()})
	}
	return all
}

// forget drops the sites that were refused too long ago.
func (o *refusedOrigins) forget(now time.Time) {
	for origin, site := range o.sites {
		if now.Sub(site.last) > refusedOriginTTL {
			delete(o.sites, origin)
		}
	}
}

// newestFirst returns the origins, the one that was refused last first.
func (o *refusedOrigins) newestFirst() []string {
	all := make([]string, 0, len(o.sites))
	for origin := range o.sites {
		all = append(all, origin)
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(o.sites[b].last.Compare(o.sites[a].last), strings.Compare(a, b))
	})
	return all
}

// takeUnlogged returns the origins and the number of requests for the next log line, and marks
// them as logged.
func (o *refusedOrigins) takeUnlogged() (origins []string, requests uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, origin := range o.newestFirst() {
		if site := o.sites[origin]; !site.logged && len(origins) < maxLoggedOrigins {
			origins = append(origins, origin)
			site.logged = true
		}
	}
	requests, o.unlogged = o.unlogged, 0
	return origins, requests
}

// run logs what was refused, at once and then at most one line a minute, until ctx ends.
func (o *refusedOrigins) run(ctx context.Context, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		if origins, requests := o.takeUnlogged(); requests > 0 {
			log.Warn("refused pages of other sites: if they are yours, add their origins to TOCSIN_ALLOWED_ORIGINS",
				"origins", strings.Join(origins, " "), "requests", requests)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(originLogEvery):
		}
	}
}
