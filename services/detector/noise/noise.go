// Package noise finds events that are not worth attention: lines below level error that
// repeat, chatter of browser extensions and development tools, health checks, and the
// sockets of development servers.
//
// It counts message templates and infrastructure requests over 10 minutes. Auto-detection,
// every 60 s of event time and on command, makes rules for frequent patterns. With enough
// confidence a rule is applied automatically and announced by an alert; with less it is
// proposed, which only the list of rules shows. Lines of level error are counted and hidden
// only if they come from an extension or a tool. Rules that a person added are in [Manual].
//
// With ruleset.Mined, templates of lines that differ in a few words count together (package
// logtemplate). A rule never hides more than the template with which it was announced or
// proposed. A wider template is another rule with its own announcement, which replaces the
// narrower ones. Lines under an applied rule are no longer counted one by one, so they
// neither widen it nor use the room of others. Lines of level error never count together
// with others, even if a tool wrote them.
//
// A rule that was applied automatically does not hide a check that fails after it succeeded
// (one failure is shown, the next one after 120 s without any), nor warnings of an app with
// an open error: a rule about those is only proposed.
//
// A found rule that was removed does not come back, nor does any other that would hide its
// lines, until a person restores it with Accept, which also applies a proposed rule.
//
// The package has no clock.
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
	// seen one is evicted.
	MaxPatterns = 2000
	// MaxRules is how many found rules one app has. Past it, a new rule replaces one that
	// matched nothing for 10 minutes, or is left out if there is none.
	MaxRules = 200
	// MaxRemoved is how many removed rules of one app are remembered, so that they don't
	// come back.
	MaxRemoved = 400

	// Period is the time between two runs of auto-detection.
	Period = 60 * time.Second
	// Window is the time over which occurrences count.
	Window = 10 * time.Minute

	// minLogs and minRequests are the least occurrences of a pattern that is noise.
	// minApplied is the confidence, in percent, from which on a rule is applied
	// automatically.
	minLogs     = 10
	minRequests = 20
	minApplied  = 90
	// The confidence in percent is baseConfidence plus one for each occurrence, at most
	// maxConfidence. So only the newest arrivals occurrences are stored.
	baseConfidence = 70
	maxConfidence  = 99
	arrivals       = maxConfidence - baseConfidence

	// maxExample is the longest example of a rule, in characters.
	maxExample = 200
)

// The kinds of patterns. The kind is the first byte of a pattern's key, so a rule about
// chatter of a tool never hides the same words of the app.
const (
	ofLogs     = 'l' // lines below level error
	ofTools    = 't' // lines of an extension or a tool
	ofRequests = 'r'
	// ofToolErrors are lines of level error of a tool. Only mined rules separate them from
	// ofTools.
	ofToolErrors = 'e'
)

// App finds noise in the events of one app.
type App struct {
	name     string
	patterns *lru.Map[string, *pattern]
	rules    *lru.Map[string, *rule]
	removed  *lru.Map[string, removal]
	mined    *mined // nil unless similar templates count together
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

// pattern has the times of the newest occurrences of a template or request.
type pattern struct {
	at      []int64 // at most arrivals
	alarms  uint32  // a bit for each of them for which an alert would be raised
	next    int     // index of the oldest, which the next one replaces once at is full
	example string  // set once there are enough occurrences for a rule
	under   verdict // the mined rule that matches it
	warned  int64   // time of the newest warning
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

// Patterns returns the number of templates that are counted.
func (a *App) Patterns() int { return a.patterns.Len() }

// Evicted returns how many templates and rules were evicted since New.
func (a *App) Evicted() uint64 { return a.evicted }

// LeftOut returns how many patterns got no rule for lack of room since New.
func (a *App) LeftOut() uint64 { return a.leftOut }

// Size returns about how many bytes are held.
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
	return a.observe(s, now)
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
	return a.observe(Sighting{Text: url, Severity: severity}, now)
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

// observe counts an occurrence of the key in scratch.
func (a *App) observe(s Sighting, now time.Time) (hidden bool, found *Found) {
	t := now.UnixMilli()
	var p *pattern
	if known := lru.GetBytes(a.patterns, a.scratch); known != nil {
		p = *known
	}
	epoch := a.mined.current()
	r := a.under(a.scratch, p)
	if r.applies() {
		a.deletePattern(p)
		p = nil
	} else {
		p = a.count(p, s, t)
		p.under = verdict{r, epoch}
	}
	if found = a.Tick(now); a.mined.current() != epoch {
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
	if p.example == "" && len(p.at) >= minLogs && a.scratch[0] != ofRequests { // a request's pattern is example enough
		p.example = strings.Clone(sanitize.Cut(s.Text, maxExample))
	}
	a.size += p.size()
	return p
}

// hide reports whether the rule about the key in scratch, or the mined rule that matches
// it, hides an occurrence, and counts it under that rule. found is what auto-detection
// found with this occurrence.
func (a *App) hide(mined *rule, s Sighting, t int64, found *Found) bool {
	if a.rules.Len() == 0 {
		return false
	}
	if known := lru.GetBytes(a.rules, a.scratch); known != nil && a.hides(*known, s, t, found) {
		return true
	}
	if mined == nil {
		return false
	}
	a.rules.Get(mined.key) // it is in use
	return a.hides(mined, s, t, found)
}

// hides counts an occurrence under a rule, and reports whether the rule hides it.
func (a *App) hides(r *rule, s Sighting, t int64, found *Found) bool {
	if !r.applied && found != nil && r.seen.since == t {
		return false // the occurrences that led to the rule include it
	}
	r.warned = r.warned || s.warns()
	if r.applied && a.exempts(r, s, t) {
		r.seen.lastSeen = t
		return false
	}
	a.size += r.seen.count(s, t)
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

// patternSize is about how many bytes a pattern takes in addition to its text and times.
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

// within counts the stored occurrences after one time and up to another.
func (p *pattern) within(after, until int64) int {
	n := 0
	for _, at := range p.at {
		if at > after && at <= until {
			n++
		}
	}
	return n
}
