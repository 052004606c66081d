package threshold_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/services/detector/threshold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Every alert leaves, the i-th under the id i; ends is which ones it resolves.
func TestMemory(t *testing.T) {
	steps := []struct {
		used     float64 // of 1000
		severity alert.Severity
		key      string
		ends     string
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
		if a.Severity != s.severity || a.DedupKey != s.key || changed != (s.key != "") || ends(a) != s.ends {
			t.Errorf("step %d, %v of 1000: %q %q resolves %q", i, s.used, a.Severity, a.DedupKey, ends(a))
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
		ends                string
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
		if a.Severity != s.severity || a.Title != s.title || a.Detail != s.detail || a.DedupKey != s.key || changed != (s.key != "") || ends(a) != s.ends {
			t.Errorf("step %d: %q %q %q %q resolves %q", i, a.Severity, a.Title, a.Detail, a.DedupKey, ends(a))
		}
		if changed {
			f.MarkPublished(strconv.Itoa(i))
		}
		states = restored(t, states)
	}
}

// ends lists what an alert resolves.
func ends(a alert.Alert) string {
	return strings.TrimSpace(a.Resolves + " " + strings.Join(a.AlsoResolves, " "))
}

// TestWhatWasHeldBack: what was not reported is never said to be over, and that all is
// well again is found until it was reported, once, of memory and of circuits alike.
func TestSuppressedEndIsRetried(t *testing.T) {
	const held = ""
	steps := []struct {
		state int // 0 is normal, 1 soft, 2 hard
		id    string
		want  string // "was X" with what it ends, or nothing when there is no finding
	}{
		{2, held, "0"},
		{0, "a", "2"},
		{2, "b", "0"},
		{1, "c", "2"},
		{0, held, "1 b c"},
		{0, held, "1 b c again"},
		{0, "d", "1 b c again"},
		{0, held, ""},
		{2, "e", "0"},
		{0, held, "2 e"},
		{1, "f", "0"},
		{0, held, "1 e f"},
		{2, held, "0"},
		{0, "g", "2 e f"},
		{0, "h", ""},
	}
	readings := [...]float64{0, 800, 950}
	circuits := [...]string{telemetry.CircuitClosed, telemetry.CircuitHalfOpen, telemetry.CircuitOpen}
	names := map[string]string{"normal": "0", "soft": "1", "hard": "2", "closed": "0", "half_open": "1", "open": "2"}
	for name, take := range map[string]func(s *threshold.States, state int) (rule.Finding, bool){
		"memory": func(s *threshold.States, state int) (rule.Finding, bool) {
			return s.Memory("web", &telemetry.Memory{UsedBytes: readings[state], LimitBytes: 1000})
		},
		"circuit": func(s *threshold.States, state int) (rule.Finding, bool) {
			return s.Circuit("web", &telemetry.Circuit{Name: "db", State: circuits[state]})
		},
	} {
		states := threshold.New()
		for i, step := range steps {
			f, found := take(states, step.state)
			got := ""
			if found {
				got = strings.TrimSpace(names[f.Alert.Context["before"].(string)] + " " + ends(f.Alert))
			}
			if f.Again {
				got += " again"
			}
			if got != step.want {
				t.Errorf("%s, step %d: was %q, want %q", name, i, got, step.want)
			}
			if found && step.id != held {
				f.MarkPublished(step.id)
			}
			states = restored(t, states)
		}
	}
}

func TestAlert(t *testing.T) {
	f, _ := threshold.New().Memory("web", &telemetry.Memory{UsedBytes: 800 << 20, LimitBytes: 1000 << 20})
	a := f.Alert
	if a.Title != "Memory reached 75% of its limit" || a.Detail != "800 MiB of 1000 MiB used (80%), was normal" ||
		a.Category != alert.Threshold || a.Source != alert.SourceMemory || a.Context["state"] != "soft" {
		t.Errorf("got %+v", a)
	}
	f, _ = threshold.New().Circuit("web", &telemetry.Circuit{Name: "db", State: "open"})
	a = f.Alert
	if a.Category != alert.Threshold || a.Source != alert.SourceCircuit || a.Context["circuit"] != "db" {
		t.Errorf("got %+v", a)
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
		if a.Title != tt.title || a.Detail != tt.detail {
			t.Errorf("%v of %v: %q, %q", tt.used, tt.limit, a.Title, a.Detail)
		}
	}
}

func TestCircuitsAreBounded(t *testing.T) {
	states := threshold.New()
	for i := range threshold.MaxCircuits + 1 {
		states.Circuit("web", &telemetry.Circuit{Name: fmt.Sprint("c", i), State: "open"})
	}
	states = restored(t, states)
	if _, changed := states.Circuit("web", &telemetry.Circuit{Name: "c1", State: "open"}); changed {
		t.Error("c1 was known to be open")
	}
	if _, changed := states.Circuit("web", &telemetry.Circuit{Name: "c0", State: "open"}); !changed || states.Evicted() != 1 {
		t.Errorf("c0 was forgotten, so it opens again; %d evicted", states.Evicted())
	}
}

func restored(t *testing.T, s *threshold.States) *threshold.States {
	t.Helper()
	again := threshold.New()
	snapshottest.Copy(t, s, again)
	if again.Size() != s.Size() {
		t.Errorf("size %d was %d", again.Size(), s.Size())
	}
	return again
}
