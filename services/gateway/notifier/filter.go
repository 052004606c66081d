package notifier

import (
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// FilterAll is the filter that lets every alert through.
const FilterAll = "all"

// passes is what a filter lets through: a category, and where signal is not
// empty only the alerts that say they are about that signal.
type passes struct {
	category alert.Category
	signal   string
}

// filters is the contract's table (section 6). FilterAll stands apart: it also
// passes categories that no other filter names.
var filters = []struct {
	name   string
	passes []passes
}{
	{"errors", []passes{{alert.Errors, ""}, {alert.Threshold, ""}, {alert.Anomaly, alert.SignalLogs}}},
	{"network_errors", []passes{{alert.NetworkErrors, ""}, {alert.Anomaly, alert.SignalRequests}}},
	{"performance", []passes{{alert.Regression, ""}, {alert.Threshold, ""}}},
	{"regression", []passes{{alert.Regression, ""}}},
	{"anomaly", []passes{{alert.Anomaly, ""}}},
	{"ci", []passes{{alert.CI, ""}}},
	{"security", []passes{{alert.Security, ""}}},
	{"user_frustration", []passes{{alert.UserFrustration, ""}}},
	{"kubernetes", []passes{{alert.Kubernetes, ""}}},
}

// Filters lists the names that Config.Events may hold.
func Filters() []string {
	names := make([]string, 0, len(filters)+1)
	for _, f := range filters {
		names = append(names, f.name)
	}
	return append(names, FilterAll)
}

// Passes says whether the configuration lets an alert through by severity,
// category and URL, whether it is enabled or not.
func (c Config) Passes(a alert.Alert) bool { return c.passesFilters(a, 0) }

// passesFilters is the one predicate that decides by severity, category and
// URL, in this order. floor is the least severity rank the client asks for.
func (c Config) passesFilters(a alert.Alert, floor int) bool {
	return a.Severity.Rank() >= max(floor, c.SeverityMin.Rank()) && c.passesCategory(a) && c.passesURL(a)
}

func (c Config) passesCategory(a alert.Alert) bool {
	if slices.Contains(c.Events, FilterAll) {
		return true
	}
	for _, f := range filters {
		if slices.Contains(c.Events, f.name) && slices.ContainsFunc(f.passes, func(p passes) bool {
			return p.category == a.Category && (p.signal == "" || a.Context[alert.SignalKey] == p.signal)
		}) {
			return true
		}
	}
	return false
}

// passesURL looks at the URL of the alert and at those in its context: a failed
// request and what a policy blocked have URLs beside the page's.
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
