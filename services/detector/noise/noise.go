// Package noise finds events that are not worth attention: lines below level error that
// repeat, chatter of browser extensions and development tools, health checks, and the
// sockets of development servers.
//
// It counts message templates and infrastructure requests over 10 minutes. Auto-detection,
// every 60 s of event time and on command, makes rules of what is frequent: with enough
// confidence a rule applies automatically and is announced, with less it is proposed, which
// only the list of rules shows. An error is never noise for being frequent: a line of level
// error is counted and hidden only if it comes from an extension or a tool. Rules that a
// person added are in Manual.
//
// With ruleset.Mined, templates of lines that differ in a few words count together (package
// logtemplate). Auto-detection makes rules of what the templates of the last 10 minutes
// have in common. Each rule is bound to the template that it was announced or proposed
// with, and never hides more than that; something wider is another rule with its own
// announcement, which takes over the narrower ones. Lines under such a rule that applies
// are no longer counted one by one, so they neither widen it nor take the room of others.
// Lines of level error never count together with others, even if a tool wrote them.
//
// A rule that was applied automatically hides neither a check that fails after it succeeded
// (one failure is shown until 120 s have passed without any) nor warnings of an app with an
// open error: a rule about those is only proposed.
//
// A found rule that was removed does not come back, nor does any other that would hide its
// lines, until a person restores it (Accept), which also applies a proposed rule.
//
// The package has no clock. Of the alerts that hidden events would have raised it knows
// only whether there are any.
package noise

import (
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// MaxPatterns is how many templates of one app are counted. Past it, the least recently
	// seen one is forgotten.
	MaxPatterns = 2000
	// MaxRules is how many rules of one app are found. Past it, a rule that matched nothing
	// for 10 minutes makes room, and if there is none, a new pattern is left out.
	MaxRules = 200
	// MaxRemoved is how many removed rules of one app are remembered, so that they don't
	// come back.
	MaxRemoved = 400

	// Period is how often auto-detection runs.
	Period = 60 * time.Second
	// Window is how far back it looks.
	Window = 10 * time.Minute

	// minLogs and minRequests are how often something has to occur to be noise. minApplied
	// is the confidence, in percent, from which on a rule applies automatically.
	minLogs     = 10
	minRequests = 20
	minApplied  = 90
	// The confidence in percent is baseConfidence plus one for each occurrence, at most
	// maxConfidence: so no more than arrivals occurrences make a difference.
	baseConfidence = 70
	maxConfidence  = 99
	arrivals       = maxConfidence - baseConfidence

	// maxExample is the longest example of a rule, in characters.
	maxExample = 200
)

// The kinds of patterns. The kind is the first byte of a key, so that a rule about chatter
// of a tool never hides the same words of the app.
const (
	ofLogs     = 'l' // below level error
	ofTools    = 't' // of any level, from an extension or a tool
	ofRequests = 'r'
	// ofToolErrors are lines of level error from a tool, with mined rules. Then ofTools are
	// those below.
	ofToolErrors = 'e'
)

// App finds noise in the events of one app.
type App struct {
	name     string
	patterns *lru.Map[string, *pattern]
	rules    *lru.Map[string, *rule]
	removed  *lru.Map[string, removal]
	mined    *mined // nil unless templates count together that differ
	// lastRun is when auto-detection last ran, or when the app began, in milliseconds since
	// 1970. started reports whether there is such a time.
	lastRun int64
	started bool
	// failed is when an error was logged last, in milliseconds since 1970.
	failed int64

	scratch          []byte
	size             int
	evicted, leftOut uint64
}

// pattern has the times of the newest occurrences.
type pattern struct {
	at      []int64 // at most arrivals
	alarms  uint32  // a bit for each of them that was such as alerts are raised for
	next    int     // where the next goes once at is full: the oldest
	example string  // from the moment on when it may become a rule
	under   verdict // which mined rule it is under
	warned  int64   // when the newest warning among them came
}

// New returns an app without patterns and rules.
func New(app string, by ruleset.Noise) *App {
	a := &App{
		name:     app,
		patterns: lru.New[string, *pattern](MaxPatterns),
		rules:    lru.New[string, *rule](MaxRules),
		removed:  lru.New[string, removal](MaxRemoved),
	}
	if by == ruleset.Mined {
		a.mined = &mined{}
	}
	return a
}

// Patterns is the number of templates that are counted.
func (a *App) Patterns() int { return a.patterns.Len() }

// Evicted returns how many templates were forgotten for lack of room since New.
func (a *App) Evicted() uint64 { return a.evicted }

// LeftOut returns how many patterns found no room as a rule since New.
func (a *App) LeftOut() uint64 { return a.leftOut }

// Size is about how many bytes are held.
func (a *App) Size() int { return a.size + a.mined.size() }

// Log counts a line with the template of its message, runs auto-detection when it is due,
// and reports whether a rule hides the line. tool is the result of FromTool. found is nil
// unless auto-detection found something new.
func (a *App) Log(log *telemetry.Log, tool bool, template []byte, now time.Time) (hidden bool, found *Found) {
	of := byte(ofLogs)
	failed := log.Level == telemetry.LevelError
	switch {
	case tool && failed && a.mined != nil:
		of = ofToolErrors
	case tool:
		of = ofTools
	case failed:
		return false, a.Tick(now)
	}
	a.scratch = append(append(a.scratch[:0], of), template...)
	s := Sighting{Text: log.Message, Level: log.Level}
	if failed {
		s.Severity = alert.Error
	}
	return a.take(s, now)
}

// Request is Log for a request to a URL, with the template of its path. It counts only
// requests of the infrastructure. severity is that of the request's alert, empty if there
// is none.
func (a *App) Request(url string, page []byte, severity alert.Severity, now time.Time) (hidden bool, found *Found) {
	probe := infrastructure(page, url)
	if probe == nil {
		return false, a.Tick(now)
	}
	a.scratch = append(append(a.scratch[:0], ofRequests), probe...)
	return a.take(Sighting{Text: url, Severity: severity}, now)
}

// Tick lets time pass for an event that is never noise.
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
func (a *App) take(s Sighting, now time.Time) (hidden bool, found *Found) {
	t := now.UnixMilli()
	var p *pattern
	if known := lru.GetBytes(a.patterns, a.scratch); known != nil {
		p = *known
	}
	epoch := a.mined.now()
	r := a.under(a.scratch, p)
	if r.applies() {
		a.deletePattern(p)
		p = nil
	} else {
		p = a.count(p, s, t)
		p.under = verdict{r, epoch}
	}
	if found = a.Tick(now); a.mined.now() != epoch {
		r = a.under(a.scratch, p)
	}
	return a.hide(r, s, t, found), found
}

// count counts an occurrence of a pattern, which is nil when it is new.
func (a *App) count(p *pattern, s Sighting, t int64) *pattern {
	if p == nil {
		p = &pattern{}
		a.addPattern(string(a.scratch), p)
	}
	a.size -= p.size()
	p.add(t, s.Alarming())
	if s.warns() {
		p.warned = t
	}
	if p.example == "" && len(p.at) >= minLogs && a.scratch[0] != ofRequests { // their pattern says it all
		p.example = strings.Clone(sanitize.Cut(s.Text, maxExample))
	}
	a.size += p.size()
	return p
}

// hide asks the rule about the key in scratch, and the mined rule for it, whether they hide
// an occurrence, and notes what they hide. What was just found was found with this
// occurrence.
func (a *App) hide(mined *rule, s Sighting, t int64, found *Found) bool {
	if a.rules.Len() == 0 {
		return false
	}
	if known := lru.GetBytes(a.rules, a.scratch); known != nil && a.note(*known, s, t, found) {
		return true
	}
	if mined == nil {
		return false
	}
	a.rules.Get(mined.key) // it is in use
	return a.note(mined, s, t, found)
}

// note counts an occurrence under a rule, and reports whether the rule hides it.
func (a *App) note(r *rule, s Sighting, t int64, found *Found) bool {
	if !r.applied && found != nil && r.seen.since == t {
		return false // it is counted in what led to the rule
	}
	r.warned = r.warned || s.warns()
	if r.applied && a.exempts(r, s, t) {
		r.seen.lastSeen = t
		return false
	}
	a.size += r.seen.see(s, t)
	return r.applied
}

// deletePattern deletes the pattern of the key in scratch, if it is counted.
func (a *App) deletePattern(p *pattern) {
	if p != nil {
		a.size -= len(a.scratch) + patternSize + p.size()
		a.patterns.Delete(string(a.scratch))
	}
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

func (p *pattern) add(t int64, alarming bool) {
	i := p.next
	if len(p.at) < arrivals {
		i = len(p.at)
		p.at = append(p.at, t)
	} else {
		p.at[i] = t
		p.next = (i + 1) % arrivals
	}
	if p.alarms &^= 1 << i; alarming {
		p.alarms |= 1 << i
	}
}

// within counts the known occurrences after one time and up to another, at most arrivals.
func (p *pattern) within(after, until int64) int {
	n := 0
	for _, at := range p.at {
		if at > after && at <= until {
			n++
		}
	}
	return n
}
