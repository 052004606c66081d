package noise

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/detector/logtemplate"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// The states of a rule in query.NoiseRule.
const (
	stateApplied  = "applied"
	stateProposed = "proposed"
	StateManual   = "manual"
)

// rule is a rule that auto-detection found, under the key of its pattern.
type rule struct {
	id, key string
	percent int // confidence
	applied bool
	// accepted reports whether a person applied it, warned whether it matched warnings.
	accepted, warned bool
	check            check
	example          string
	seen             record
	// template is set for a mined rule, whose key has holes. Other rules match their key
	// only.
	template *logtemplate.Template
}

// applies reports whether there is a rule and it applies.
func (r *rule) applies() bool { return r != nil && r.applied }

func (r *rule) size() int {
	n := ruleSize + len(r.key) + len(r.example) + r.seen.size()
	if r.template != nil {
		n += r.template.Size()
	}
	return n
}

// ruleSize is about how many bytes a rule takes in addition to its text and record.
const ruleSize = 224

// ruleID derives the id of a rule from its subject, so a replay gives the same id.
func ruleID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "noise_" + hex.EncodeToString(sum[:6])
}

// Found lists the patterns that one run of auto-detection made or applied rules for: first
// the templates of mined rules, then others, the one seen last at the end.
type Found struct {
	Applied, Proposed []string
	app               string
	ids               []string // of the applied rules, each with its state
}

// Len returns the number of patterns.
func (f *Found) Len() int {
	if f == nil {
		return 0
	}
	return len(f.Applied) + len(f.Proposed)
}

func (f *Found) add(r *rule) {
	pattern := logtemplate.Shown(r.key[1:])
	if !r.applied {
		f.Proposed = append(f.Proposed, pattern)
		return
	}
	f.Applied = append(f.Applied, pattern)
	f.ids = append(f.ids, r.id+stateApplied)
}

// Detect runs auto-detection. It returns nil if it found nothing new.
func (a *App) Detect(now time.Time) *Found {
	t := now.UnixMilli()
	a.lastRun, a.started = t, true
	found := Found{app: a.name}
	a.mine(t, &found)
	for key, p := range a.patterns.All() {
		least := minLogs
		if key[0] == ofRequests {
			least = minRequests
		}
		if len((*p).at) < least {
			continue
		}
		if n := (*p).within(t-Window.Milliseconds(), t); n >= least && !a.isRedundant(key, *p, n, t) {
			a.consider(key, *p, n, t, &found)
		}
	}
	if found.Len() == 0 {
		return nil
	}
	return &found
}

// consider adds or strengthens the rule of a pattern that occurred n times.
func (a *App) consider(key string, p *pattern, n int, t int64, found *Found) {
	warned := p.warnedSince(t - Window.Milliseconds())
	if r := a.ruleOf(key); r != nil {
		r.warned = r.warned || warned
		a.strengthen(r, n, t, found)
		return
	}
	r := a.newRule(key, n, t, warned)
	r.check = p.outcomes(t)
	if a.isRemoved(r) {
		return
	}
	if !a.makeRoom(t) {
		a.leftOut++
		return
	}
	r.example = p.example
	r.countPast(p, t)
	r.seen.addExample(p.example)
	a.addRule(r)
	found.add(r)
}

// newRule returns a rule about a pattern that occurred n times. warned reports whether
// warnings were among them.
func (a *App) newRule(key string, n int, t int64, warned bool) *rule {
	percent := min(baseConfidence+n, maxConfidence)
	r := &rule{id: ruleID(a.name, key), key: key, percent: percent, warned: warned}
	r.applied = percent >= minApplied && !a.mustWait(r, t)
	r.seen.since, r.seen.lastSeen = t, t
	r.seen.minutes.minute = minuteOf(t)
	return r
}

// countPast counts the occurrences that led to a proposed rule, which it would have hidden. An
// applied rule has hidden none of them.
func (r *rule) countPast(p *pattern, t int64) {
	if r.applied {
		return
	}
	for i, at := range p.at {
		if at <= t-Window.Milliseconds() || at > t {
			continue
		}
		r.seen.n++
		r.seen.alarming += uint64(p.alarms >> i & 1)
		r.seen.minutes.before(at)
	}
}

// strengthen raises the confidence in a rule whose pattern occurred n times, and applies it
// if that is enough.
func (a *App) strengthen(r *rule, n int, t int64, found *Found) {
	percent := min(baseConfidence+n, maxConfidence)
	if r.percent = max(r.percent, percent); r.applied || percent < minApplied || a.mustWait(r, t) {
		return
	}
	a.apply(r, t)
	found.add(r)
}

// apply applies a proposed rule.
func (a *App) apply(r *rule, t int64) {
	r.applied = true
	r.seen.restart(t)
	a.mined.changed()
	a.takeOver(r)
}

func (a *App) ruleOf(key string) *rule {
	if r := a.rules.Peek(key); r != nil {
		return *r
	}
	return nil
}

// makeRoom reports whether there is room for a rule. It evicts an idle rule if necessary,
// but never one in use: each run would find again what the run before evicted.
func (a *App) makeRoom(t int64) bool {
	if a.rules.Len() < a.rules.Cap() {
		return true
	}
	oldest := a.rules.Oldest()
	if oldest.Value.seen.lastSeen > t-Window.Milliseconds() {
		return false
	}
	a.deleteRule(oldest.Value)
	a.evicted++
	return true
}

// addRule adds a rule after makeRoom. It reports whether the index of mined rules has room
// as well.
func (a *App) addRule(r *rule) bool {
	if r.template != nil && !a.mined.add(r) {
		return false
	}
	a.rules.Add(r.key, r)
	a.size += r.size()
	return true
}

func (a *App) deleteRule(r *rule) {
	a.rules.Delete(r.key)
	a.size -= r.size()
	if r.template != nil {
		a.mined.delete(r)
	}
}

// removal is a rule that was found and removed.
type removal struct {
	key     string // empty when an older version removed it
	percent int
	// template is the template of the key, for mined rules.
	template *logtemplate.Template
}

func (r removal) size() int {
	n := removedSize + len(r.key)
	if r.template != nil {
		n += r.template.Size()
	}
	return n
}

const removedSize = 192

// Remove removes a rule that was found and keeps it from coming back. It reports whether
// there was one.
func (a *App) Remove(id string) bool {
	for _, known := range a.rules.All() {
		if r := *known; r.id == id {
			a.deleteRule(r)
			a.addRemoved(id, r.key, r.percent)
			return true
		}
	}
	return false
}

func (a *App) addRemoved(id, key string, percent int) {
	r := removal{key: key, percent: percent}
	if a.mined.of(key) != nil {
		r.template, _ = logtemplate.Parse(key[1:])
	}
	a.size += r.size()
	if _, gone := a.removed.Add(id, r); gone != nil {
		a.size -= gone.Value.size()
	}
}

// isRemoved reports whether a rule was removed, or would hide lines of a removed rule.
func (a *App) isRemoved(r *rule) bool {
	return a.removed.Peek(r.id) != nil || a.mined.overlapsRemoved(a, r)
}

// Accept applies a rule that is proposed or was removed, on a person's command. It reports
// whether there is such a rule.
func (a *App) Accept(id string, now time.Time) bool {
	t := now.UnixMilli()
	for _, known := range a.rules.All() {
		if r := *known; r.id == id {
			r.accepted = true
			if !r.applied {
				a.apply(r, t)
			}
			return true
		}
	}
	known := a.removed.Peek(id)
	if known == nil {
		return false
	}
	was := *known
	a.removed.Delete(id)
	a.size -= was.size()
	if !a.knows(was.key) || a.rules.Peek(was.key) != nil || !a.makeRoom(t) {
		return true // auto-detection may find it again
	}
	r := &rule{id: id, key: was.key, percent: was.percent, applied: true, accepted: true}
	r.seen.since, r.seen.lastSeen = t, t
	if a.bind(r) && a.addRule(r) {
		a.takeOver(r)
	}
	return true
}

// Rules lists the rules that were found, the one that matched last at the end.
func (a *App) Rules(now time.Time) []query.NoiseRule {
	var all []query.NoiseRule
	for _, r := range a.rules.All() {
		all = append(all, (*r).describe(a.name, now.UnixMilli()))
	}
	return all
}

// Removed lists the rules that were removed, the newest at the end. It leaves out rules that
// older versions stored without their pattern.
func (a *App) Removed() []query.RemovedRule {
	var all []query.RemovedRule
	for id, r := range a.removed.All() {
		if r.key != "" {
			all = append(all, query.RemovedRule{ID: id, App: a.name, Kind: kindOf(r.key), Pattern: logtemplate.Shown(r.key[1:])})
		}
	}
	return all
}

func kindOf(key string) telemetry.Kind {
	if key[0] == ofRequests {
		return telemetry.KindNetwork
	}
	return telemetry.KindLog
}

func (r *rule) describe(app string, now int64) query.NoiseRule {
	d := query.NoiseRule{
		ID: r.id, App: app, State: stateProposed, Kind: kindOf(r.key), Pattern: logtemplate.Shown(r.key[1:]),
		Confidence: float64(r.percent) / 100, Example: r.example,
	}
	if r.applied {
		d.State = stateApplied
	}
	r.seen.describe(&d, r.applied, now)
	return d
}

// maxNamed is how many characters of patterns an alert names.
const maxNamed = alert.MaxDetail - 100

// joinPatterns joins whole patterns, and counts those for which there is no room.
func joinPatterns(patterns []string) string {
	room := maxNamed
	for i, p := range patterns {
		if room -= utf8.RuneCountInString(p) + len(between); room < 0 && i > 0 {
			return fmt.Sprintf("%s%sand %d more, which observe noise lists", strings.Join(patterns[:i], between), between, len(patterns)-i)
		}
	}
	return strings.Join(patterns, between)
}

const between = " | "

// Alert returns the alert about the rules that apply from now on, if there are any.
// Proposed rules are only in the list of rules; the alert has their number in its context.
func (f *Found) Alert() (alert.Alert, bool) {
	if f == nil || len(f.Applied) == 0 {
		return alert.Alert{}, false
	}
	slices.Sort(f.ids)
	return alert.Alert{
		Severity: alert.Info, Category: alert.Noise, Source: alert.SourceNoise, Title: "Noise found and hidden",
		Detail:   "Hidden from now on: " + joinPatterns(f.Applied),
		Context:  map[string]any{stateApplied: len(f.Applied), stateProposed: len(f.Proposed)},
		DedupKey: "noise:" + f.app + ":" + ruleID(f.ids...),
	}, true
}
