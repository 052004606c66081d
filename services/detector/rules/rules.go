// Package rules says by which rules an app is judged, where there is more than
// one for the same question. It decides nothing itself: package fold hands each
// app the set that is meant for it.
//
// The zero value of everything is what the contract says (section 5). The others
// were made because those cry wolf: README.md has the figures of both.
package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Anomaly is how an error spike is told from errors as usual.
type Anomaly uint8

// The rules for anomalies.
const (
	// Ratio3x is more than 3 times the rolling average, and at least 5 in 10 s.
	Ratio3x Anomaly = iota
	// RateTail is a count that the rate so far makes as good as impossible. Drifts
	// and recurring bursts are told with it.
	RateTail
	// Both has Ratio3x speak, and RateTail in the shadow: on subjects that nobody
	// but who compares them hears.
	Both
)

// Regression is how a slower page is told from one that varies.
type Regression uint8

// The rules for regressions.
const (
	// Spec judges each load by itself.
	Spec Regression = iota
	// Confirmed has the loads that follow confirm or withdraw what one load said.
	Confirmed
)

// Noise is what counts as one message that is said over and over.
type Noise uint8

// The rules for noise.
const (
	// NoiseSpec counts templates of messages as they are.
	NoiseSpec Noise = iota
	// Mined counts clusters of templates that differ in a few words.
	Mined
)

// The names of the rules, as flags have them.
var (
	anomalies   = []string{Ratio3x: "ratio3x", RateTail: "rate-tail", Both: "both"}
	regressions = []string{Spec: "spec", Confirmed: "confirmed"}
	noises      = []string{NoiseSpec: "spec", Mined: "mined"}
)

func (a Anomaly) String() string    { return anomalies[a] }
func (r Regression) String() string { return regressions[r] }
func (n Noise) String() string      { return noises[n] }

// Set is by which rules one app is judged.
type Set struct {
	Anomaly    Anomaly
	Regression Regression
	Noise      Noise
}

// Table says by which rules each app is judged. The zero value judges all by the
// contract's.
type Table struct {
	// Default is for every app that Apps does not name.
	Default Set
	Apps    map[string]Set
}

// For is the set of an app.
func (t Table) For(app string) Set {
	if set, ok := t.Apps[app]; ok {
		return set
	}
	return t.Default
}

// String says the rules as the flags have them, those of apps that differ behind,
// by name. Equal tables give equal text.
func (t Table) String() string {
	var b strings.Builder
	b.WriteString(t.Default.String())
	for _, app := range slices.Sorted(maps.Keys(t.Apps)) {
		if set := t.Apps[app]; set != t.Default {
			b.WriteString("; " + app + ": " + set.String())
		}
	}
	return b.String()
}

func (s Set) String() string {
	return "anomaly " + s.Anomaly.String() + ", regression " + s.Regression.String() + ", noise " + s.Noise.String()
}

// Words are the settings as somebody writes them: each a rule for all apps, or
// APP=RULE for one. Of several about the same, the last counts.
type Words struct {
	Anomaly, Regression, Noise []string
}

// Table reads the settings. Its errors name the setting and what is allowed.
func (w Words) Table() (Table, error) {
	t := Table{}
	settings := []setting{
		{"anomaly", w.Anomaly, anomalies, func(s *Set, rule int) { s.Anomaly = Anomaly(rule) }},
		{"regression", w.Regression, regressions, func(s *Set, rule int) { s.Regression = Regression(rule) }},
		{"noise", w.Noise, noises, func(s *Set, rule int) { s.Noise = Noise(rule) }},
	}
	// What holds for all comes first, so that an app's set begins with it wherever
	// it stands.
	for _, s := range settings {
		if err := s.read(func(app string, rule int) {
			if app == "" {
				s.set(&t.Default, rule)
			}
		}); err != nil {
			return Table{}, err
		}
	}
	for _, s := range settings {
		_ = s.read(func(app string, rule int) { // read without an error just now
			if app == "" {
				return
			}
			if t.Apps == nil {
				t.Apps = map[string]Set{}
			}
			set, ok := t.Apps[app]
			if !ok {
				set = t.Default
			}
			s.set(&set, rule)
			t.Apps[app] = set
		})
	}
	return t, nil
}

// setting is one question that there are several rules for.
type setting struct {
	name  string
	words []string
	rules []string
	set   func(s *Set, rule int)
}

func (s setting) read(take func(app string, rule int)) error {
	for _, word := range s.words {
		word = strings.TrimSpace(word)
		app, name := "", word
		// A name of an app may hold a =, that of a rule does not.
		if at := strings.LastIndexByte(word, '='); at >= 0 {
			if app, name = strings.TrimSpace(word[:at]), strings.TrimSpace(word[at+1:]); app == "" {
				return fmt.Errorf("--%s: %q names no app before the =: write %s, or APP=%s", s.name, word, strings.Join(s.rules, ", "), s.rules[0])
			}
		}
		rule := slices.Index(s.rules, name)
		if rule < 0 {
			return fmt.Errorf("--%s: %q is none of %s: write one of them for all apps, or APP=%s for one", s.name, name, strings.Join(s.rules, ", "), s.rules[0])
		}
		take(app, rule)
	}
	return nil
}
