package ruleset

import (
	"fmt"
	"slices"
	"strings"
)

// Flags are the settings as a user writes them. Each value is a rule for all apps, or
// APP=RULE for one app. The last value about the same app and setting wins.
//
// A value of Rules sets the three others, which win over it. A value for one app wins over
// those for all apps.
type Flags struct {
	Rules                      []string
	Anomaly, Regression, Noise []string
}

// both is a choice of earlier releases: Ratio3x raised alerts while RateTail ran in a shadow mode.
const both = "both"

// setting is one flag.
type setting struct {
	flag, variable string // their names; variable is the environment variable
	values         []string
	choices        []string // the allowed names of rules, the default first
	set            func(s *Set, choice int)
}

// settings lists the flags, those with the lowest priority first.
func (f Flags) settings() []setting {
	var all []string
	for _, s := range sets {
		all = append(all, s.name)
	}
	return []setting{
		{"rules", "TOCSIN_RULES", f.Rules, all, func(s *Set, i int) { *s = sets[i].set }},
		{"anomaly", "TOCSIN_ANOMALY", f.Anomaly, anomalies.names(), func(s *Set, i int) { s.Anomaly = anomalies[i].value }},
		{"regression", "TOCSIN_REGRESSION", f.Regression, regressions.names(), func(s *Set, i int) { s.Regression = regressions[i].value }},
		{"noise", "TOCSIN_NOISE", f.Noise, noises.names(), func(s *Set, i int) { s.Noise = noises[i].value }},
	}
}

// Table returns the sets that the flags choose, [Default] where they choose nothing. Its
// errors name the flag and the allowed values.
func (f Flags) Table() (Table, error) {
	t := Table{Default: Default()}
	settings := f.settings()
	for _, s := range settings {
		if err := s.each(func(string, int) {}); err != nil {
			return Table{}, err
		}
	}
	// Values for all apps are applied first, in any order of the flags: an app's set begins
	// with them.
	for _, s := range settings {
		_ = s.each(func(app string, index int) { // its error was checked above
			if app == "" {
				s.set(&t.Default, index)
			}
		})
	}
	for _, s := range settings {
		_ = s.each(func(app string, index int) {
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
			s.set(&set, index)
			t.Apps[app] = set
		})
	}
	return t, nil
}

// Warnings returns a line for each value of an earlier release that now means auto.
func (f Flags) Warnings() (lines []string) {
	for _, s := range f.settings() {
		for _, value := range s.values {
			if _, name := split(value); s.isOld(name) {
				lines = append(lines, fmt.Sprintf("--%s (%s): %q is taken as auto, because rules no longer run in the shadow; write auto, which uses ratio3x while an app is young and then rate-tail",
					s.flag, s.variable, strings.TrimSpace(value)))
			}
		}
	}
	return lines
}

// isOld reports whether a choice is one of an earlier release that is still accepted.
func (s setting) isOld(name string) bool { return s.flag == "anomaly" && name == both }

// each calls do for each value, with the app, which is empty for all apps, and the index of
// the choice.
func (s setting) each(do func(app string, choice int)) error {
	for _, value := range s.values {
		app, name := split(value)
		if app == "" && strings.ContainsRune(value, '=') {
			return fmt.Errorf("--%s: %q has no app before the =: write %s, or APP=%s", s.flag, strings.TrimSpace(value), s.allowed(), s.choices[0])
		}
		if s.isOld(name) {
			name = s.choices[0]
		}
		index := slices.Index(s.choices, name)
		if index < 0 {
			return fmt.Errorf("--%s: %q is not one of %s: write one of them for all apps, or APP=%s for one", s.flag, name, s.allowed(), s.choices[0])
		}
		do(app, index)
	}
	return nil
}

func (s setting) allowed() string { return strings.Join(s.choices, ", ") }

// split splits a value into app and choice. The name of an app may contain a =.
func split(value string) (app, choice string) {
	value = strings.TrimSpace(value)
	at := strings.LastIndexByte(value, '=')
	if at < 0 {
		return "", value
	}
	return strings.TrimSpace(value[:at]), strings.TrimSpace(value[at+1:])
}
