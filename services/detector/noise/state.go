package noise

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Bounds on the values in a snapshot.
const (
	maxKey     = 1 + template.MaxLen
	maxExcerpt = 4 * maxExample // in bytes
	maxID      = 64
	maxName    = 1 << 16 // of an app, in bytes
	maxHidden  = 1 << 60
)

// State writes or reads the patterns and rules of an app. Reading leaves out those that the
// app's noise rule (spec or mined) does not make.
func (a *App) State(s *snapshot.Codec) {
	s.Bool(1, &a.started)
	snapshot.Int(s, 2, &a.lastRun, snapshot.AnyInt)
	snapshot.Int(s, 3, &a.failed, snapshot.AnyInt)
	snapshot.Entries(s, 4, a.patterns, func(s *snapshot.Codec, key *string, p **pattern) {
		if s.Reading() {
			*p = &pattern{}
		}
		stateKey(s, key)
		(*p).state(s)
	}, func(key string, p *pattern) {
		if a.knows(key) {
			a.addPattern(key, p)
		}
	})
	snapshot.Entries(s, 5, a.rules, func(s *snapshot.Codec, key *string, r **rule) {
		if s.Reading() {
			*r = &rule{}
		}
		stateKey(s, key)
		(*r).state(s)
	}, func(key string, r *rule) {
		r.id, r.key = ruleID(a.name, key), key
		// A key that was a template in an earlier version may no longer be one.
		if a.knows(key) && a.bind(r) {
			a.addRule(r)
		}
	})
	snapshot.Entries(s, 6, a.removed, func(s *snapshot.Codec, id *string, r *removal) {
		s.String(1, id, maxID)
		s.String(2, &r.key, maxKey)
		snapshot.Uint(s, 3, &r.percent, maxConfidence)
	}, func(id string, r removal) { a.addRemoved(id, r.key, r.percent) })
}

// stateKey writes or reads the key of a pattern or rule, which is not empty.
func stateKey(s *snapshot.Codec, key *string) {
	if s.String(1, key, maxKey); s.Reading() && *key == "" {
		s.Fail("a pattern without a key")
	}
}

// state writes or reads a pattern with its times, the oldest first.
func (p *pattern) state(s *snapshot.Codec) {
	s.String(2, &p.example, maxExcerpt)
	if s.Reading() {
		p.at = s.PackedTimes(3, p.at, arrivals)
		snapshot.Uint(s, 4, &p.alarms, 1<<arrivals-1)
	} else {
		var room [arrivals]int64
		times, alarms := room[:0], uint32(0)
		for i := range p.at {
			at := (p.next + i) % len(p.at)
			times = append(times, p.at[at])
			alarms |= p.alarms >> at & 1 << i
		}
		s.PackedTimes(3, times, arrivals)
		snapshot.Uint(s, 4, &alarms, 1<<arrivals-1)
	}
	snapshot.Int(s, 5, &p.warned, snapshot.AnyInt)
}

func (r *rule) state(s *snapshot.Codec) {
	snapshot.Uint(s, 2, &r.percent, maxConfidence)
	s.Bool(3, &r.applied)
	s.String(4, &r.example, maxExcerpt)
	snapshot.Message(s, 5, &r.seen, (*record).state)
	s.Bool(6, &r.accepted)
	s.Bool(7, &r.warned)
	s.Bool(8, &r.check.succeeded)
	snapshot.Int(s, 9, &r.check.failed, snapshot.AnyInt)
}

// State writes or reads the rules that were added by hand.
func (m *Manual) State(s *snapshot.Codec) {
	rules := m.rules
	if s.Reading() {
		rules = nil
	}
	snapshot.List(s, 1, &rules, MaxManual, (*manualRule).state)
	if !s.Reading() {
		return
	}
	m.rules = nil
	for _, r := range rules {
		c := query.NoiseRequest{Action: query.NoiseAdd, App: r.app, Kind: r.kind, Pattern: r.pattern}
		err := Check(c)
		if err == nil {
			_, err = m.Add(c, time.Time{})
		}
		if err != nil {
			s.Fail("a rule added by hand: %v", err)
			return
		}
		m.rules[len(m.rules)-1].seen = r.seen
	}
}

func (r *manualRule) state(s *snapshot.Codec) {
	kind := string(r.kind)
	s.String(1, &r.app, maxName)
	s.String(2, &kind, maxID)
	s.String(3, &r.pattern, MaxPattern)
	snapshot.Message(s, 4, &r.seen, (*record).state)
	r.kind = telemetry.Kind(kind)
}
