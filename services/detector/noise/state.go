package noise

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/rules"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Bounds on what a snapshot holds.
const (
	maxKey     = 1 + template.MaxLen
	maxExcerpt = 4 * maxExample // bytes of that many characters
	maxID      = 64
	maxName    = 1 << 16 // of an app
	maxHidden  = 1 << 60
)

// Save writes the patterns and rules of an app.
func (a *App) Save(w *snapshot.Writer) {
	w.Bool(a.started)
	w.Int(a.lastRun)
	w.Int(a.failed)
	w.Len(a.patterns.Len())
	for key, p := range a.patterns.All() {
		w.String(key)
		(*p).save(w)
	}
	w.Len(a.rules.Len())
	for key, r := range a.rules.All() {
		w.String(key)
		(*r).save(w)
	}
	w.Len(a.removed.Len())
	for id, r := range a.removed.All() {
		w.String(id)
		w.String(r.key)
		w.Len(r.percent)
	}
}

// save writes the times, the oldest first.
func (p *pattern) save(w *snapshot.Writer) {
	w.String(p.example)
	w.Len(len(p.at))
	last := int64(0)
	for i := range p.at {
		t := p.at[(p.next+i)%len(p.at)]
		w.Int(t - last)
		last = t
	}
	alarms := uint64(0)
	for i := range p.at {
		alarms |= uint64(p.alarms>>((p.next+i)%len(p.at))&1) << i
	}
	w.Uint(alarms)
	w.Int(p.warned)
}

func (r *rule) save(w *snapshot.Writer) {
	w.Len(r.percent)
	w.Bool(r.applied)
	w.Uint(r.seen.n)
	w.Int(r.seen.lastSeen)
	w.String(r.example)
	r.seen.save(w)
	r.saveExempt(w)
}

// Restore reads what Save wrote of the app of that name. Errors are in r. What only
// other rules than those by which the app is judged have found is left out.
func Restore(app string, by rules.Noise, r *snapshot.Reader) *App {
	a := New(app, by)
	a.started, a.lastRun = r.Bool(), r.Int()
	if r.Has(snapshot.Lifecycle) {
		a.failed = r.Int()
	}
	for range r.Len(MaxPatterns) {
		if key, p := restoreKey(r), restorePattern(r); a.knows(key) {
			a.addPattern(key, p)
		}
	}
	for range r.Len(MaxRules) {
		// What is no template any more, by a later package drain, is left out, too.
		if known := restoreRule(app, r); a.knows(known.key) && a.bind(known) {
			a.addRule(known)
		}
	}
	for range r.Len(MaxRemoved) {
		id, key, percent := r.String(maxID), "", 0
		if r.Has(snapshot.Trust) {
			key, percent = r.String(maxKey), r.UpTo(maxConfidence)
		}
		a.addRemoved(id, key, percent)
	}
	return a
}

func restoreKey(r *snapshot.Reader) string {
	key := r.String(maxKey)
	if key == "" {
		r.Fail("a pattern without a key")
		return string(rune(ofLogs))
	}
	return key
}

func restorePattern(r *snapshot.Reader) *pattern {
	p := &pattern{example: r.String(maxExcerpt)}
	last := int64(0)
	for range r.Len(arrivals) {
		last += r.Int()
		p.at = append(p.at, last)
	}
	if r.Has(snapshot.Trust) {
		p.alarms = uint32(r.UpTo(1<<arrivals - 1))
	}
	if r.Has(snapshot.Lifecycle) {
		p.warned = r.Int()
	}
	return p
}

func restoreRule(app string, in *snapshot.Reader) *rule {
	key := restoreKey(in)
	r := &rule{id: ruleID(app, key), key: key, percent: in.UpTo(maxConfidence), applied: in.Bool()}
	r.seen.n, r.seen.lastSeen, r.example = uint64(in.UpTo(maxHidden)), in.Int(), in.String(maxExcerpt)
	if in.Has(snapshot.Trust) {
		r.seen.restore(in)
	}
	r.restoreExempt(in)
	return r
}

// Save writes the rules that were added by hand.
func (m *Manual) Save(w *snapshot.Writer) {
	w.Len(len(m.rules))
	for _, r := range m.rules {
		w.String(r.app)
		w.String(string(r.kind))
		w.String(r.pattern)
		w.Uint(r.seen.n)
		w.Int(r.seen.lastSeen)
		r.seen.save(w)
	}
}

// RestoreManual reads what Save wrote. Errors are in r.
func RestoreManual(r *snapshot.Reader) *Manual {
	m := &Manual{}
	for range r.Len(MaxManual) {
		c := query.NoiseRequest{Action: query.NoiseAdd, App: r.String(maxName)}
		c.Kind, c.Pattern = telemetry.Kind(r.String(maxID)), r.String(MaxPattern)
		seen := record{n: uint64(r.UpTo(maxHidden))}
		if r.Has(snapshot.Trust) {
			seen.lastSeen = r.Int()
			seen.restore(r)
		}
		if err := Check(c); err != nil {
			r.Fail("a rule added by hand: %v", err)
			return m
		}
		if _, err := m.Add(c, time.Time{}); err != nil {
			r.Fail("a rule added by hand: %v", err)
			return m
		}
		m.rules[len(m.rules)-1].seen = seen
	}
	return m
}
