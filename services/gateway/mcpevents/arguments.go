package mcpevents

import (
	"encoding/json"
	"sync"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/services/gateway/toolschema"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// filterArgs are the arguments of a subscription.
type filterArgs struct {
	Events          []string       `json:"events" enum:"filter" default:"all" bounds:"shown" jsonschema:"Which alerts"`
	SeverityMin     alert.Severity `json:"severity_min" enum:"severity" default:"warning" jsonschema:"Only this severity and above"`
	URLFilter       string         `json:"url_filter" max:"2048" default:"" bounds:"shown" jsonschema:"Only alerts with this in their URL (plain substring); alerts not about a URL, such as ci, pass"`
	App             string         `json:"app" max:"2048" default:"" bounds:"shown" jsonschema:"Only this app"`
	ThrottleSeconds int            `json:"throttle_seconds" min:"1" max:"60" default:"5" jsonschema:"For push: alerts that come within this time are kept and sent together, repetitions merged"`
}

// filterSchema is the schema of filterArgs. An error is one of the program.
var filterSchema = sync.OnceValues(func() (*toolschema.Schema[filterArgs], error) {
	severities := make([]string, 0, len(alert.Severities()))
	for _, s := range alert.Severities() {
		severities = append(severities, string(s))
	}
	return toolschema.New[filterArgs](toolschema.Enums{"filter": notifier.Filters(), "severity": severities})
})

// filter says which alerts a subscription receives.
type filter struct {
	config notifier.Config
	// app is the only app, or empty.
	app string
}

func (f filter) passes(a alert.Alert) bool {
	return (f.app == "" || a.App == f.app) && f.config.Passes(a)
}

// readFilter reads the arguments of a subscription. A missing or null argument has its
// value in defaults. The error names the first wrong argument and the allowed values.
func readFilter(data json.RawMessage, defaults notifier.Config) (filter, error) {
	schema, err := filterSchema()
	if err != nil {
		return filter{}, internalError(err)
	}
	given := map[string]json.RawMessage{}
	if len(data) > 0 && json.Unmarshal(data, &given) != nil {
		return filter{}, invalidParams("arguments must be a JSON object")
	}
	if given == nil { // null
		given = map[string]json.RawMessage{}
	}
	for name, value := range map[string]any{
		"events": defaults.Events, "severity_min": defaults.SeverityMin, "url_filter": defaults.URL, "app": "", "throttle_seconds": defaults.ThrottleSeconds,
	} {
		if v, ok := given[name]; ok && string(v) != "null" {
			continue
		}
		if given[name], err = json.Marshal(value); err != nil {
			return filter{}, internalError(err)
		}
	}
	if data, err = json.Marshal(given); err != nil {
		return filter{}, internalError(err)
	}
	args, err := schema.Decode(data)
	if err != nil {
		return filter{}, invalidParams("arguments." + err.Error())
	}
	return filter{app: args.App, config: notifier.Config{
		Enabled: defaults.Enabled, Events: args.Events, SeverityMin: args.SeverityMin, URL: args.URLFilter, ThrottleSeconds: args.ThrottleSeconds,
	}}, nil
}
