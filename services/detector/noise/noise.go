// Package noise decides which events are not worth anybody's attention: what
// is said over and over below level error, chatter of browser extensions and
// development tools, health checks and the sockets of development servers.
//
// It counts message templates and infrastructure requests over 10 minutes.
// Auto-detection, every 60 s of event time and on command, makes rules of what
// is frequent: with enough confidence a rule applies by itself and is announced,
// with less it is proposed, which only the list of rules shows. An error is never noise for being frequent: a line of level error
// is counted and hidden only when it comes from an extension or a tool.
// Beside the found rules stand those that somebody added by hand (Manual).
//
// The package knows no clock, and not what would have been raised for an event
// that it hides.
package noise

import (
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

const (
	// MaxPatterns is how many templates of one app are counted. Past it, the
	// one not seen for the longest is forgotten.
	MaxPatterns = 2000
	// MaxRules is how many rules of one app are found. Past it, a rule that
	// matched nothing for 10 minutes makes room, and without one a new pattern
	// is left out.
	MaxRules = 200
	// MaxRemoved is how many removed rules of one app are remembered, so that
	// they don't come back by themselves.
	MaxRemoved = 400

	// Period is how often auto-detection runs by itself.
	Period = 60 * time.Second
	// Window is how far back it looks.
	Window = 10 * time.Minute

	// minLogs and minRequests are from how many occurrences on something is
	// noise; a rule applies by itself from minApplied percent of confidence on.
	minLogs     = 10
	minRequests = 20
	minApplied  = 90
	// baseConfidence plus one for each occurrence, up to maxConfidence, in
	// percent: so no more than arrivals occurrences make a difference.
	baseConfidence = 70
	maxConfidence  = 99
	arrivals       = maxConfidence - baseConfidence

	// maxExample is the longest example of a rule, in characters.
	maxExample = 200
)

// What a pattern is of. It is the first byte of its key, so that a rule about
// chatter of a tool never touches the same words from elsewhere.
const (
	ofLogs     = 'l' // below level error
	ofTools    = 't' // of any level, from an extension or a tool
	ofRequests = 'r'
)

// App finds noise in the events of one app.
type App struct {
	name     string
	patterns *lru.Map[string, *pattern]
	rules    *lru.Map[string, *rule]
	removed  *lru.Map[string, struct{}]
	// lastRun is when auto-detection last ran, or when the app began, in
	// milliseconds since 1970; started says that there is such a time.
	lastRun int64
	started bool

	scratch          []byte
	size             int
	evicted, leftOut uint64
}

// pattern is when the newest occurrences came.
type pattern struct {
	at      []int64 // at most arrivals
	next    int     // where the next goes once at is full: the oldest
	example string  // from the moment on when it may become a rule
}

// New returns an app without patterns and rules.
func New(app string) *App {
	return &App{
		name:     app,
		patterns: lru.New[string, *pattern](MaxPatterns),
		rules:    lru.New[string, *rule](MaxRules),
		removed:  lru.New[string, struct{}](MaxRemoved),
	}
}

// Patterns is the number of templates that are counted.
func (a *App) Patterns() int { return a.patterns.Len() }

// Evicted is how many templates were forgotten for want of room since New.
func (a *App) Evicted() uint64 { return a.evicted }

// LeftOut is how many patterns found no room as a rule since New.
func (a *App) LeftOut() uint64 { return a.leftOut }

// Size is about how many bytes are held.
func (a *App) Size() int { return a.size }

// Log counts a line with the template of its message, runs auto-detection when
// it is time, and says whether the line is under a rule that applies. Tool is
// what FromTool says of its event. Found is nil unless auto-detection found
// something new.
func (a *App) Log(log *telemetry.Log, tool bool, template []byte, now time.Time) (hidden bool, found *Found) {
	of := byte(ofLogs)
	switch {
	case tool:
		of = ofTools
	case log.Level == telemetry.LevelError:
		return false, a.Tick(now)
	}
	a.scratch = append(append(a.scratch[:0], of), template...)
	return a.take(log.Message, now)
}

// Request counts a request to a URL, of which page is the path template, when it
// is of the infrastructure. Otherwise it is like Log.
func (a *App) Request(url string, page []byte, now time.Time) (hidden bool, found *Found) {
	probe := infrastructure(page, url)
	if probe == nil {
		return false, a.Tick(now)
	}
	a.scratch = append(append(a.scratch[:0], ofRequests), probe...)
	return a.take("", now)
}

// Tick is for events that can't be noise: they only let time pass.
func (a *App) Tick(now time.Time) *Found {
	t := now.UnixMilli()
	if !a.started || t < a.lastRun {
		a.lastRun, a.started = t, true
	}
	if t-a.lastRun < Period.Milliseconds() {
		return nil
	}
	return a.Detect(now)
}

// take counts an occurrence of the key in scratch.
func (a *App) take(example string, now time.Time) (hidden bool, found *Found) {
	a.count(example, now.UnixMilli())
	found = a.Tick(now)
	return a.hide(now.UnixMilli()), found
}

func (a *App) count(example string, t int64) {
	var p *pattern
	if known := lru.GetBytes(a.patterns, a.scratch); known != nil {
		p = *known
	} else {
		p = &pattern{}
		a.addPattern(string(a.scratch), p)
	}
	a.size -= p.size()
	p.add(t)
	if p.example == "" && len(p.at) >= minLogs {
		p.example = strings.Clone(untrusted.Cut(example, maxExample))
	}
	a.size += p.size()
}

// hide looks for a rule about the key in scratch, and counts what it hides.
func (a *App) hide(t int64) bool {
	if a.rules.Len() == 0 {
		return false
	}
	known := lru.GetBytes(a.rules, a.scratch)
	if known == nil {
		return false
	}
	r := *known
	r.lastSeen = t
	if r.applied {
		r.hidden++
	}
	return r.applied
}

func (a *App) addPattern(key string, p *pattern) {
	_, gone := a.patterns.Add(key, p)
	a.size += len(key) + patternSize + p.size()
	if gone != nil {
		a.size -= len(gone.Key) + patternSize + gone.Value.size()
		a.evicted++
	}
}

// patternSize is about what a pattern takes beside its text and its times.
const patternSize = 192

func (p *pattern) size() int { return 8*len(p.at) + len(p.example) }

func (p *pattern) add(t int64) {
	if len(p.at) < arrivals {
		p.at = append(p.at, t)
		return
	}
	p.at[p.next] = t
	p.next = (p.next + 1) % arrivals
}

// within counts the occurrences after one time and up to another, of which it
// knows at most arrivals.
func (p *pattern) within(after, until int64) int {
	n := 0
	for _, at := range p.at {
		if at > after && at <= until {
			n++
		}
	}
	return n
}
