package notifier_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestConfig(t *testing.T) {
	s := notifier.New()
	c := s.Config()
	if c.Enabled {
		t.Errorf("Config of a new notifier = %+v, want it disabled", c)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	s.Enable(c)
	got, err := json.Marshal(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"enabled":true,"events":["all"],"throttle_seconds":5,"severity_min":"warning","url":""}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON of the configuration (-want +got):\n%s", diff)
	}

	for _, c := range []struct {
		change func(*notifier.Config)
		want   string
	}{
		{func(c *notifier.Config) { c.ThrottleSeconds = 0 }, "throttle_seconds must be between 1 and 60"},
		{func(c *notifier.Config) { c.ThrottleSeconds = 61 }, "throttle_seconds must be between 1 and 60"},
		{func(c *notifier.Config) { c.SeverityMin = "fatal" }, "severity_min must be one of info, warning, error"},
		{func(c *notifier.Config) { c.Events = nil }, "events must name at least one of errors, network_errors, performance"},
		{func(c *notifier.Config) { c.Events = []string{"ci", "noise"} }, `regression, anomaly, ci, security, user_frustration, kubernetes, all; "noise" is not`},
	} {
		config := notifier.DefaultConfig()
		c.change(&config)
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Validate of %+v = %v, want %q in it", config, err, c.want)
		}
	}
}

func TestFilters(t *testing.T) {
	all := "regression anomaly anomaly-of-logs anomaly-of-requests errors network_errors ci noise threshold security user_frustration kubernetes"
	want := map[string]string{
		"errors":           "anomaly-of-logs errors threshold",
		"network_errors":   "anomaly-of-requests network_errors",
		"performance":      "regression threshold",
		"regression":       "regression",
		"anomaly":          "anomaly anomaly-of-logs anomaly-of-requests",
		"ci":               "ci",
		"security":         "security",
		"user_frustration": "user_frustration",
		"kubernetes":       "kubernetes",
		"all":              all,
		"ci security":      "ci security",
	}
	for _, name := range notifier.Filters() {
		if want[name] == "" {
			t.Errorf("filter %s is not tested", name)
		}
	}
	for events, want := range want {
		c := notifier.DefaultConfig()
		c.Events = strings.Fields(events)
		var passed []string
		for _, kind := range strings.Fields(all) {
			category, signal, _ := strings.Cut(kind, "-of-")
			a := made(kind)
			a.Category = alert.Category(category)
			if signal != "" {
				a.Context = map[string]any{alert.SignalKey: signal}
			}
			s := notifier.New()
			s.Enable(c)
			if len(s.Offer(a, start)) > 0 {
				passed = append(passed, kind)
			} else if s.Stats().Filtered != 1 {
				t.Errorf("filter %s: Filtered = %d after %s, want 1", events, s.Stats().Filtered, kind)
			}
		}
		if got := strings.Join(passed, " "); got != want {
			t.Errorf("filter %s passes %q, want %q", events, got, want)
		}
	}
}

func TestURLFilter(t *testing.T) {
	c := notifier.DefaultConfig()
	c.URL = "/cart"
	for _, test := range []struct {
		category     alert.Category
		url, request string
		passes       bool
	}{
		{alert.Regression, "http://localhost/cart/1", "", true},
		{alert.Regression, "http://localhost/", "", false},
		{alert.Security, "http://localhost/cart", "", true},
		{alert.Security, "", "", false},
		{alert.NetworkErrors, "http://localhost/", "/api/cart", true},
		{alert.NetworkErrors, "http://localhost/cart", "/api", true},
		{alert.NetworkErrors, "http://localhost/", "/api", false},
		{alert.Errors, "http://localhost/", "", true},
		{alert.Anomaly, "", "", true},
		{alert.CI, "http://ci/1", "", true},
	} {
		a := made("A")
		a.Category, a.URL = test.category, test.url
		if test.request != "" {
			a.Context = map[string]any{"url": test.request}
		}
		s := notifier.New()
		s.Enable(c)
		if got := len(s.Offer(a, start)) == 1; got != test.passes {
			t.Errorf("passes = %t for %+v, want %t", got, test, test.passes)
		}
	}
}

func TestSeverity(t *testing.T) {
	for _, c := range []struct {
		severityMin alert.Severity
		floor       int
		passed      int
	}{
		{alert.Info, 0, 3}, {alert.Warning, 0, 2}, {alert.Error, 0, 1},
		{alert.Info, alert.Error.Rank(), 1}, {alert.Error, alert.Info.Rank(), 1}, {alert.Info, 4, 0},
	} {
		s := notifier.New()
		s.SetFloor(c.floor) // Enable keeps it
		config := notifier.DefaultConfig()
		config.SeverityMin = c.severityMin
		s.Enable(config)
		for _, severity := range alert.Severities() {
			a := made(string(severity))
			a.Severity = severity
			s.Offer(a, start)
		}
		if got := 3 - s.Stats().Filtered; got != c.passed {
			t.Errorf("minimum %s and floor %d: %d passed, want %d", c.severityMin, c.floor, got, c.passed)
		}
	}

	p := &player{Notifier: enabled(5)}
	p.offer(made("A"), at(0))
	warning := made("B")
	warning.Severity = alert.Warning
	p.offer(warning, at(1))
	p.offer(made("C"), at(2))
	p.SetFloor(alert.Error.Rank())
	p.until(at(10))
	if got, want := p.String(), "0: A; 5: C"; got != want {
		t.Errorf("a floor set while a warning is pending: emitted %q, want %q", got, want)
	}
	if got := p.Stats().Filtered; got != 1 {
		t.Errorf("a floor set while a warning is pending: Filtered = %d, want 1", got)
	}
}

func TestDisableAndEnable(t *testing.T) {
	stats := func(name string, s *notifier.Notifier, want notifier.Stats) {
		t.Helper()
		if diff := cmp.Diff(want, s.Stats()); diff != "" {
			t.Errorf("Stats %s (-want +got):\n%s", name, diff)
		}
	}
	s := notifier.New()
	if out := s.Offer(made("A"), start); out != nil {
		t.Errorf("Offer to a disabled notifier = %+v, want none", out)
	}
	stats("of a disabled notifier", s, notifier.Stats{})

	s = enabled(5)
	for _, key := range []string{"A", "B", "C", "C"} {
		s.Offer(made(key), start)
	}
	if n := s.Disable(); n != 2 {
		t.Errorf("Disable = %d, want 2 pending", n)
	}
	if at, ok := s.Next(); ok {
		t.Errorf("Next after Disable = %v, want none", at)
	}
	if s.Config().Enabled {
		t.Errorf("Config after Disable = %+v, want it disabled", s.Config())
	}
	if out := s.Due(at(100)); out != nil {
		t.Errorf("Due after Disable = %+v, want none", out)
	}
	if n := s.Disable(); n != 0 {
		t.Errorf("second Disable = %d, want 0", n)
	}
	stats("after Disable", s, notifier.Stats{NotifyCount: 1, Emitted: 1, Cleared: 3})

	s.Enable(notifier.DefaultConfig())
	stats("after Enable", s, notifier.Stats{})
	if out := s.Offer(made("A"), at(0.1)); len(out) != 1 {
		t.Errorf("Offer after Enable = %+v, want a notification", out)
	}
	s.Offer(made("B"), at(0.2))
	s.Enable(notifier.DefaultConfig())
	stats("after Enable with a pending alert", s, notifier.Stats{})
	if out := s.Due(at(100)); out != nil {
		t.Errorf("Due after Enable with a pending alert = %+v, want none", out)
	}

	events := []string{"ci"}
	c := notifier.DefaultConfig()
	c.Events = events
	s.Enable(c)
	events[0] = "all"
	s.Config().Events[0] = "all"
	if got := s.Config().Events[0]; got != "ci" {
		t.Errorf("events after changes from outside = %q, want %q", got, "ci")
	}
}
