package mcpevents

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// maxText is the longest text argument, in bytes.
const maxText = 2048

// filter is which alerts a subscription wants.
type filter struct {
	config notifier.Config
	// app is the only one wanted, or empty.
	app string
}

func (f filter) passes(a alert.Alert) bool {
	return (f.app == "" || a.App == f.app) && f.config.Passes(a)
}

// argument reads one argument into a filter and returns what it must be where
// it is not that.
type argument struct {
	name string
	read func(json.RawMessage, *filter) (must string)
}

func arguments() []argument {
	return []argument{
		{"events", readEvents},
		{"severity_min", func(raw json.RawMessage, f *filter) string {
			if json.Unmarshal(raw, &f.config.SeverityMin) != nil || f.config.SeverityMin.Rank() == 0 {
				return "one of info, warning, error"
			}
			return ""
		}},
		{"url_filter", func(raw json.RawMessage, f *filter) string { return readText(raw, &f.config.URL) }},
		{"app", func(raw json.RawMessage, f *filter) string { return readText(raw, &f.app) }},
		{"throttle_seconds", readThrottle},
	}
}

// readFilter reads the arguments of a subscription. One that is missing or null
// has its default. The error says which one is wrong, and what is allowed.
func readFilter(data json.RawMessage, defaults notifier.Config) (filter, error) {
	f := filter{config: defaults}
	var raw map[string]json.RawMessage
	if len(data) > 0 {
		if err := json.Unmarshal(data, &raw); err != nil {
			return filter{}, invalid("arguments must be a JSON object")
		}
	}
	known := arguments()
	var names []string
	for _, a := range known {
		names = append(names, a.name)
		value, given := raw[a.name]
		if !given || string(value) == "null" {
			continue
		}
		if must := a.read(value, &f); must != "" {
			return filter{}, invalid("arguments." + a.name + " must be " + must)
		}
	}
	var others []string
	for name := range raw {
		if !slices.Contains(names, name) {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		return filter{}, invalid(fmt.Sprintf("%s is no argument of %s: allowed are %s",
			sanitize.Cut(sanitize.Visible(others[0]), 64), EventName, strings.Join(names, ", ")))
	}
	return f, nil
}

func readEvents(raw json.RawMessage, f *filter) string {
	var names []string
	allowed := notifier.Filters()
	bad := json.Unmarshal(raw, &names) != nil || len(names) == 0 || len(names) > len(allowed)
	for _, n := range names {
		bad = bad || !slices.Contains(allowed, n)
	}
	if bad {
		return "a list with at least one of " + strings.Join(allowed, ", ")
	}
	f.config.Events = names
	return ""
}

func readText(raw json.RawMessage, text *string) string {
	if json.Unmarshal(raw, text) != nil || len(*text) > maxText {
		return fmt.Sprintf("a text of at most %d bytes", maxText)
	}
	return ""
}

func readThrottle(raw json.RawMessage, f *filter) string {
	var n float64
	if json.Unmarshal(raw, &n) != nil || n != math.Trunc(n) || n < notifier.MinThrottleSeconds || n > notifier.MaxThrottleSeconds {
		return fmt.Sprintf("a whole number from %d to %d", notifier.MinThrottleSeconds, notifier.MaxThrottleSeconds)
	}
	f.config.ThrottleSeconds = int(n)
	return ""
}
