package threshold_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/services/detector/threshold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestMemory publishes every alert. The alert of step i has the id i.
func TestMemory(t *testing.T) {
	steps := []struct {
		used     float64 // of 1000
		severity alert.Severity
		key      string
		resolves string
	}{
		{500, "", "", ""},
		{749.9, "", "", ""},
		{750, alert.Warning, "threshold:web:memory:soft", ""},
		{899.9, "", "", ""},
		{900, alert.Error, "threshold:web:memory:hard", ""},
		{1200, "", "", ""},
		{800, alert.Warning, "threshold:web:memory:soft", ""},
		{700, alert.Info, "threshold:web:memory:normal", "4 2 6"},
		{0, "", "", ""},
		{950, alert.Error, "threshold:web:memory:hard", ""},
		{0, alert.Info, "threshold:web:memory:normal", "9"},
		{760, alert.Warning, "threshold:web:memory:soft", ""},
		{0, alert.Info, "threshold:web:memory:normal", "11"},
	}
	states := threshold.New()
	for i, s := range steps {
		f, changed := states.Memory("web", &telemetry.Memory{UsedBytes: s.used, LimitBytes: 1000})
		a := f.Alert
		if want := s.key != ""; changed != want {
			t.Errorf("step %d, %v of 1000: got a finding: %v, want %v", i, s.used, changed, want)
		}
		if got, want := [...]string{string(a.Severity), a.DedupKey, resolved(a)}, [...]string{string(s.severity), s.key, s.resolves}; got != want {
			t.Errorf("step %d, %v of 1000: severity, dedup key, resolves = %q, want %q", i, s.used, got, want)
		}
		if changed {
			f.MarkPublished(strconv.Itoa(i))
		}
		states = restored(t, states)
	}
}

func TestCircuit(t *testing.T) {
	steps := []struct {
		name, state, reason string
		severity            alert.Severity
		title, detail, key  string
		resolves            string
	}{
		{"db", "closed", "", "", "", "", "", ""},
		{"db", "open", "5 failures", alert.Error, "Circuit db is open", "was closed: 5 failures", "threshold:web:circuit:db:open", ""},
		{"db", "open", "", "", "", "", "", ""},
		{"db", "ajar", "", "", "", "", "", ""},
		{"db", "half_open", "", alert.Warning, "Circuit db is half open", "was open", "threshold:web:circuit:db:half_open", ""},
		{"mail", "half_open", "", alert.Warning, "Circuit mail is half open", "was closed", "threshold:web:circuit:mail:half_open", ""},
		{"db", "open", "", alert.Error, "Circuit db is open", "was half_open", "threshold:web:circuit:db:open", ""},
		{"db", "closed", "", alert.Info, "Circuit db is closed again", "was open", "threshold:web:circuit:db:closed", "6 1 4"},
		{"mail", "closed", "", alert.Info, "Circuit mail is closed again", "was half_open", "threshold:web:circuit:mail:closed", "5"},
	}
	states := threshold.New()
	for i, s := range steps {
		f, changed := states.Circuit("web", &telemetry.Circuit{Name: s.name, State: s.state, Reason: s.reason})
		a := f.Alert
		if want := s.key != ""; changed != want {
			t.Errorf("step %d: got a finding: %v, want %v", i, changed, want)
		}
		got := [...]string{string(a.Severity), a.Title, a.Detail, a.DedupKey, resolved(a)}
		if want := [...]string{string(s.severity), s.title, s.detail, s.key, s.resolves}; got != want {
			t.Errorf("step %d: severity, title, detail, dedup key, resolves = %q, want %q", i, got, want)
		}
		if changed {
			f.MarkPublished(strconv.Itoa(i))
		}
		states = restored(t, states)
	}
}

// resolved lists the ids that an alert resolves.
func resolved(a alert.Alert) string {
	return strings.TrimSpace(a.Resolves + " " + strings.Join(a.AlsoResolves, " "))
}

// TestSuppressedEndIsRetried checks that only published alerts are resolved, and that a
// suppressed return to normal is found again until it is published, once.
func TestSuppressedEndIsRetried(t *testing.T) {
	const suppressed = ""
	steps := []struct {
		state int // 0 is normal, 1 soft, 2 hard
		id    string
		want  string // the state before and what is resolved, or nothing without a finding
	}{
		{2, suppressed, "0"},
		{0, "a", "2"},
		{2, "b", "0"},
		{1, "c", "2"},
		{0, suppressed, "1 b c"},
		{0, suppressed, "1 b c again"},
		{0, "d", "1 b c again"},
		{0, suppressed, ""},
		{2, "e", "0"},
		{0, suppressed, "2 e"},
		{1, "f", "0"},
		{0, suppressed, "1 e f"},
		{2, suppressed, "0"},
		{0, "g", "2 e f"},
		{0, "h", ""},
	}
	readings := [...]float64{0, 800, 950}
	circuits := [...]string{telemetry.CircuitClosed, telemetry.CircuitHalfOpen, telemetry.CircuitOpen}
	names := map[string]string{"normal": "0", "soft": "1", "hard": "2", "closed": "0", "half_open": "1", "open": "2"}
	for name, observe := range map[string]func(s *threshold.States, state int) (rule.Finding, bool){
		"memory": func(s *threshold.States, state int) (rule.Finding, bool) {
			return s.Memory("web", &telemetry.Memory{UsedBytes: readings[state], LimitBytes: 1000})
		},
		"circuit": func(s *threshold.States, state int) (rule.Finding, bool) {
			return s.Circuit("web", &telemetry.Circuit{Name: "db", State: circuits[state]})
		},
	} {
		states := threshold.New()
		for i, step := range steps {
			f, found := observe(states, step.state)
			got := ""
			if found {
				got = strings.TrimSpace(names[f.Alert.Context["before"].(string)] + " " + resolved(f.Alert))
			}
			if f.Again {
				got += " again"
			}
			if got != step.want {
				t.Errorf("%s, step %d: got %q, want %q", name, i, got, step.want)
			}
			if found && step.id != suppressed {
				f.MarkPublished(step.id)
			}
			states = restored(t, states)
		}
	}
}

func TestAlert(t *testing.T) {
	f, _ := threshold.New().Memory("web", &telemetry.Memory{UsedBytes: 800 << 20, LimitBytes: 1000 << 20})
	a := f.Alert
	if diff := cmp.Diff(alert.Alert{
		Title: "Memory reached 75% of its limit", Detail: "800 MiB of 1000 MiB used (80%), was normal", DedupKey: "threshold:web:memory:soft",
		Severity: alert.Warning, Category: alert.Threshold, Source: alert.SourceMemory,
		Context: map[string]any{"state": "soft", "before": "normal", "used_bytes": 800.0 * (1 << 20), "limit_bytes": 1000.0 * (1 << 20)},
	}, a); diff != "" {
		t.Errorf("memory (-want +got):\n%s", diff)
	}
	f, _ = threshold.New().Circuit("web", &telemetry.Circuit{Name: "db", State: "open"})
	a = f.Alert
	if diff := cmp.Diff(alert.Alert{
		Title: "Circuit db is open", Detail: "was closed", DedupKey: "threshold:web:circuit:db:open",
		Severity: alert.Error, Category: alert.Threshold, Source: alert.SourceCircuit,
		Context: map[string]any{"circuit": "db", "state": "open", "before": "closed"},
	}, a); diff != "" {
		t.Errorf("circuit (-want +got):\n%s", diff)
	}
}

func TestMemoryDetail(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		used, limit   float64
		title, detail string
	}{
		{80, 100, "Memory reached 75% of its limit", "80 B of 100 B used (80%), was normal"},
		{0.9, 1, "Memory reached 90% of its limit", "0.9 B of 1 B used (90%), was normal"},
		{1536, 2048, "Memory reached 75% of its limit", "1.5 KiB of 2 KiB used (75%), was normal"},
		{899.99, 1000, "Memory reached 75% of its limit", "899.9 B of 1000 B used (89.9%), was normal"},
		{803, 1000, "Memory reached 75% of its limit", "803 B of 1000 B used (80.3%), was normal"},
		{115, 100, "Memory reached 90% of its limit", "115 B of 100 B used (115%), was normal"},
		{1.9 * gib, 2 * gib, "Memory reached 90% of its limit", "1.9 GiB of 2 GiB used (95%), was normal"},
		{4096 * gib, 4000 * gib, "Memory reached 90% of its limit", "4096 GiB of 4000 GiB used (102.4%), was normal"},
	} {
		f, _ := threshold.New().Memory("web", &telemetry.Memory{UsedBytes: tt.used, LimitBytes: tt.limit})
		a := f.Alert
		if got, want := [...]string{a.Title, a.Detail}, [...]string{tt.title, tt.detail}; got != want {
			t.Errorf("%v of %v: title, detail = %q, want %q", tt.used, tt.limit, got, want)
		}
	}
}

func TestCircuitsAreBounded(t *testing.T) {
	states := threshold.New()
	for i := range threshold.MaxCircuits + 1 {
		states.Circuit("web", &telemetry.Circuit{Name: fmt.Sprint("c", i), State: "open"})
	}
	states = restored(t, states)
	if f, changed := states.Circuit("web", &telemetry.Circuit{Name: "c1", State: "open"}); changed {
		t.Errorf("got finding %q about c1, which was open, want none", f.Alert.Title)
	}
	if _, changed := states.Circuit("web", &telemetry.Circuit{Name: "c0", State: "open"}); !changed {
		t.Error("got no finding about c0, which was forgotten, want one")
	}
	if got := states.Evicted(); got != 1 {
		t.Errorf("Evicted() = %d, want 1", got)
	}
}

func restored(t *testing.T, s *threshold.States) *threshold.States {
	t.Helper()
	again := threshold.New()
	snapshottest.Copy(t, s, again)
	if again.Size() != s.Size() {
		t.Errorf("restored size = %d, want %d", again.Size(), s.Size())
	}
	return again
}
