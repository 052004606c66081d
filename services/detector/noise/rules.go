package noise

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// The states of a rule, as query.NoiseRule has them.
const (
	stateApplied  = "applied"
	stateProposed = "proposed"
	StateManual   = "manual"
)

// rule is a pattern that auto-detection found, under the pattern's key.
type rule struct {
	id       string
	percent  int // of confidence
	applied  bool
	hidden   uint64
	lastSeen int64 // of the pattern, in milliseconds since 1970
	example  string
}

// ruleSize is about what a rule takes beside its text, in bytes.
const ruleSize = 224

// ruleID names a rule by what it is about, so that it is the same after a
// replay.
func ruleID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "noise_" + hex.EncodeToString(sum[:6])
}

// Found is what one run of auto-detection found: patterns, in the order in
// which they were last seen.
type Found struct {
	Applied, Proposed []string
	app               string
	ids               []string // of the rules that apply, with their state
}

// Len is how many patterns were found.
func (f *Found) Len() int {
	if f == nil {
		return 0
	}
	return len(f.Applied) + len(f.Proposed)
}

// Detect runs auto-detection. It returns nil when it found nothing new.
func (a *App) Detect(now time.Time) *Found {
	t := now.UnixMilli()
	a.lastRun, a.started = t, true
	found := Found{app: a.name}
	for key, p := range a.patterns.All() {
		least := minLogs
		if key[0] == ofRequests {
			least = minRequests
		}
		if len((*p).at) < least {
			continue
		}
		if n := (*p).within(t-Window.Milliseconds(), t); n >= least {
			a.judge(key, *p, n, t, &found)
		}
	}
	if found.Len() == 0 {
		return nil
	}
	return &found
}

// judge makes or strengthens the rule of a pattern that occurred n times.
func (a *App) judge(key string, p *pattern, n int, t int64, found *Found) {
	percent := min(baseConfidence+n, maxConfidence)
	r := a.ruleOf(key)
	switch {
	case r == nil:
		id := ruleID(a.name, key)
		if a.removed.Peek(id) != nil {
			return
		}
		if !a.makeRoom(t) {
			a.leftOut++
			return
		}
		r = &rule{id: id, lastSeen: t, example: p.example}
		a.addRule(key, r)
	case r.applied || percent < minApplied:
		r.percent = max(r.percent, percent)
		return
	}
	r.percent, r.applied = percent, percent >= minApplied
	if r.applied {
		found.Applied = append(found.Applied, key[1:])
		found.ids = append(found.ids, r.id+stateApplied)
	} else {
		found.Proposed = append(found.Proposed, key[1:])
	}
}

func (a *App) ruleOf(key string) *rule {
	if r := a.rules.Peek(key); r != nil {
		return *r
	}
	return nil
}

// makeRoom sees to it that there is room for a rule, if need be by forgetting
// one that is idle. Rules in use stay: to trade one for another would find the
// first anew in the next run, and so on for ever.
func (a *App) makeRoom(t int64) bool {
	if a.rules.Len() < a.rules.Cap() {
		return true
	}
	oldest := a.rules.Oldest()
	if oldest.Value.lastSeen > t-Window.Milliseconds() {
		return false
	}
	a.deleteRule(oldest.Key, oldest.Value)
	a.evicted++
	return true
}

func (a *App) addRule(key string, r *rule) {
	a.rules.Add(key, r)
	a.size += len(key) + len(r.example) + ruleSize
}

func (a *App) deleteRule(key string, r *rule) {
	a.rules.Delete(key)
	a.size -= len(key) + len(r.example) + ruleSize
}

// Remove removes a rule that was found and keeps it from coming back. It says
// whether there was one.
func (a *App) Remove(id string) bool {
	for key, r := range a.rules.All() {
		if (*r).id == id {
			a.deleteRule(key, *r)
			a.addRemoved(id)
			return true
		}
	}
	return false
}

func (a *App) addRemoved(id string) {
	if _, gone := a.removed.Add(id, struct{}{}); gone == nil {
		a.size += removedSize
	}
}

const removedSize = 128

// Rules lists the rules that were found, the one that matched last at the end.
func (a *App) Rules() []query.NoiseRule {
	var all []query.NoiseRule
	for key, r := range a.rules.All() {
		all = append(all, (*r).describe(a.name, key))
	}
	return all
}

func (r *rule) describe(app, key string) query.NoiseRule {
	d := query.NoiseRule{
		ID: r.id, App: app, State: stateProposed, Kind: telemetry.KindLog, Pattern: key[1:],
		Confidence: float64(r.percent) / 100, Hidden: r.hidden, Example: r.example,
	}
	if r.applied {
		d.State = stateApplied
	}
	if key[0] == ofRequests {
		d.Kind = telemetry.KindNetwork
	}
	return d
}

// Alert announces the rules that apply from now on, and there is none when
// there are none. Those that are only proposed wait in the list of rules until
// somebody looks; the alert says in its context how many.
func (f *Found) Alert() (alert.Alert, bool) {
	if f == nil || len(f.Applied) == 0 {
		return alert.Alert{}, false
	}
	slices.Sort(f.ids)
	return alert.Alert{
		Severity: alert.Info, Category: alert.Noise, Source: alert.SourceNoise, Title: "Noise found and hidden",
		Detail:   "Hidden from now on: " + strings.Join(f.Applied, " | "),
		Context:  map[string]any{stateApplied: len(f.Applied), stateProposed: len(f.Proposed)},
		DedupKey: "noise:" + f.app + ":" + ruleID(f.ids...),
	}, true
}
