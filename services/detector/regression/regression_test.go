package regression_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const cart = "http://localhost:3000/cart"

// noon is the time of loads whose time makes no difference.
var noon = time.Date(2026, 1, 28, 12, 0, 0, 0, time.UTC)

func lcp(v float64) *telemetry.Vitals { return &telemetry.Vitals{LCP: &v} }
func cls(v float64) *telemetry.Vitals { return &telemetry.Vitals{CLS: &v} }

// load returns the alerts of a load without publishing them.
func load(pages *regression.Pages, app, url string, vitals *telemetry.Vitals) (alerts []alert.Alert) {
	for _, f := range pages.Load(app, url, vitals, noon) {
		alerts = append(alerts, f.Alert)
	}
	return alerts
}

func times(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }

// TestLoad checks the severity of one load after a page's history.
func TestLoad(t *testing.T) {
	const none = alert.Severity("")
	tests := []struct {
		name    string
		vital   func(float64) *telemetry.Vitals
		history []float64
		load    float64
		want    alert.Severity
	}{
		{"the first load has nothing to be compared with", lcp, nil, 9000, none},
		{"the second is compared with the first", lcp, []float64{1000}, 1300, alert.Warning},
		{"20% is not over 20%", lcp, []float64{1000}, 1200, none},
		{"a little more is", lcp, []float64{1000}, 1200.001, alert.Warning},
		{"20% without float dust", lcp, []float64{1000.1}, 1200.12, none},
		{"50% is an error", lcp, []float64{1000}, 1500, alert.Error},
		{"just under 50% is a warning", lcp, []float64{1000}, 1499.9, alert.Warning},
		{"40% but only 49 ms worse", lcp, []float64{120}, 169, none},
		{"50 ms worse", lcp, []float64{120}, 170, alert.Warning},
		{"a baseline of nothing", lcp, []float64{0}, 50, alert.Error},
		{"faster is never an alert", lcp, []float64{1000}, 10, none},
		{"the median of an even number is between the two in the middle", lcp, []float64{1000, 2000}, 1800, none},
		{"and over it", lcp, []float64{1000, 2000}, 1801, alert.Warning},
		{"one slow load does not move the median", lcp, []float64{1000, 1000, 9000}, 1250, alert.Warning},
		{"four loads: the spread does not count yet", lcp, []float64{700, 900, 1100, 1300}, 1300, alert.Warning},
		{"five loads: within median + 3 MAD", lcp, []float64{600, 800, 1000, 1200, 1400}, 1600, none},
		{"five loads: outside", lcp, []float64{600, 800, 1000, 1200, 1400}, 1601, alert.Error},
		{"only the last 20 loads count", lcp, append(times(20, 5000), times(20, 1000)...), 1300, alert.Warning},
		{"ten old and ten new are half and half", lcp, append(times(10, 2000), times(10, 1000)...), 1700, none},
		{"CLS 0.1 over is not over 0.1", cls, []float64{0.2}, 0.3, none},
		{"CLS rounded to 0.0001", cls, []float64{0.2}, 0.30004, none},
		{"CLS over 0.1", cls, []float64{0.2}, 0.3001, alert.Warning},
		{"CLS from 0", cls, []float64{0}, 0.1001, alert.Warning},
		{"CLS 0.25 over is an error", cls, []float64{0.05}, 0.3, alert.Error},
		{"CLS just under", cls, []float64{0.05}, 0.2999, alert.Warning},
		{"CLS doubled but little", cls, []float64{0.05}, 0.1, none},
		{"CLS within the spread", cls, []float64{0.1, 0.2, 0.3, 0.4, 0.5}, 0.6, none},
		{"absurd values do no harm", lcp, []float64{1e300}, 1e308, none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pages := regression.New()
			for _, v := range tt.history {
				pages.Load("web", cart, tt.vital(v), noon)
			}
			got := none
			if alerts := load(pages, "web", cart, tt.vital(tt.load)); len(alerts) > 0 {
				got = alerts[0].Severity
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAlert(t *testing.T) {
	tests := []struct {
		name                 string
		url                  string
		history, load        *telemetry.Vitals
		loads                int
		title, detail, dedup string
	}{
		{"timing", cart + "?id=7", lcp(2500), lcp(3350), 20, "LCP regressed 34% on /cart", "LCP 3350 ms, baseline 2500 ms (20 loads)", "regression:web:/cart:lcp_ms"},
		{"one load, decimals", "/users/42", lcp(100.04), lcp(200.06), 1, "LCP regressed 99% on /users/:id", "LCP 200.1 ms, baseline 100 ms (1 load)", "regression:web:/users/:id:lcp_ms"},
		{"CLS", cart, cls(0.05), cls(0.21), 3, "CLS regressed by 0.16 on /cart", "CLS 0.21, baseline 0.05 (3 loads)", "regression:web:/cart:cls"},
		{"from nothing", cart, lcp(0), lcp(80), 1, "LCP regressed on /cart", "LCP 80 ms, baseline 0 ms (1 load)", "regression:web:/cart:lcp_ms"},
		{"no page", "", lcp(100), lcp(200), 1, "LCP regressed 100%", "LCP 200 ms, baseline 100 ms (1 load)", "regression:web::lcp_ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pages := regression.New()
			for range tt.loads {
				pages.Load("web", tt.url, tt.history, noon)
			}
			alerts := load(pages, "web", tt.url, tt.load)
			if len(alerts) != 1 {
				t.Fatalf("%d alerts, want 1", len(alerts))
			}
			got := alerts[0]
			want := alert.Alert{
				Title: tt.title, Detail: tt.detail, DedupKey: tt.dedup, Category: alert.Regression, Source: alert.SourcePerformance, URL: tt.url,
				Severity: got.Severity, Context: got.Context, // TestLoad and TestConfirmedAlerts check them
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("alert (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEnds plays loads of one page in milliseconds; alerts of those in brackets are
// suppressed. want has for each load the index of the load whose alert it resolves.
func TestEnds(t *testing.T) {
	for _, tt := range []struct{ name, loads, want string }{
		{"the next load that is no regression", "1000 2000 1000", "- - 1"},
		{"once", "1000 2000 1000 1000", "- - 1 -"},
		{"the newest alert", "1000 2000 2000 1000", "- - - 2"},
		{"the baseline came up to it, which is no end", "1000 2000 2000 2000", "- - - -"},
		{"again", "1000 1000 2000 1000 2000 1000", "- - - 2 - 4"},
		{"what was suppressed is not known", "1000 (2000) 1000", "- - -"},
		{"an end that was suppressed is the next one's", "1000 2000 (1000) 1000 1000", "- - 1 1 -"},
		{"the newest alert that was published", "1000 1000 2000 (2000) 1000", "- - - - 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pages := regression.New()
			var got []string
			for i, text := range strings.Fields(tt.loads) {
				ms, err := strconv.ParseFloat(strings.Trim(text, "()"), 64)
				if err != nil {
					t.Fatal(err)
				}
				resolves := "-"
				for _, f := range pages.Load("web", cart, lcp(ms), noon) {
					if f.Alert.Resolves != "" {
						resolves = f.Alert.Resolves
					}
					if !strings.HasPrefix(text, "(") {
						f.MarkPublished(strconv.Itoa(i))
					}
				}
				got = append(got, resolves)
				pages = restored(t, pages)
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("%s\n got %s\nwant %s", tt.loads, got, tt.want)
			}
		})
	}
}

// TestResolution checks that the alerts that a load raises come before those that it
// resolves.
func TestResolution(t *testing.T) {
	pages := regression.New()
	both := func(fcp, lcp float64) (got []alert.Alert) {
		for i, f := range pages.Load("web", cart, &telemetry.Vitals{FCP: &fcp, LCP: &lcp}, noon) {
			f.MarkPublished(fmt.Sprint("id", i))
			got = append(got, f.Alert)
		}
		return got
	}
	both(1000, 1000)
	begin := both(2000, 1000)
	got := both(1000, 2000)
	if len(begin) != 1 || len(got) != 2 {
		t.Fatalf("alerts %+v, then %+v, want 1, then 2", begin, got)
	}
	if a := got[0]; a.Resolves != "" || a.Title != "LCP regressed 100% on /cart" {
		t.Errorf("first alert = %+v, want the regression of LCP", a)
	}
	want := alert.Alert{
		Title: "Resolved: FCP regressed on /cart", Detail: "FCP 1000 ms, baseline 1000 ms (1 load)", Resolves: "id0", Severity: alert.Info,
		DedupKey: begin[0].DedupKey, Category: alert.Regression, Source: alert.SourcePerformance, URL: cart,
		Context: map[string]any{"metric": "fcp_ms", "page": "/cart", "value": 1000.0, "baseline": 1000.0, "loads": 1},
	}
	if diff := cmp.Diff(want, got[1]); diff != "" {
		t.Errorf("second alert (-want +got):\n%s", diff)
	}
}

// TestTitleNeverClaimsMore checks that titles round down, so no warning claims 50%, and
// that a rise by a whole percent is not shown as less.
func TestTitleNeverClaimsMore(t *testing.T) {
	for _, tt := range []struct {
		vital   func(float64) *telemetry.Vitals
		history []float64
		load    float64
		want    string
	}{
		{lcp, []float64{2500}, 3350, "LCP regressed 34% on /cart"},
		{lcp, []float64{1000}, 1499, "LCP regressed 49% on /cart"},
		{lcp, []float64{1000}, 1499.999, "LCP regressed 49% on /cart"},
		{lcp, []float64{1000}, 1500, "LCP regressed 50% on /cart"},
		{lcp, []float64{1000}, 1200.001, "LCP regressed 20% on /cart"},
		{lcp, []float64{999.9}, 1289.871, "LCP regressed 29% on /cart"}, // exactly
		{lcp, []float64{1000, 1001}, 1500.75, "LCP regressed 50% on /cart"},
		{cls, []float64{0.05, 0.0501}, 0.3, "CLS regressed by 0.2499 on /cart"},
		{cls, []float64{0.05}, 0.1501, "CLS regressed by 0.1001 on /cart"},
	} {
		pages := regression.New()
		for _, v := range tt.history {
			pages.Load("web", cart, tt.vital(v), noon)
		}
		alerts := load(pages, "web", cart, tt.vital(tt.load))
		if len(alerts) != 1 || alerts[0].Title != tt.want {
			t.Errorf("%v after %v: got %+v, want one alert %q", tt.load, tt.history, alerts, tt.want)
		}
	}
}

func TestEveryMetricOfALoad(t *testing.T) {
	vitals := func(v float64) *telemetry.Vitals {
		c := v / 1000
		return &telemetry.Vitals{FCP: &v, LCP: &v, INP: &v, TTFB: &v, Load: &v, CLS: &c}
	}
	pages := regression.New()
	if alerts := load(pages, "web", cart, vitals(100)); len(alerts) > 0 {
		t.Fatalf("first load raised %v, want nothing", alerts)
	}
	var got []string
	for _, a := range load(pages, "web", cart, vitals(400)) {
		got = append(got, strings.TrimPrefix(a.DedupKey, "regression:web:/cart:"))
	}
	want := []string{"fcp_ms", "lcp_ms", "inp_ms", "ttfb_ms", "load_ms", "cls"}
	if !slices.Equal(got, want) {
		t.Errorf("regressed metrics = %v, want %v", got, want)
	}
	var baselines []regression.Baseline
	for _, metric := range want {
		median := 250.0
		if metric == "cls" {
			median = 0.25
		}
		baselines = append(baselines, regression.Baseline{Page: "/cart", Metric: metric, Median: median, Loads: 2})
	}
	if diff := cmp.Diff(baselines, pages.Baselines()); diff != "" {
		t.Errorf("baselines (-want +got):\n%s", diff)
	}
}

func TestPagesAreApartAndBounded(t *testing.T) {
	pages := regression.New()
	pages.Load("web", "/a", lcp(100), noon)
	if alerts := load(pages, "web", "/b", lcp(500)); len(alerts) > 0 {
		t.Errorf("first load of /b raised %v, want nothing: it must not be compared with /a", alerts)
	}
	for i := range regression.MaxPages {
		pages.Load("web", fmt.Sprintf("/page%d", i), lcp(100), noon)
	}
	if pages.Len() != regression.MaxPages || pages.Evicted() != 2 {
		t.Errorf("%d pages, %d evicted, want %d and 2", pages.Len(), pages.Evicted(), regression.MaxPages)
	}
	if alerts := load(pages, "web", "/b", lcp(5000)); len(alerts) > 0 {
		t.Errorf("load of an evicted page raised %v, want nothing", alerts)
	}
}

// TestAgainstModel compares the rule with a plain version in floating point, on values
// for which that is exact.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := regression.New()
		var history []float64
		for range rapid.IntRange(1, 50).Draw(t, "loads") {
			v := float64(rapid.IntRange(1, 60).Draw(t, "value") * 16)
			got := len(load(pages, "web", cart, lcp(v))) > 0
			if want := modelOver(history, v); got != want {
				t.Fatalf("load %v after %v raises an alert: %v, want %v", v, history, got, want)
			}
			history = append(history, v)
			history = history[max(0, len(history)-20):]
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				pages = restored(t, pages)
			}
		}
	})
}

func modelOver(history []float64, v float64) bool {
	if len(history) == 0 {
		return false
	}
	m := median(history)
	if v*10 <= m*12 || v-m < 50 {
		return false
	}
	var deviations []float64
	for _, h := range history {
		deviations = append(deviations, math.Abs(h-m))
	}
	return len(history) < 5 || v > m+3*median(deviations)
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

type fataler interface{ Fatal(...any) }

func restored(t fataler, pages *regression.Pages) *regression.Pages {
	again := regression.New()
	snapshottest.Copy(t, pages, again)
	if again.Size() != pages.Size() || again.Len() != pages.Len() {
		t.Fatal("restored: size", again.Size(), "and", again.Len(), "pages; want", pages.Size(), "and", pages.Len())
	}
	return again
}

func TestRestoreKeepsTheOrderOfUse(t *testing.T) {
	pages := regression.New()
	for i := range regression.MaxPages {
		pages.Load("web", fmt.Sprintf("/page%d", i), lcp(100), noon)
	}
	pages.Load("web", "/page0", cls(0.1), noon)
	pages = restored(t, pages)
	pages.Load("web", "/new", lcp(100), noon)
	if alerts := load(pages, "web", "/page0", lcp(900)); len(alerts) != 1 {
		t.Errorf("the page used last raised %v, want an alert: it must not be evicted", alerts)
	}
	if alerts := load(pages, "web", "/page1", lcp(900)); len(alerts) != 0 {
		t.Errorf("the page used least recently raised %v, want nothing: it must be evicted", alerts)
	}
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	pages := regression.New()
	i := 0
	for b.Loop() {
		v := 1000 + float64(i%97)
		c := 0.1
		pages.Load("web", cart, &telemetry.Vitals{FCP: &v, LCP: &v, INP: &v, TTFB: &v, CLS: &c}, noon)
		i++
	}
}

func TestBaselinesOfOnePage(t *testing.T) {
	pages := regression.New()
	for i, v := range []float64{100, 300} {
		load(pages, "web", "/cart", lcp(v))
		load(pages, "web", []string{"/a", "/b"}[i], cls(v/1000))
	}
	load(pages, "web", "/cart", cls(0.25))
	got := pages.BaselinesOf("/cart")
	want := []regression.Baseline{{Page: "/cart", Metric: "lcp_ms", Median: 200, Loads: 2}, {Page: "/cart", Metric: "cls", Median: 0.25, Loads: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("baselines of /cart (-want +got):\n%s", diff)
	}
	if got := pages.BaselinesOf("/nowhere"); got != nil {
		t.Errorf("baselines of an unknown page = %+v, want nil", got)
	}
	if diff := cmp.Diff([]string{"/cart", "/b", "/a"}, pages.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
