package notify

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// Of one context, burst notices are delivered at once, then one in every.
	burst = 5
	every = 10 * time.Second
	// Of all contexts together allBurst, then one in allEvery: contexts are the
	// agent's own words, and a new one for each notice must not get round the
	// limit.
	allBurst = 60
	allEvery = time.Second
	// maxContexts is how many contexts are remembered. Past it the one that was
	// used longest ago is forgotten.
	maxContexts = 100
)

// limit decides how many notices are delivered.
type limit struct {
	all      *rate.Limiter
	contexts map[string]*allowance
	// untold are those held back in contexts that were forgotten.
	untold int
}

// allowance is what one context still may.
type allowance struct {
	limiter *rate.Limiter
	held    int
	used    time.Time
}

func newLimit() *limit {
	return &limit{all: rate.NewLimiter(rate.Every(allEvery), allBurst), contexts: map[string]*allowance{}}
}

// take says whether a notice of that context (of that client) is delivered now, and if so, how
// many were held back since the last that was.
func (l *limit) take(context string, now time.Time) (held int, ok bool) {
	a := l.contexts[context]
	if a == nil {
		if len(l.contexts) == maxContexts {
			l.forget()
		}
		a = &allowance{limiter: rate.NewLimiter(rate.Every(every), burst)}
		l.contexts[context] = a
	}
	a.used = now
	if l.all.TokensAt(now) < 1 || !a.limiter.AllowN(now, 1) {
		a.held++
		return 0, false
	}
	l.all.AllowN(now, 1)
	held, a.held = a.held, 0
	return held, true
}

// forget makes room for one context.
func (l *limit) forget() {
	var oldest string
	var at time.Time
	for context, a := range l.contexts {
		if at.IsZero() || a.used.Before(at) {
			oldest, at = context, a.used
		}
	}
	l.untold += l.contexts[oldest].held
	delete(l.contexts, oldest)
}

// left is how many were held back and never told of.
func (l *limit) left() int {
	n := l.untold
	for _, a := range l.contexts {
		n += a.held
	}
	return n
}
