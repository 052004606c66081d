package ruleset

import (
	"fmt"
	"slices"
	"strings"
)

// Flags are the settings as a user writes them. Each value is a rule for all apps, or
// APP=RULE for one; of several about the same, the last wins.
//
// A value of Rules sets the three others. Those win over it, and a value for one app wins
// over those for all.
type Flags struct {
	Rules                      []string
	Anomaly, Regression, Noise []string
}

// both is a choice of earlier releases: Ratio3x, with RateTail beside it in a shadow mode.
const both = "both"

// setting is one flag.
type setting struct {
	name, variable string // of the flag, and of its environment variable
	values         []string
	names          []string // that are allowed, the default first
	set            func(s *Set, index int)
}

// settings lists the flags, those with the lowest priority first.
func (f Flags) settings() []setting {
	var all []string
	for _, s := range sets {
		all = append(all, s.name)
	}
	return []setting{
		{"rules", "TOCSIN_RULES", f.Rules, all, func(s *Set, i int) { *s = sets[i].set }},
		{"anomaly", "TOCSIN_ANOMALY", f.Anomaly, anomalies.names(), func(s *Set, i int) { s.Anomaly = anomalies[i].rule }},
		{"regression", "TOCSIN_REGRESSION", f.Regression, regressions.names(), func(s *Set, i int) { s.Regression = regressions[i].rule }},
		{"noise", "TOCSIN_NOISE", f.Noise, noises.names(), func(s *Set, i int) { s.Noise = noises[i].rule }},
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
	// Values for all apps come first, so that an app's set begins with them wherever they
	// stand.
	for _, s := range settings {
		_ = s.each(func(app string, index int) { // read without an error just now
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

// Warnings returns a line for each value of an earlier release that is taken as another
// one.
func (f Flags) Warnings() (lines []string) {
	for _, s := range f.settings() {
		for _, value := range s.values {
			if _, name := split(value); s.isOld(name) {
				lines = append(lines, fmt.Sprintf("--%s (%s): %q is taken as auto, because rules no longer run in the shadow; write auto, which uses ratio3x while an app is young and then rate-tail",
					s.name, s.variable, strings.TrimSpace(value)))
			}
		}
	}
	return lines
}

// isOld reports whether a name is of an earlier release and still allowed.
func (s setting) isOld(name string) bool { return s.name == "anomaly" && name == both }

// each calls take with the app, empty for all, and the index of the name of each value.
func (s setting) each(take func(app string, index int)) error {
	for _, value := range s.values {
		app, name := split(value)
		if app == "" && strings.ContainsRune(value, '=') {
			return fmt.Errorf("--%s: %q has no app before the =: write %s, or APP=%s", s.name, strings.TrimSpace(value), s.allowed(), s.names[0])
		}
		if s.isOld(name) {
			name = s.names[0]
		}
		index := slices.Index(s.names, name)
		if index < 0 {
			return fmt.Errorf("--%s: %q is not one of %s: write one of them for all apps, or APP=%s for one", s.name, name, s.allowed(), s.names[0])
		}
		take(app, index)
	}
	return nil
}

func (s setting) allowed() string { return strings.Join(s.names, ", ") }

// split takes a value apart. The name of an app may hold a =, that of a rule does not.
func split(value string) (app, name string) {
	value = strings.TrimSpace(value)
	at := strings.LastIndexByte(value, '=')
	if at < 0 {
		return "", value
	}
	return strings.TrimSpace(value[:at]), strings.TrimSpace(value[at+1:])
}
