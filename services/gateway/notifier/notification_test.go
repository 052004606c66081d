package notifier_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func networkError() alert.Alert {
	return alert.Alert{
		ID: "n1", Severity: alert.Error, Category: alert.NetworkErrors,
		Title: "Server error: POST /api/users → 500", Detail: "<b>boom</b> & \"more\"",
		Timestamp: start.Add(1234 * time.Microsecond), Source: alert.SourceNetwork, App: "web", URL: "http://localhost/",
		Context:  map[string]any{"method": "POST", "url": "/api/users?a=1&b=2", "status": 500, "duration_ms": 12},
		DedupKey: "POST:/api/users:500", CorrelationID: "n1",
	}
}

// deployed returns the alerts of a deploy that passed and of its consequences.
func deployed() []alert.Alert {
	const commit = "9f3c2ab1d2e3f405162738495a6b7c8d9e0f1a2b"
	ci := alert.Alert{
		ID: "c1", Severity: alert.Info, Category: alert.CI, Title: "CI success: deploy on main", App: "default",
		Timestamp: start, Source: alert.SourceCI, DedupKey: "ci:custom:abc:deploy:success:1", CorrelationID: "c1", Context: map[string]any{alert.CommitKey: commit},
	}
	failed := networkError()
	failed.Context = map[string]any{alert.EndpointKey: "POST /api/users", alert.ReleaseKey: commit[:8]}
	slow := alert.Alert{
		ID: "r1", Severity: alert.Warning, Category: alert.Regression, Title: "LCP regressed 34% on /", App: "web",
		Timestamp: start.Add(5 * time.Second), Source: alert.SourcePerformance, DedupKey: "regression:web:/:lcp_ms", CorrelationID: "r1",
		Context: map[string]any{alert.PageKey: "/", alert.ReleaseKey: "web@" + commit[:8]},
	}
	return []alert.Alert{slow, failed, ci}
}

// TestSymptomNamesItsCause: an alert that is sent after its cause names it.
func TestSymptomNamesItsCause(t *testing.T) {
	s := enabled(5)
	alerts := deployed()
	out := s.Offer(alerts[2], at(0))
	out = append(out, s.Offer(alerts[1], at(0.5))...)
	out = append(out, s.Due(at(10))...)
	if len(out) != 2 || len(out[1].Alerts) != 1 {
		t.Fatalf("notifications = %+v, want two of one alert each", out)
	}
	if got := out[0].Alerts[0].Symptoms; got != 0 {
		t.Errorf("cause with %d symptoms, want none yet", got)
	}
	if got := out[1].Alerts[0].InhibitedBy; got != "c1" {
		t.Errorf("symptom under %q, want %q", got, "c1")
	}
	s.Enable(notifier.DefaultConfig())
	out = s.Offer(alerts[1], at(11))
	if len(out) != 1 {
		t.Fatalf("notifications after Enable = %+v, want one", out)
	}
	if got := out[0].Alerts[0].InhibitedBy; got != "" {
		t.Errorf("after Enable: symptom under %q, want no cause", got)
	}
}

func TestLines(t *testing.T) {
	ci := alert.Alert{
		ID: "c1", Severity: alert.Info, Category: alert.CI, Title: "CI success: build on main", App: "default",
		Timestamp: start, Source: alert.SourceCI, DedupKey: "ci:custom:abc:build:success:1", CorrelationID: "c1",
	}
	end := networkError()
	end.ID, end.Severity, end.Resolves = "n2", alert.Info, "n1"
	for name, in := range map[string][]alert.Alert{
		"resolved.json":     {networkError(), end},
		"plain.json":        {networkError()},
		"no_context.json":   {ci},
		"batch_of_one.json": {networkError(), networkError(), networkError()},
		"batch.json":        {ci, networkError(), networkError()},
		"cause.json":        deployed(),
	} {
		t.Run(name, func(t *testing.T) {
			s := enabled(5)
			if len(in) > 1 {
				s.Offer(made("occupies the throttle"), at(0))
			}
			var out []notifier.Notification
			for _, a := range in {
				out = append(out, s.Offer(a, at(1))...)
			}
			out = append(out, s.Due(at(10))...)
			if len(out) != 1 {
				t.Fatalf("%d notifications, want 1", len(out))
			}
			line, err := out[0].Line()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, string(line))

			var whole struct {
				Params struct {
					Level string          `json:"level"`
					Data  json.RawMessage `json:"data"`
				} `json:"params"`
			}
			if err := json.Unmarshal(line, &whole); err != nil {
				t.Fatal(err)
			}
			data, err := out[0].Data()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(whole.Params.Data), string(data)); diff != "" {
				t.Errorf("Data differs from the line's (-line +got):\n%s", diff)
			}
			if got, want := string(out[0].Level()), whole.Params.Level; got != want {
				t.Errorf("Level = %q, want the line's %q", got, want)
			}
			if _, err := json.Marshal(out[0]); err != nil {
				t.Errorf("json.Marshal: %v", err)
			}
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got+"\n"); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestLineRefusesAFunction(t *testing.T) {
	a := networkError()
	a.Context["f"] = func() {}
	if _, err := (notifier.Notification{Alerts: []alert.Alert{a}}).Line(); err == nil {
		t.Error("Line of a context with a function: no error, want one")
	}
}

// TestLinesAreBounded: a notification has at most 24 KiB, however long its alerts are.
// Long fields are cut first; then a batch leaves out its last alerts and counts them.
func TestLinesAreBounded(t *testing.T) {
	for _, tt := range []struct {
		name        string
		n, text     int
		leftOut     int
		titleSuffix string
	}{
		{"one", 1, 100_000, 0, ""},
		{"a few", 5, 100, 0, ""},
		{"long fields are cut", 30, 3000, 0, ""},
		{"a hundred", 100, 3000, 48, "; 48 left out here: call observe"},
	} {
		n := notifier.Notification{At: start}
		for i := range tt.n {
			a := made(fmt.Sprintf("key%03d", i))
			a.Detail = strings.Repeat("d", tt.text)
			a.Context = map[string]any{"url": strings.Repeat("u", tt.text)}
			n.Alerts = append(n.Alerts, a)
		}
		line, err := n.Line()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Params struct {
				Data struct {
					Title   string
					Count   int
					LeftOut int `json:"left_out"`
					Alerts  []struct {
						Key string `json:"dedup_key"`
					}
				}
			}
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		data := got.Params.Data
		if len(line) > notifier.MaxLine {
			t.Errorf("%s: %d bytes, want at most %d", tt.name, len(line), notifier.MaxLine)
		}
		if data.LeftOut != tt.leftOut || !strings.HasSuffix(data.Title, tt.titleSuffix) {
			t.Errorf("%s: %d left out, titled %q, want %d and a title that ends with %q", tt.name, data.LeftOut, data.Title, tt.leftOut, tt.titleSuffix)
		}
		if tt.n == 1 {
			continue
		}
		if data.Count != tt.n || len(data.Alerts) != tt.n-tt.leftOut {
			t.Errorf("%s: %d of %d alerts, want %d of %d", tt.name, len(data.Alerts), data.Count, tt.n-tt.leftOut, tt.n)
		}
		if got := data.Alerts[0].Key; got != "key000" {
			t.Errorf("%s: first alert = %s, want key000", tt.name, got)
		}
	}
}
