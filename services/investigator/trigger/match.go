package trigger

import (
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Match is what a rule asks of an alert. A list holds alternatives, and an empty one asks nothing.
// In patterns * stands for any text.
type Match struct {
	Category []string
	// SeverityMin is the lowest severity, or empty.
	SeverityMin                            alert.Severity
	App, Cluster, Namespace, Source, Title []string
}

// Matches reports whether all keys hold. A key that the alert lacks matches only *.
func (m Match) Matches(a alert.Alert) bool {
	return a.Severity.Rank() >= m.SeverityMin.Rank() && anyOf(m.Category, string(a.Category)) && anyOf(m.App, a.App) &&
		anyOf(m.Cluster, text(a, alert.ClusterKey)) && anyOf(m.Namespace, text(a, alert.NamespaceKey)) &&
		anyOf(m.Source, a.Source) && anyOf(m.Title, a.Title)
}

// text returns a text of the alert's context, or nothing.
func text(a alert.Alert, key string) string {
	value, _ := a.Context[key].(string)
	return value
}

// anyOf reports whether a pattern of the list matches.
func anyOf(patterns []string, value string) bool {
	for _, p := range patterns {
		if p == "*" || value != "" && matches(p, value) {
			return true
		}
	}
	return len(patterns) == 0
}

// matches reports whether a value is a pattern's text, in which each * is any text.
func matches(pattern, value string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == value
	}
	value, ok := strings.CutPrefix(value, first)
	for ok {
		part, next, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(value, part)
		}
		_, value, ok = strings.Cut(value, part)
		rest = next
	}
	return false
}
