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
	// maxRefusedOrigins is how many sites are remembered. Past it the one that was
	// refused longest ago gives way.
	maxRefusedOrigins = 20
	// originMemory is how long a site is remembered after its last request.
	originMemory = time.Hour
	// originLogEvery is the time from one line in the log to the next.
	originLogEvery = time.Minute
	// maxLoggedOrigins is how many sites one line names.
	maxLoggedOrigins = 5
)

// refusedOrigins remembers the sites whose pages were refused, so that a person finds
// out why the telemetry of a page does not arrive.
type refusedOrigins struct {
	mu    sync.Mutex
	sites map[string]*refusedSite
	// unlogged counts the requests that no line in the log has counted yet.
	unlogged uint64
	// news has room for the one sign that there is something to log.
	news chan struct{}
}

type refusedSite struct {
	count  uint64
	last   time.Time
	logged bool
}

func newRefusedOrigins() *refusedOrigins {
	return &refusedOrigins{sites: map[string]*refusedSite{}, news: make(chan struct{}, 1)}
}

// note counts a request of a page of that origin.
func (o *refusedOrigins) note(origin string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	site := o.sites[origin]
	if site == nil {
		o.forget(now)
		if len(o.sites) == maxRefusedOrigins {
			delete(o.sites, o.byAge()[len(o.sites)-1])
		}
		site = &refusedSite{}
		o.sites[origin] = site
	}
	site.count++
	site.last, site.logged = now, false
	o.unlogged++
	select {
	case o.news <- struct{}{}:
	default: // the sign is there
	}
}

// list returns what is remembered, the newest first.
func (o *refusedOrigins) list(now time.Time) []query.RefusedOrigin {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(now)
	var all []query.RefusedOrigin
	for _, origin := range o.byAge() {
		site := o.sites[origin]
		all = append(all, query.RefusedOrigin{Origin: origin, Count: site.count, Last: site.last.UTC()})
	}
	return all
}

// forget drops the sites that were refused too long ago.
func (o *refusedOrigins) forget(now time.Time) {
	for origin, site := range o.sites {
		if now.Sub(site.last) > originMemory {
			delete(o.sites, origin)
		}
	}
}

// byAge are the origins, the one that was refused last first.
func (o *refusedOrigins) byAge() []string {
	all := make([]string, 0, len(o.sites))
	for origin := range o.sites {
		all = append(all, origin)
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(o.sites[b].last.Compare(o.sites[a].last), strings.Compare(a, b))
	})
	return all
}

// take returns what the next line in the log says, and marks it as said.
func (o *refusedOrigins) take() (origins []string, requests uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, origin := range o.byAge() {
		if site := o.sites[origin]; !site.logged && len(origins) < maxLoggedOrigins {
			origins = append(origins, origin)
			site.logged = true
		}
	}
	requests, o.unlogged = o.unlogged, 0
	return origins, requests
}

// run logs what was refused, at once and then one line a minute at most, until ctx
// ends.
func (o *refusedOrigins) run(ctx context.Context, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.news:
		}
		if origins, requests := o.take(); requests > 0 {
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
