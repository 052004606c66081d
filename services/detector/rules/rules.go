// Package rules names the rules by which an app is judged, where there is more than
// one for the same question. It decides nothing itself: package fold hands each
// app the set that is meant for it.
//
// The zero value of everything is the specification's rule (contract, section 5). The
// statistical rules raise fewer false alerts once they have learned an app: README.md
// has the figures of both. The rules named auto use the one for a young app and the
// other afterwards, and are what the settings choose by default ([Words]).
package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Anomaly is the error-spike detection rule.
type Anomaly uint8

// The rules for anomalies.
const (
	// Ratio3x is more than 3 times the rolling average, and at least 5 in 10 s.
	Ratio3x Anomaly = iota
	// RateTail is a count that is very unlikely given the app's own error rate. It
	// also finds drifts, recurring bursts and errors that escalate.
	RateTail
	// Auto is Ratio3x while an app is young, and RateTail afterwards.
	Auto
)

// InForce returns the rule that raises alerts for an app that is young or not.
func (a Anomaly) InForce(young bool) Anomaly {
	switch {
	case a != Auto:
		return a
	case young:
		return Ratio3x
	default:
		return RateTail
	}
}

// Regression is the rule for pages that have become slower.
type Regression uint8

// The rules for regressions.
const (
	// Spec judges each load by itself.
	Spec Regression = iota
	// Confirmed lets the loads that follow confirm or withdraw what one load showed.
	Confirmed
	// AutoRegression is Spec for a page's metric while it is young, and Confirmed
	// afterwards.
	AutoRegression
)

// InForce returns the rule that raises alerts for a metric that is young or not.
func (r Regression) InForce(young bool) Regression {
	switch {
	case r != AutoRegression:
		return r
	case young:
		return Spec
	default:
		return Confirmed
	}
}

// Noise is the rule for messages that repeat.
type Noise uint8

// The rules for noise.
const (
	// NoiseSpec counts templates of messages as they are.
	NoiseSpec Noise = iota
	// Mined counts clusters of templates that differ in a few words.
	Mined
	// AutoNoise is Mined, from an app's first event on.
	AutoNoise
)

// InForce returns the rule that finds noise.
func (n Noise) InForce() Noise {
	if n == AutoNoise {
		return Mined
	}
	return n
}

// choices are the rules for one question, by the names that flags have for them, the
// default first.
type choices []choice

type choice struct {
	name string
	rule int
}

var (
	anomalies   = choices{{"auto", int(Auto)}, {"ratio3x", int(Ratio3x)}, {"rate-tail", int(RateTail)}}
	regressions = choices{{"auto", int(AutoRegression)}, {"spec", int(Spec)}, {"confirmed", int(Confirmed)}}
	noises      = choices{{"auto", int(AutoNoise)}, {"spec", int(NoiseSpec)}, {"mined", int(Mined)}}
	// sets are those that --rules names: what each is for the three questions.
	sets = choices{{"auto", 0}, {"spec", 1}, {"statistical", 2}}
)

// allOf are the sets, in the order of sets.
var allOf = []Set{
	{Auto, AutoRegression, AutoNoise},
	{Ratio3x, Spec, NoiseSpec},
	{RateTail, Confirmed, Mined},
}

// Default is the set of an app for which nothing else is set.
func Default() Set { return allOf[0] }

func (c choices) nameOf(rule int) string {
	return c[slices.IndexFunc(c, func(one choice) bool { return one.rule == rule })].name
}

func (c choices) String() string {
	names := make([]string, len(c))
	for i, one := range c {
		names[i] = one.name
	}
	return strings.Join(names, ", ")
}

func (a Anomaly) String() string    { return anomalies.nameOf(int(a)) }
func (r Regression) String() string { return regressions.nameOf(int(r)) }
func (n Noise) String() string      { return noises.nameOf(int(n)) }

// Set is by which rules one app is judged.
type Set struct {
	Anomaly    Anomaly
	Regression Regression
	Noise      Noise
}

// Table says by which rules each app is judged. The zero value judges all by the
// specification's.
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

// String names the rules as the flags have them, and behind auto those in force; then
// the apps that differ, by name. Equal tables give equal text.
func (t Table) String() string {
	var b strings.Builder
	b.WriteString(t.Default.inForce())
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

// inForce names the rules, and behind auto those that it uses: a reader of an alert
// sees the latter.
func (s Set) inForce() string {
	anomaly, regression, noise := s.Anomaly.String(), s.Regression.String(), s.Noise.String()
	if s.Anomaly == Auto {
		anomaly += fmt.Sprintf(" (%s while an app is young, then %s)", s.Anomaly.InForce(true), s.Anomaly.InForce(false))
	}
	if s.Regression == AutoRegression {
		regression += fmt.Sprintf(" (%s, then %s)", s.Regression.InForce(true), s.Regression.InForce(false))
	}
	if s.Noise == AutoNoise {
		noise += fmt.Sprintf(" (%s)", s.Noise.InForce())
	}
	return "anomaly " + anomaly + ", regression " + regression + ", noise " + noise
}

// Words are the settings as a user writes them: each a rule for all apps, or
// APP=RULE for one. Of several about the same, the last counts.
//
// A value of Rules sets the three others. What one of these says wins over it, and what
// is said of one app wins over what is said of all.
type Words struct {
	Rules                      []string
	Anomaly, Regression, Noise []string
}

// both is a rule of earlier releases: Ratio3x, with RateTail beside it in the shadow.
const both = "both"

// Table reads the settings; where they say nothing it is Default. Its errors name the
// setting and what is allowed.
func (w Words) Table() (Table, error) {
	t := Table{Default: Default()}
	settings := w.settings()
	for _, s := range settings {
		if err := s.read(func(string, int) {}); err != nil {
			return Table{}, err
		}
	}
	// What holds for all comes first, so that an app's set begins with it wherever
	// it stands.
	for _, s := range settings {
		_ = s.read(func(app string, rule int) { // read without an error just now
			if app == "" {
				s.set(&t.Default, rule)
			}
		})
	}
	for _, s := range settings {
		_ = s.read(func(app string, rule int) {
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

// Warnings returns a line for each setting whose value is of an earlier release and
// is taken as another one.
func (w Words) Warnings() (lines []string) {
	for _, s := range w.settings() {
		for _, word := range s.words {
			if _, name := s.split(word); s.takes(name) {
				lines = append(lines, fmt.Sprintf("--%s (%s): %q is taken as auto, because rules no longer run in the shadow; write auto, which uses ratio3x while an app is young and then rate-tail",
					s.name, s.variable, strings.TrimSpace(word)))
			}
		}
	}
	return lines
}

// settings are all of them, those that others win over first.
func (w Words) settings() []setting {
	return []setting{
		{"rules", "TOCSIN_RULES", w.Rules, sets, func(s *Set, rule int) { *s = allOf[rule] }},
		{"anomaly", "TOCSIN_ANOMALY", w.Anomaly, anomalies, func(s *Set, rule int) { s.Anomaly = Anomaly(rule) }},
		{"regression", "TOCSIN_REGRESSION", w.Regression, regressions, func(s *Set, rule int) { s.Regression = Regression(rule) }},
		{"noise", "TOCSIN_NOISE", w.Noise, noises, func(s *Set, rule int) { s.Noise = Noise(rule) }},
	}
}

// setting is one flag, with the environment variable for it.
type setting struct {
	name, variable string
	words          []string
	rules          choices
	set            func(s *Set, rule int)
}

// split takes a value apart. An app's name may hold a =, that of a rule does not.
func (s setting) split(word string) (app, name string) {
	word = strings.TrimSpace(word)
	at := strings.LastIndexByte(word, '=')
	if at < 0 {
		return "", word
	}
	return strings.TrimSpace(word[:at]), strings.TrimSpace(word[at+1:])
}

// takes reports whether a name is of an earlier release and still taken.
func (s setting) takes(name string) bool { return s.name == "anomaly" && name == both }

func (s setting) read(take func(app string, rule int)) error {
	for _, word := range s.words {
		app, name := s.split(word)
		if app == "" && strings.ContainsRune(word, '=') {
			return fmt.Errorf("--%s: %q names no app before the =: write %s, or APP=%s", s.name, strings.TrimSpace(word), s.rules, s.rules[0].name)
		}
		if s.takes(name) {
			name = s.rules[0].name
		}
		known := slices.IndexFunc(s.rules, func(one choice) bool { return one.name == name })
		if known < 0 {
			return fmt.Errorf("--%s: %q is none of %s: write one of them for all apps, or APP=%s for one", s.name, name, s.rules, s.rules[0].name)
		}
		take(app, s.rules[known].rule)
	}
	return nil
}
