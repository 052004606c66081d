package noise

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// A rule that was applied automatically exempts two kinds of events, which a rule that a
// person accepted does hide: a check that fails after it succeeded, and warnings of an app
// with an open error.
const (
	// CheckQuiet is how long a check must not have failed until its next failure is shown.
	CheckQuiet = 120 * time.Second
	// ErrorOpen is how long an error counts as open after it was logged last.
	ErrorOpen = 10 * time.Minute
)

// check has the outcomes of the requests under a rule. failed is the time of the last
// failure, in milliseconds since 1970, 0 for none.
type check struct {
	succeeded bool
	failed    int64
}

// fails notes a failure, and reports whether it is news.
func (c *check) fails(t int64) bool {
	quiet := c.failed == 0 || t < c.failed || t-c.failed >= CheckQuiet.Milliseconds()
	c.failed = t
	return c.succeeded && quiet
}

// outcomes returns the outcomes of a pattern's newest occurrences. It leaves out failures at t:
// the current event may be one.
func (p *pattern) outcomes(t int64) (c check) {
	for i, at := range p.at {
		switch {
		case p.alarms>>i&1 == 0:
			c.succeeded = true
		case at < t:
			c.failed = max(c.failed, at)
		}
	}
	return c
}

// Failed notes that an error of the app was logged that no rule hides.
func (a *App) Failed(now time.Time) { a.failed = now.UnixMilli() }

// errorOpen reports whether an error of the app is open.
func (a *App) errorOpen(t int64) bool {
	return a.failed > 0 && t >= a.failed && t-a.failed < ErrorOpen.Milliseconds()
}

// exempts reports whether an applied rule does not hide an event, and notes the outcome of
// a check.
func (a *App) exempts(r *rule, s Sighting, t int64) bool {
	news := false
	if r.key[0] == ofRequests {
		if s.Alarming() {
			news = r.check.fails(t)
		} else {
			r.check.succeeded = true
		}
	}
	switch {
	case r.accepted:
		return false
	case r.key[0] == ofRequests && r.check.succeeded:
		return news
	default:
		return s.warns() && a.errorOpen(t)
	}
}

// mustWait reports whether a rule must not be applied automatically now, because it would hide
// warnings of an app with an open error.
func (a *App) mustWait(r *rule, t int64) bool { return r.warned && a.errorOpen(t) }

// Alarming reports whether an alert would be raised for the event.
func (s Sighting) Alarming() bool { return s.Severity != "" }

// warns reports whether the event is a warning.
func (s Sighting) warns() bool {
	return s.Level == telemetry.LevelWarn || s.Severity == alert.Warning
}

// warnedSince reports whether a warning of the pattern came after a time.
func (p *pattern) warnedSince(t int64) bool { return p.warned > t }
