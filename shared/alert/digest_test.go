package alert_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

func made(id string, c alert.Category, s alert.Severity, after time.Duration) alert.Alert {
	return alert.Alert{
		ID: id, Category: c, Severity: s, Timestamp: start.Add(after), App: "web",
		Title: "title " + id, Detail: "detail " + id, DedupKey: "key " + id, CorrelationID: id,
	}
}

func titles(alerts []alert.Alert) string {
	var list []string
	for _, a := range alerts {
		list = append(list, strings.TrimPrefix(a.Title, "title "))
	}
	return strings.Join(list, ", ")
}

func TestMerge(t *testing.T) {
	old := made("old", alert.Errors, alert.Error, 0)
	late := made("late", alert.Errors, alert.Warning, time.Second)
	same := made("same", alert.Errors, alert.Info, 0)
	old.Count, late.Count = 3, 1

	for _, c := range []struct {
		name           string
		earlier, later alert.Alert
		id             string
		count          int
	}{
		{"the newer wins", old, late, "late", 4},
		{"the newer wins when it came first", late, old, "late", 4},
		{"of equal times the later arrival wins", old, same, "same", 4},
		{"no count is one", late, same, "late", 2},
	} {
		got := alert.Merge(c.earlier, c.later)
		want := c.earlier
		if c.later.ID == c.id {
			want = c.later
		}
		want.Count, want.Severity = c.count, c.earlier.Severity
		if c.later.Severity.Rank() > want.Severity.Rank() {
			want.Severity = c.later.Severity
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, want)
		}
	}
	if a, b := made("a", alert.CI, alert.Info, 0), made("b", alert.CI, alert.Info, 0); a.MergeKey() == b.MergeKey() {
		t.Errorf("alerts with different keys have one MergeKey %+v, want two", a.MergeKey())
	}
	raised := made("a", alert.Regression, alert.Error, 0)
	end, delivered := raised, raised
	end.Resolves, delivered.Resolved = "a", true
	if raised.IsResolution() || raised.MergeKey() == end.MergeKey() || raised.MergeKey() == delivered.MergeKey() {
		t.Errorf("MergeKey of a finding, its end and the delivered one = %+v, %+v, %+v, want the first different from the others", raised.MergeKey(), end.MergeKey(), delivered.MergeKey())
	}
}

func TestDigestOrder(t *testing.T) {
	in := []alert.Alert{
		made("info", alert.CI, alert.Info, 9*time.Second),
		made("old error", alert.Errors, alert.Error, time.Second),
		made("warning", alert.Security, alert.Warning, 8*time.Second),
		made("new error", alert.Errors, alert.Error, 2*time.Second),
		made("new error's equal", alert.Errors, alert.Error, 2*time.Second),
	}
	before := titles(in)
	want := "new error, new error's equal, old error, warning, info"
	if got := titles(alert.Digest(in)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if titles(in) != before {
		t.Errorf("input after Digest = %s, want it unchanged: %s", titles(in), before)
	}
	if got := alert.Digest(nil); len(got) != 0 {
		t.Errorf("Digest(nil) = %v, want none", got)
	}
}

func TestDigestCorrelates(t *testing.T) {
	r := func(id string, after time.Duration) alert.Alert {
		return made(id, alert.Regression, alert.Warning, after)
	}
	a := func(id string, after time.Duration) alert.Alert { return made(id, alert.Anomaly, alert.Error, after) }
	other := a("A", 0)
	other.App = "checkout"
	end, resolved := r("E", 0), a("T", 0)
	end.Resolves, resolved.Resolved = "Q", true
	const s = time.Second
	for _, c := range []struct {
		name string
		in   []alert.Alert
		want string
	}{
		{"at once", []alert.Alert{r("R", 0), a("A", 0)}, "Correlated: title R + title A"},
		{"the anomaly first", []alert.Alert{a("A", 0), r("R", s)}, "Correlated: title R + title A"},
		{"5 s, inclusive", []alert.Alert{r("R", 5*s), a("A", 0)}, "Correlated: title R + title A"},
		{"5 s the other way", []alert.Alert{r("R", 0), a("A", 5*s)}, "Correlated: title R + title A"},
		{"over 5 s", []alert.Alert{r("R", 0), a("A", 5*s+time.Millisecond)}, "A, R"},
		{"another app", []alert.Alert{r("R", 0), other}, "A, R"},
		{"two regressions", []alert.Alert{r("R", 0), r("Q", s)}, "Q, R"},
		{"the closest", []alert.Alert{r("R", 0), a("A", 3*s), a("B", s)}, "A, Correlated: title R + title B"},
		{"of equals the first", []alert.Alert{r("R", 2*s), a("A", 0), a("B", 4*s)}, "B, Correlated: title R + title A"},
		{"each only once", []alert.Alert{r("R", 0), a("A", s), r("Q", 4*s)}, "Correlated: title R + title A, Q"},
		{"the end of a regression", []alert.Alert{end, a("A", 0)}, "A, E"},
		{"an anomaly that is resolved", []alert.Alert{r("R", 0), resolved}, "T, R"},
		{"two pairs", []alert.Alert{r("R", 0), r("Q", 4*s), a("A", 3*s), a("B", s)}, "Correlated: title Q + title A, Correlated: title R + title B"},
	} {
		if got := titles(alert.Digest(c.in)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestJoinedAlert(t *testing.T) {
	r := made("R", alert.Regression, alert.Warning, 2*time.Second)
	r.URL, r.Source, r.Context = "http://localhost/cart", alert.SourcePerformance, map[string]any{"metric": "lcp_ms"}
	a := made("A", alert.Anomaly, alert.Error, 4*time.Second)
	a.CorrelationID = "R"
	a.Source, a.Context = alert.SourceAnomaly, map[string]any{"metric": "of the anomaly", alert.SignalKey: alert.SignalLogs}

	want := r
	want.Title, want.Detail = "Correlated: title R + title A", "detail R | detail A"
	want.Severity, want.Timestamp = alert.Error, a.Timestamp
	want.Context = map[string]any{"metric": "lcp_ms", alert.SignalKey: alert.SignalLogs}
	got := alert.Digest([]alert.Alert{a, r})
	if !reflect.DeepEqual(got, []alert.Alert{want}) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
	if len(r.Context) != 1 || len(a.Context) != 2 {
		t.Errorf("contexts of the input = %v, %v, want them unchanged", r.Context, a.Context)
	}

	a.Timestamp, a.CorrelationID, r.CorrelationID, r.Count = start, "A", "A", 3
	if got := alert.Digest([]alert.Alert{a, r})[0]; got.Count != 4 || got.CorrelationID != "A" || !got.Timestamp.Equal(r.Timestamp) {
		t.Errorf("Digest with a count, anomaly first = %+v, want count 4, correlation A and the time of the regression", got)
	}
}

func TestDigestCuts(t *testing.T) {
	r, a := made("R", alert.Regression, alert.Error, 0), made("A", alert.Anomaly, alert.Error, 0)
	r.Title, r.Detail = strings.Repeat("ü", 190), strings.Repeat("ü", 2000)
	c := made("C", alert.CI, alert.Error, -time.Second)
	c.Title, c.Detail = strings.Repeat("x", 201), strings.Repeat("x", 2001)
	for _, got := range alert.Digest([]alert.Alert{r, a, c}) {
		if n := utf8.RuneCountInString(got.Title); n != alert.MaxTitle {
			t.Errorf("title of %d characters, want %d", n, alert.MaxTitle)
		}
		if n := utf8.RuneCountInString(got.Detail); n != alert.MaxDetail {
			t.Errorf("detail of %d characters, want %d", n, alert.MaxDetail)
		}
	}
}

func TestSummaryAndBlock(t *testing.T) {
	categories := func(list ...alert.Category) []alert.Alert {
		var alerts []alert.Alert
		for i, c := range list {
			alerts = append(alerts, made(fmt.Sprint(i), c, alert.Error, 0))
		}
		return alerts
	}
	for _, c := range []struct {
		alerts  []alert.Alert
		summary string
		block   string
	}{
		{nil, "0 alerts", ""},
		{categories(alert.CI), "1 alert: 1 ci", "--- ALERTS (1) ---\n[{"},
		{categories(alert.CI, alert.CI, alert.CI), "3 alerts: 3 ci", "--- ALERTS (3) ---\n[{"},
		{
			categories(alert.CI, alert.Anomaly, alert.CI, alert.Regression), "4 alerts: 1 regression, 1 anomaly, 2 ci",
			"--- ALERTS (4) ---\n4 alerts: 1 regression, 1 anomaly, 2 ci\n[{",
		},
		{categories("zoo", alert.UserFrustration, "apes"), "3 alerts: 1 user_frustration, 1 apes, 1 zoo", "--- ALERTS (3) ---\n[{"},
	} {
		if got := alert.Summary(c.alerts); got != c.summary {
			t.Errorf("got %q, want %q", got, c.summary)
		}
		got, err := alert.Block(c.alerts)
		if err != nil || !strings.HasPrefix(got, c.block) || got == "" && len(c.alerts) > 0 {
			t.Errorf("Block of %s = %q, %v, want it to begin with %q", c.summary, got, err, c.block)
		}
	}
	block, err := alert.Block([]alert.Alert{full(), made("C", alert.CI, alert.Info, 0)})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "block.txt", block)
	odd := full()
	odd.Context = map[string]any{"f": func() {}}
	if _, err := alert.Block([]alert.Alert{odd}); err == nil {
		t.Error("Block with a function in a context = nil error, want one")
	}
}
