package mcpevents

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestReadFilter(t *testing.T) {
	all := notifier.Config{Events: []string{"all"}, ThrottleSeconds: 5, SeverityMin: alert.Warning}
	some := notifier.Config{Events: []string{"ci", "errors"}, ThrottleSeconds: 60, SeverityMin: alert.Info, URL: "/cart"}
	const given = `{"events":["ci","errors"],"severity_min":"info","url_filter":"/cart","app":"web","throttle_seconds":60}`
	for _, tt := range []struct {
		in       string
		defaults notifier.Config
		want     filter
	}{
		{``, all, filter{config: all}},
		{`null`, all, filter{config: all}},
		{`{}`, all, filter{config: all}},
		{`{"events":null,"severity_min":null,"url_filter":null,"app":null,"throttle_seconds":null}`, all, filter{config: all}},
		{given, all, filter{config: some, app: "web"}},
		{`{}`, some, filter{config: some}},
		{`{"events":["all"],"severity_min":"warning","url_filter":"","throttle_seconds":5}`, some, filter{config: all}},
	} {
		got, err := readFilter(json.RawMessage(tt.in), tt.defaults)
		if err != nil {
			t.Errorf("readFilter(%s) = %v, want no error", tt.in, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(filter{})); diff != "" {
			t.Errorf("readFilter(%s) (-want +got):\n%s", tt.in, diff)
		}
	}
}

func TestReadFilterRefuses(t *testing.T) {
	const events = "arguments.events must be a list with at least one of errors, network_errors, performance, regression, anomaly, ci, security, user_frustration, kubernetes, all"
	for in, want := range map[string]string{
		`[]`:                       "arguments must be a JSON object",
		`{"events":[]}`:            events,
		`{"events":["noise"]}`:     events,
		`{"severity_min":"fatal"}`: "arguments.severity_min must be one of info, warning, error",
		`{"app":1}`:                "arguments.app must be a text of at most 2048 bytes",
		`{"url_filter":"` + strings.Repeat("x", 2049) + `"}`: "arguments.url_filter must be a text of at most 2048 bytes",
		`{"throttle_seconds":0}`:                             "arguments.throttle_seconds must be between 1 and 60",
		`{"throttle_seconds":1.5}`:                           "arguments.throttle_seconds must be between 1 and 60, in whole numbers",
		`{"z":1,"\u001b[31m":1}`:                             "unknown argument \u241b[31m; the arguments are events, severity_min, url_filter, app, throttle_seconds",
	} {
		_, err := readFilter(json.RawMessage(in), notifier.DefaultConfig())
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("readFilter(%s) = %v, want %q at its end", in, err, want)
		}
	}
}

// TestSchemaDefaults: the defaults in the schema are those of the notifier, and within its
// bounds.
func TestSchemaDefaults(t *testing.T) {
	types, err := eventTypes()
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]struct {
			Default          json.RawMessage `json:"default"`
			Minimum, Maximum int
		} `json:"properties"`
	}
	if err := json.Unmarshal(types[0].InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	defaults := map[string]json.RawMessage{}
	for name, p := range schema.Properties {
		defaults[name] = p.Default
	}
	data, err := json.Marshal(defaults)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readFilter(data, notifier.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(filter{config: notifier.DefaultConfig()}, got, cmp.AllowUnexported(filter{})); diff != "" {
		t.Errorf("defaults of the schema (-want +got):\n%s", diff)
	}
	throttle := schema.Properties["throttle_seconds"]
	if throttle.Minimum != notifier.MinThrottleSeconds || throttle.Maximum != notifier.MaxThrottleSeconds {
		t.Errorf("throttle_seconds is from %d to %d, want %d to %d", throttle.Minimum, throttle.Maximum, notifier.MinThrottleSeconds, notifier.MaxThrottleSeconds)
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
				t.Errorf("error %q has control characters, want none", err)
			}
			return
		}
		if err := got.config.Validate(); err != nil {
			t.Errorf("readFilter(%s) = an invalid configuration: %v", data, err)
		}
	})
}
