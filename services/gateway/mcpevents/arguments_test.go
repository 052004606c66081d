package mcpevents

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestReadFilter(t *testing.T) {
	all := notifier.Config{Events: []string{"all"}, ThrottleSeconds: 5, SeverityMin: alert.Warning}
	some := notifier.Config{Events: []string{"ci", "errors"}, ThrottleSeconds: 60, SeverityMin: alert.Info, URL: "/cart"}
	for in, want := range map[string]filter{
		``:     {config: all},
		`null`: {config: all},
		`{}`:   {config: all},
		`{"events":null,"severity_min":null,"url_filter":null,"app":null,"throttle_seconds":null}`:                {config: all},
		`{"events":["ci","errors"],"severity_min":"info","url_filter":"/cart","app":"web","throttle_seconds":60}`: {config: some, app: "web"},
	} {
		got, err := readFilter(json.RawMessage(in), notifier.DefaultConfig())
		if err != nil || got.app != want.app || !equal(got.config, want.config) {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
}

func equal(a, b notifier.Config) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func TestReadFilterRefuses(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                       "arguments must be a JSON object",
		`{"events":[]}`:            "arguments.events must be a list with at least one of errors, network_errors, performance, regression, anomaly, ci, security, user_frustration, kubernetes, all",
		`{"events":["noise"]}`:     "arguments.events must be a list with at least one of errors, network_errors, performance, regression, anomaly, ci, security, user_frustration, kubernetes, all",
		`{"severity_min":"fatal"}`: "arguments.severity_min must be one of info, warning, error",
		`{"severity_min":""}`:      "arguments.severity_min must be one of info, warning, error",
		`{"app":1}`:                "arguments.app must be a text of at most 2048 bytes",
		`{"url_filter":"` + strings.Repeat("x", 2049) + `"}`: "arguments.url_filter must be a text of at most 2048 bytes",
		`{"throttle_seconds":0}`:                             "arguments.throttle_seconds must be a whole number from 1 to 60",
		`{"throttle_seconds":1.5}`:                           "arguments.throttle_seconds must be a whole number from 1 to 60",
		`{"z":1,"\u001b[31m":1}`:                             "\u241b[31m is no argument of alert.raised: allowed are events, severity_min, url_filter, app, throttle_seconds",
	} {
		if _, err := readFilter(json.RawMessage(in), notifier.DefaultConfig()); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", in, err, want)
		}
	}
}

// TestSchemaSaysWhatIsRead holds the schema that clients see and the reader
// together.
func TestSchemaSaysWhatIsRead(t *testing.T) {
	for _, d := range descriptors() {
		var schema struct {
			Properties map[string]struct {
				Default json.RawMessage `json:"default"`
			} `json:"properties"`
		}
		if err := json.Unmarshal(d.InputSchema, &schema); err != nil {
			t.Fatal(err)
		}
		var defaults []string
		for _, a := range arguments() {
			p, ok := schema.Properties[a.name]
			if !ok {
				t.Errorf("%s is not in the schema", a.name)
			}
			defaults = append(defaults, `"`+a.name+`":`+string(p.Default))
		}
		if len(schema.Properties) != len(defaults) {
			t.Errorf("the schema has %d properties", len(schema.Properties))
		}
		said, err := readFilter(json.RawMessage("{"+strings.Join(defaults, ",")+"}"), notifier.DefaultConfig())
		if err != nil || !equal(said.config, notifier.DefaultConfig()) {
			t.Errorf("the defaults of the schema are %+v, %v", said, err)
		}
	}
}

func FuzzReadFilter(f *testing.F) {
	for _, s := range []string{`{}`, `{"events":["all"],"severity_min":"info"}`, `{"throttle_seconds":1e300}`, `{"app":"\ud800"}`, `[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readFilter(data, notifier.DefaultConfig())
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("control characters in %q", err)
			}
			return
		}
		if err := got.config.Validate(); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	})
}
