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

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

var update = flag.Bool("update", false, "write the golden files anew")

func networkError() alert.Alert {
	return alert.Alert{
		ID: "n1", Severity: alert.Error, Category: alert.NetworkErrors,
		Title: "Server error: POST /api/users → 500", Detail: "<b>boom</b> & \"more\"",
		Timestamp: start.Add(1234 * time.Microsecond), Source: alert.SourceNetwork, App: "web", URL: "http://localhost/",
		Context:  map[string]any{"method": "POST", "url": "/api/users?a=1&b=2", "status": 500, "duration_ms": 12},
		DedupKey: "POST:/api/users:500", CorrelationID: "n1",
	}
}

// deployed is a deploy that passed, and what came of it.
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

// TestToldUnderACause: what is sent after its cause says so.
func TestToldUnderACause(t *testing.T) {
	s := enabled(5)
	alerts := deployed()
	out := s.Offer(alerts[2], at(0))
	out = append(out, s.Offer(alerts[1], at(0.5))...)
	out = append(out, s.Due(at(10))...)
	if len(out) != 2 || len(out[1].Alerts) != 1 || out[0].Alerts[0].Symptoms != 0 || out[1].Alerts[0].InhibitedBy != "c1" {
		t.Errorf("%+v", out)
	}
	s.Enable(notifier.DefaultConfig())
	if out := s.Offer(alerts[1], at(11)); len(out) != 1 || out[0].Alerts[0].InhibitedBy != "" {
		t.Errorf("a stream that begins afresh remembers: %+v", out)
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
				t.Fatalf("%d notifications", len(out))
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
			if err != nil || string(data) != string(whole.Params.Data) || whole.Params.Level != string(out[0].Level()) {
				t.Errorf("the parts are not those of the line: %v\n%s", err, data)
			}
			if _, err := json.Marshal(out[0]); err != nil {
				t.Error(err)
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
	if got+"\n" != string(want) || strings.Contains(got, "\n") {
		t.Errorf("%s:\n got %s\nwant %s", name, got, want)
	}
}

func TestLineRefusesWhatIsNoJSON(t *testing.T) {
	a := networkError()
	a.Context["f"] = func() {}
	if _, err := (notifier.Notification{Alerts: []alert.Alert{a}}).Line(); err == nil {
		t.Error("a function was written")
	}
}

// TestLinesAreBounded: a notification has at most 24 KiB, however long its alerts are.
// Long fields are cut first; then a batch leaves out its last alerts, and says so.
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
		if len(line) > notifier.MaxLine || data.LeftOut != tt.leftOut || !strings.HasSuffix(data.Title, tt.titleSuffix) || tt.n > 1 && (data.Count != tt.n || len(data.Alerts) != tt.n-tt.leftOut || data.Alerts[0].Key != "key000") {
			t.Errorf("%s: got %d of %d alerts and %d left out in %d bytes, titled %q; want %d left out in at most %d bytes", tt.name, len(data.Alerts), data.Count, data.LeftOut, len(line), data.Title, tt.leftOut, notifier.MaxLine)
		}
	}
}
