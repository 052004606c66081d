package alert_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// start is the time of the examples in docs/reference/alerts.md.
var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

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
	if got+"\n" != string(want) {
		t.Errorf("%s:\n got %s\nwant %s", name, got, want)
	}
}

func full() alert.Alert {
	return alert.Alert{
		ID: "a1", Severity: alert.Error, Category: alert.Regression,
		Title:  "LCP regressed 34% on /cart",
		Detail: "LCP 3350 ms, baseline 2500 ms (20 loads) <b>&</b> →",
		// A time in another zone, more precise than on the wire.
		Timestamp: start.Add(123456 * time.Microsecond).In(time.FixedZone("", 3600)),
		Source:    alert.SourcePerformance, App: "web", URL: "http://localhost:3000/cart?a=1&b=2",
		Context: map[string]any{"metric": "lcp_ms"}, DedupKey: "regression:web:/cart:lcp_ms",
		CorrelationID: "a0", Count: 3, Revises: "a-1",
	}
}

func TestWireForm(t *testing.T) {
	one := alert.Alert{ID: "a2", Severity: alert.Info, Category: alert.CI, Timestamp: start, Count: 1}
	over := alert.Alert{
		ID: "a3", Severity: alert.Info, Category: alert.Regression, Timestamp: start, Title: "Resolved: LCP regressed on /cart",
		DedupKey: "regression:web:/cart:lcp_ms", CorrelationID: "a3", Resolves: "a1",
	}
	several := over
	several.AlsoResolves = []string{"a-2", "a0"}
	resolved := full()
	resolved.Title, resolved.Detail, resolved.Context, resolved.Resolved = "Resolved: "+resolved.Title, "", nil, true
	cause, symptom := full(), full()
	cause.Symptoms, cause.Reason = 2, "3 alerts of web within 10 s name /api/cart; the failed request came first"
	symptom.InhibitedBy = "a1"
	for name, a := range map[string]alert.Alert{"cause.json": cause, "symptom.json": symptom, "full.json": full(), "least.json": one, "resolves.json": over, "also_resolves.json": several, "resolved.json": resolved} {
		wire, err := a.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, string(wire))

		var back alert.Alert
		if err := json.Unmarshal(wire, &back); err != nil {
			t.Fatal(err)
		}
		want := a
		want.Timestamp = a.Timestamp.UTC().Truncate(time.Millisecond)
		if want.Count == 1 {
			want.Count = 0
		}
		if !reflect.DeepEqual(back, want) {
			t.Errorf("%s: read back\n got %+v\nwant %+v", name, back, want)
		}
	}
}

// TestManyEnds checks that the newest of the alerts that one alert resolves are read.
func TestManyEnds(t *testing.T) {
	a := alert.Alert{ID: "a", Severity: alert.Info, Timestamp: start, Resolves: "last"}
	for i := range 12 {
		a.AlsoResolves = append(a.AlsoResolves, strconv.Itoa(i))
	}
	wire, err := a.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var back alert.Alert
	if err := json.Unmarshal(wire, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.AlsoResolves) != alert.MaxAlsoResolves || !back.Ends("11") || !back.Ends("3") || back.Ends("2") || !back.Ends("last") || back.Ends("") {
		t.Errorf("read %+v, want the newest %d of AlsoResolves, and Ends for them and for Resolves", back, alert.MaxAlsoResolves)
	}
	back.Resolves = ""
	if back.Ends("11") || back.Ends("") || back.IsResolution() {
		t.Errorf("without Resolves: Ends(11) = %t, IsResolution = %t, want false", back.Ends("11"), back.IsResolution())
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for input, want := range map[string]string{
		`[]`:                            "decode alert",
		`{}`:                            "timestamp",
		`{"timestamp":"yesterday"}`:     "timestamp",
		`{"timestamp":"` + at(0) + `"}`: "severity",
		`{"timestamp":"` + at(0) + `","severity":"fatal"}`:                 `"fatal" is none of info, warning, error`,
		`{"timestamp":"9999-12-31T23:59:59-01:00","severity":"info"}`:      "timestamp",
		`{"timestamp":"` + at(0) + `","severity":"info","count":"twelve"}`: "count",
	} {
		var a alert.Alert
		err := json.Unmarshal([]byte(input), &a)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %s", input, err, want)
		}
	}
}

func at(after time.Duration) string { return alert.FormatTime(start.Add(after)) }

func TestRankOrdersSeverities(t *testing.T) {
	for i, s := range alert.Severities() {
		if s.Rank() != i+1 {
			t.Errorf("%s has rank %d, want %d", s, s.Rank(), i+1)
		}
	}
	if r := alert.Severity("fatal").Rank(); r != 0 {
		t.Errorf("rank of an unknown severity = %d, want 0", r)
	}
}

// FuzzUnmarshalJSON checks that each alert that can be read can be written, and that the
// written form is read as the same alert.
func FuzzUnmarshalJSON(f *testing.F) {
	wire, err := full().MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(wire)
	investigated, err := os.ReadFile(filepath.Join("testdata", "investigation.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(investigated)
	f.Add([]byte(`{"severity":"info","timestamp":"2026-01-28T14:30:00+01:00","investigation":{"status":"skipped","reason":"\u0000"}}`))
	f.Add([]byte(`{"severity":"info","timestamp":"2026-01-28T14:30:00+01:00","context":{"a":[1,null,{}]},"count":-1}`))
	f.Add([]byte(`{"severity":"info","timestamp":"0000-01-01T00:00:00+01:00"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var first alert.Alert
		if first.UnmarshalJSON(data) != nil {
			return
		}
		once, err := first.MarshalJSON()
		if err != nil {
			t.Fatalf("write what was read: %v", err)
		}
		var second alert.Alert
		if err := second.UnmarshalJSON(once); err != nil {
			t.Fatalf("read what was written: %v\n%s", err, once)
		}
		twice, err := second.MarshalJSON()
		if err != nil || string(once) != string(twice) {
			t.Fatalf("written again = %s, %v, want %s", twice, err, once)
		}
	})
}

func TestWhole(t *testing.T) {
	for _, tt := range []struct{ name, id, revises, correlation, wantID, wantCorrelation string }{
		{"no revision", "b", "", "b", "b", "b"},
		{"a revision", "b", "a", "b", "a", "a"},
		{"one that belongs with others", "b", "a", "c", "a", "c"},
	} {
		got := alert.Alert{ID: tt.id, Revises: tt.revises, CorrelationID: tt.correlation, Title: "t"}.AsOriginal()
		if want := (alert.Alert{ID: tt.wantID, CorrelationID: tt.wantCorrelation, Title: "t"}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, want)
		}
	}
}
