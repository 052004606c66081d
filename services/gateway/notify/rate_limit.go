package notify

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// For each context, contextBurst notices pass at once, then one in contextInterval.
	contextBurst    = 5
	contextInterval = 10 * time.Second
	// For all contexts together, totalBurst notices pass at once, then one in
	// totalInterval: the agent chooses contexts, and a new one for each notice must not
	// avoid the limit.
	totalBurst    = 60
	totalInterval = time.Second
	// maxContexts is the number of contexts that are remembered. Beyond it the one that
	// was used longest ago is forgotten.
	maxContexts = 100
)

// rateLimit decides which notices are delivered. It is not safe for concurrent use.
type rateLimit struct {
	total    *rate.Limiter
	contexts map[string]*contextLimit
	// forgotten counts suppressed notices of contexts that were forgotten.
	forgotten int
}

// contextLimit is the limit of one context.
type contextLimit struct {
	limiter *rate.Limiter
	// suppressed counts notices since the last that was delivered.
	suppressed int
	lastUsed   time.Time
}

func newRateLimit() *rateLimit {
	return &rateLimit{total: rate.NewLimiter(rate.Every(totalInterval), totalBurst), contexts: map[string]*contextLimit{}}
}

// allow reports whether a notice of a context is delivered now, and how many were
// suppressed since the last one that was.
func (l *rateLimit) allow(context string, now time.Time) (suppressed int, ok bool) {
	c := l.contexts[context]
	if c == nil {
		if len(l.contexts) == maxContexts {
			l.forgetOldest()
		}
		c = &contextLimit{limiter: rate.NewLimiter(rate.Every(contextInterval), contextBurst)}
		l.contexts[context] = c
	}
	c.lastUsed = now
	if l.total.TokensAt(now) < 1 || !c.limiter.AllowN(now, 1) {
		c.suppressed++
		return 0, false
	}
	l.total.AllowN(now, 1)
	suppressed, c.suppressed = c.suppressed, 0
	return suppressed, true
}

// forgetOldest forgets the context that was used longest ago.
func (l *rateLimit) forgetOldest() {
	var oldest string
	var used time.Time
	for context, c := range l.contexts {
		if used.IsZero() || c.lastUsed.Before(used) {
			oldest, used = context, c.lastUsed
		}
	}
	l.forgotten += l.contexts[oldest].suppressed
	delete(l.contexts, oldest)
}

// unreported returns how many notices were suppressed and not counted in a later one.
func (l *rateLimit) unreported() int {
	n := l.forgotten
	for _, c := range l.contexts {
		n += c.suppressed
	}
	return n
}
