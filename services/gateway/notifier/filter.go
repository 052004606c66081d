package notifier

import (
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// FilterAll is the event filter that passes every alert, also of categories that no
// other filter names.
const FilterAll = "all"

// match is what an event filter passes: a category, and if signal is not empty only the
// alerts about that signal.
type match struct {
	category alert.Category
	signal   string
}

// filters lists the event filters, see docs/reference/mcp.md.
var filters = []struct {
	name    string
	matches []match
}{
	{"errors", []match{{alert.Errors, ""}, {alert.Threshold, ""}, {alert.Anomaly, alert.SignalLogs}}},
	{"network_errors", []match{{alert.NetworkErrors, ""}, {alert.Anomaly, alert.SignalRequests}}},
	{"performance", []match{{alert.Regression, ""}, {alert.Threshold, ""}}},
	{"regression", []match{{alert.Regression, ""}}},
	{"anomaly", []match{{alert.Anomaly, ""}}},
	{"ci", []match{{alert.CI, ""}}},
	{"security", []match{{alert.Security, ""}}},
	{"user_frustration", []match{{alert.UserFrustration, ""}}},
	{"kubernetes", []match{{alert.Kubernetes, ""}}},
}

// Filters lists the event filters that Config.Events may name.
func Filters() []string {
	names := make([]string, 0, len(filters)+1)
	for _, f := range filters {
		names = append(names, f.name)
	}
	return append(names, FilterAll)
}

// Passes reports whether an alert passes the configuration by severity, category and URL.
// It ignores Enabled.
func (c Config) Passes(a alert.Alert) bool { return c.passesFilters(a, 0) }

// passesFilters reports whether an alert passes by severity, category and URL. floor is
// the least severity rank that the client set.
func (c Config) passesFilters(a alert.Alert, floor int) bool {
	return a.Severity.Rank() >= max(floor, c.SeverityMin.Rank()) && c.passesCategory(a) && c.passesURL(a)
}

func (c Config) passesCategory(a alert.Alert) bool {
	if slices.Contains(c.Events, FilterAll) {
		return true
	}
	for _, f := range filters {
		if slices.Contains(c.Events, f.name) && slices.ContainsFunc(f.matches, func(m match) bool {
			return m.category == a.Category && (m.signal == "" || a.Context[alert.SignalKey] == m.signal)
		}) {
			return true
		}
	}
	return false
}

// passesURL checks the URL of the alert, which is the page's, and in its context those of
// a failed request and of a resource that a policy blocked.
func (c Config) passesURL(a alert.Alert) bool {
	switch a.Category {
	case alert.NetworkErrors, alert.Regression, alert.Security:
		request, _ := a.Context["url"].(string)
		blocked, _ := a.Context["blocked_url"].(string)
		return strings.Contains(a.URL, c.URL) || strings.Contains(request, c.URL) || strings.Contains(blocked, c.URL)
	default:
		return true
	}
}
