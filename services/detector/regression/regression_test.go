package regression_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const cart = "http://localhost:3000/cart"

// noon is when loads come of which the time does not matter.
var noon = time.Date(2026, 1, 28, 12, 0, 0, 0, time.UTC)

func lcp(v float64) *telemetry.Vitals { return &telemetry.Vitals{LCP: &v} }
func cls(v float64) *telemetry.Vitals { return &telemetry.Vitals{CLS: &v} }

// load is what the alerts of a load say when none of them leaves.
func load(pages *regression.Pages, app, url string, vitals *telemetry.Vitals) (alerts []alert.Alert) {
	for _, f := range pages.Load(app, url, vitals, noon) {
		alerts = append(alerts, f.Alert)
	}
	return alerts
}

func times(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }

// Each row is a page's history and the load that follows.
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
				t.Fatalf("%d alerts", len(alerts))
			}
			a := alerts[0]
			if a.Title != tt.title || a.Detail != tt.detail || a.DedupKey != tt.dedup {
				t.Errorf("got %q\n%q\n%q", a.Title, a.Detail, a.DedupKey)
			}
			if a.Category != alert.Regression || a.Source != alert.SourcePerformance || a.URL != tt.url {
				t.Errorf("got %+v", a)
			}
		})
	}
}

// Each row is loads of one page in milliseconds; those in brackets raise an
// alert that is suppressed. want is which load each resolves the alert of, by its
// place.
func TestEnds(t *testing.T) {
	for _, tt := range []struct{ name, loads, want string }{
		{"the next load that is no regression", "1000 2000 1000", "- - 1"},
		{"once", "1000 2000 1000 1000", "- - 1 -"},
		{"the newest alert", "1000 2000 2000 1000", "- - - 2"},
		{"the baseline came up to it, which is no end", "1000 2000 2000 2000", "- - - -"},
		{"again", "1000 1000 2000 1000 2000 1000", "- - - 2 - 4"},
		{"what was suppressed is not known", "1000 (2000) 1000", "- - -"},
		{"an end that was suppressed is the next one's", "1000 2000 (1000) 1000 1000", "- - 1 1 -"},
		{"of which the newest that was reported", "1000 1000 2000 (2000) 1000", "- - - - 2"},
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
					resolves = cmp.Or(f.Alert.Resolves, resolves)
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

// What began with a load comes before what ended with it.
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
	if len(begin) != 1 || len(got) != 2 || got[0].Resolves != "" || got[0].Title != "LCP regressed 100% on /cart" {
		t.Fatalf("%+v", got)
	}
	end := got[1]
	if end.Title != "Resolved: FCP regressed on /cart" || end.Detail != "FCP 1000 ms, baseline 1000 ms (1 load)" || end.Resolves != "id0" ||
		end.Severity != alert.Info || end.DedupKey != begin[0].DedupKey || end.Category != alert.Regression ||
		end.Source != alert.SourcePerformance || end.URL != cart {
		t.Errorf("%+v", end)
	}
}

// What a title says is rounded down, so that no warning claims what would be an
// error, and nothing that is over by a whole percent says less.
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
			t.Errorf("%v after %v: %+v, want %s", tt.load, tt.history, alerts, tt.want)
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
		t.Fatalf("first load: %v", alerts)
	}
	var got []string
	for _, a := range load(pages, "web", cart, vitals(400)) {
		got = append(got, strings.TrimPrefix(a.DedupKey, "regression:web:/cart:"))
	}
	want := []string{"fcp_ms", "lcp_ms", "inp_ms", "ttfb_ms", "load_ms", "cls"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if b := pages.Baselines(); len(b) != 6 || b[0] != (regression.Baseline{Page: "/cart", Metric: "fcp_ms", Median: 250, Loads: 2}) ||
		b[5] != (regression.Baseline{Page: "/cart", Metric: "cls", Median: 0.25, Loads: 2}) {
		t.Errorf("baselines %+v", b)
	}
}

func TestPagesAreApartAndBounded(t *testing.T) {
	pages := regression.New()
	pages.Load("web", "/a", lcp(100), noon)
	if alerts := load(pages, "web", "/b", lcp(500)); len(alerts) > 0 {
		t.Error("a page was compared with another")
	}
	for i := range regression.MaxPages {
		pages.Load("web", fmt.Sprintf("/page%d", i), lcp(100), noon)
	}
	if pages.Len() != regression.MaxPages || pages.Evicted() != 2 {
		t.Errorf("%d pages, %d evicted", pages.Len(), pages.Evicted())
	}
	if alerts := load(pages, "web", "/b", lcp(5000)); len(alerts) > 0 {
		t.Error("a forgotten page still had a baseline")
	}
}

// The rule against itself written plainly in floating point, on values where
// that is exact.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pages := regression.New()
		var history []float64
		for range rapid.IntRange(1, 50).Draw(t, "loads") {
			v := float64(rapid.IntRange(1, 60).Draw(t, "value") * 16)
			got := len(load(pages, "web", cart, lcp(v))) > 0
			if want := modelOver(history, v); got != want {
				t.Fatalf("load %v after %v: got %v", v, history, got)
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
		t.Fatal("size", again.Size(), "was", pages.Size())
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
		t.Error("the page used last was forgotten")
	}
	if alerts := load(pages, "web", "/page1", lcp(900)); len(alerts) != 0 {
		t.Error("the page used least recently was kept")
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

func TestWhatIsUsualOnOnePage(t *testing.T) {
	pages := regression.New()
	for i, v := range []float64{100, 300} {
		load(pages, "web", "/cart", lcp(v))
		load(pages, "web", []string{"/a", "/b"}[i], cls(v/1000))
	}
	load(pages, "web", "/cart", cls(0.25))
	got := pages.BaselinesOf("/cart")
	want := []regression.Baseline{{Page: "/cart", Metric: "lcp_ms", Median: 200, Loads: 2}, {Page: "/cart", Metric: "cls", Median: 0.25, Loads: 1}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if got := pages.BaselinesOf("/nowhere"); got != nil {
		t.Errorf("%+v", got)
	}
	if got := pages.Names(); !slices.Equal(got, []string{"/cart", "/b", "/a"}) {
		t.Errorf("%v", got)
	}
}
