// Package ruleset has the settings that choose the detection rules of an app. Package fold
// gives each app its [Set].
//
// Three rules have variants: a simple one, which is the zero value, and a statistical one.
// The statistical variants raise fewer false alerts once they have learned an app;
// e2e/eval/RESULTS.md compares them. The choice auto is the default of the settings
// ([Flags]): it uses the simple variant while an app is young, and the statistical one
// afterwards.
package ruleset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Anomaly is a choice of the error-spike detection rule.
type Anomaly uint8

// The choices for error spikes.
const (
	// Ratio3x finds more than 3 times the rolling average, and at least 5 errors in 10 s.
	Ratio3x Anomaly = iota
	// RateTail finds a count that is very unlikely given the app's own error rate. It
	// also finds drifts, recurring bursts and errors that escalate.
	RateTail
	// Auto is Ratio3x while an app is young, and RateTail afterwards.
	Auto
)

// Regression is a choice of the rule for pages that have become slower.
type Regression uint8

// The choices for regressions.
const (
	// Spec compares each load by itself.
	Spec Regression = iota
	// Confirmed lets the loads that follow confirm or withdraw a finding.
	Confirmed
	// AutoRegression is Spec for a page's metric while it is young, and Confirmed
	// afterwards.
	AutoRegression
)

// Noise is a choice of the rule for messages that repeat.
type Noise uint8

// The choices for noise.
const (
	// NoiseSpec counts templates of messages as they are.
	NoiseSpec Noise = iota
	// Mined counts clusters of templates that differ in a few words.
	Mined
	// AutoNoise is Mined, from an app's first event on.
	AutoNoise
)

// choice is a value of a setting, with the rules that it uses while an app is young and
// afterwards.
type choice[T ~uint8] struct {
	name         string
	value        T
	young, later T
}

// The tables of choices, the default first.
var (
	anomalies = choices[Anomaly]{
		{"auto", Auto, Ratio3x, RateTail},
		{"ratio3x", Ratio3x, Ratio3x, Ratio3x},
		{"rate-tail", RateTail, RateTail, RateTail},
	}
	regressions = choices[Regression]{
		{"auto", AutoRegression, Spec, Confirmed},
		{"spec", Spec, Spec, Spec},
		{"confirmed", Confirmed, Confirmed, Confirmed},
	}
	noises = choices[Noise]{
		{"auto", AutoNoise, Mined, Mined},
		{"spec", NoiseSpec, NoiseSpec, NoiseSpec},
		{"mined", Mined, Mined, Mined},
	}
	// sets are the values of --rules, which chooses all three.
	sets = []struct {
		name string
		set  Set
	}{
		{"auto", Set{Auto, AutoRegression, AutoNoise}},
		{"spec", Set{Ratio3x, Spec, NoiseSpec}},
		{"statistical", Set{RateTail, Confirmed, Mined}},
	}
)

type choices[T ~uint8] []choice[T]

// find returns the row of a value.
func (c choices[T]) find(value T) choice[T] {
	return c[slices.IndexFunc(c, func(row choice[T]) bool { return row.value == value })]
}

// inForce returns the rule that a value uses for an app that is young or not.
func (c choices[T]) inForce(value T, young bool) T {
	row := c.find(value)
	if young {
		return row.young
	}
	return row.later
}

func (c choices[T]) names() (names []string) {
	for _, row := range c {
		names = append(names, row.name)
	}
	return names
}

// InForce returns the rule that raises alerts for an app that is young or not.
func (a Anomaly) InForce(young bool) Anomaly { return anomalies.inForce(a, young) }

// InForce returns the rule that raises alerts for a metric that is young or not.
func (r Regression) InForce(young bool) Regression { return regressions.inForce(r, young) }

// InForce returns the rule that finds noise.
func (n Noise) InForce() Noise { return noises.inForce(n, false) }

func (a Anomaly) String() string    { return anomalies.find(a).name }
func (r Regression) String() string { return regressions.find(r).name }
func (n Noise) String() string      { return noises.find(n).name }

// Set is the choice of rules for one app.
type Set struct {
	Anomaly    Anomaly
	Regression Regression
	Noise      Noise
}

// Default returns the set that auto chooses.
func Default() Set { return sets[0].set }

// Table has the sets of all apps. The zero value chooses the simple rules.
type Table struct {
	// Default is for every app that Apps does not name.
	Default Set
	Apps    map[string]Set
}

// For returns the set of an app.
func (t Table) For(app string) Set {
	if set, ok := t.Apps[app]; ok {
		return set
	}
	return t.Default
}

// String names the choices as the flags do, with the rules that auto uses, and then the
// apps that differ, by name. Equal tables give equal text.
func (t Table) String() string {
	var b strings.Builder
	b.WriteString(t.Default.describe())
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

// describe names the choices, and the rules that auto uses, because alerts name those.
func (s Set) describe() string {
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
