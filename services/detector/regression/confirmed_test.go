package regression_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// visits plays page loads and gives the alerts ids: the number of the load.
type visits struct {
	t     *testing.T
	rule  *regression.Confirmed
	now   time.Time
	n     int
	all   []alert.Alert
	again []bool
}

// play plays loads of /cart: 12*100 are 12 loads of 100; the alerts of those in brackets
// are suppressed. Loads are numbered from the bar on. After each load the state is written
// and read back.
func (v *visits) play(loads string, vitals func(float64) *telemetry.Vitals) {
	v.t.Helper()
	for word := range strings.FieldsSeq(loads) {
		if word == "|" {
			v.n, v.all, v.again = 0, nil, nil
			continue
		}
		text, suppressed := strings.Trim(word, "()"), strings.HasPrefix(word, "(")
		many := 1
		if before, after, ok := strings.Cut(text, "*"); ok {
			var err error
			if many, err = strconv.Atoi(before); err != nil {
				v.t.Fatal(err)
			}
			text = after
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			v.t.Fatal(err)
		}
		for range many {
			v.n++
			v.now = v.now.Add(20 * time.Second)
			for _, f := range v.rule.Load("web", cart, vitals(value), v.now) {
				if suppressed {
					continue
				}
				id := strconv.Itoa(v.n)
				f.MarkPublished(id)
				f.Alert.ID = id
				v.all = append(v.all, f.Alert)
				v.again = append(v.again, f.Again)
			}
			v.rule = confirmedAgain(v.t, v.rule)
		}
	}
}

// report formats the published alerts, one a line.
func (v *visits) report() string {
	var lines []string
	for i, a := range v.all {
		line := fmt.Sprintf("%s %s %s: %s", a.ID, a.Severity, a.Context["confidence"], a.Title)
		if a.Resolves != "" {
			line += " <" + strings.Join(append([]string{a.Resolves}, a.AlsoResolves...), " ") + ">"
		}
		if v.again[i] {
			line += " again"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func confirmedAgain(t fataler, c *regression.Confirmed) *regression.Confirmed {
	again := regression.NewConfirmed()
	snapshottest.Copy(t, c, again)
	if again.Size() != c.Size() || again.Len() != c.Len() {
		t.Fatal("restored: size", again.Size(), "and", again.Len(), "pages; want", c.Size(), "and", c.Len())
	}
	return again
}

// TestConfirmed plays loads of a page. want has for each alert the number of the load,
// severity, confidence and title, in angle brackets the alerts that it resolves, and "again"
// if it repeats a suppressed alert.
func TestConfirmed(t *testing.T) {
	for _, tt := range []struct{ name, loads, want string }{
		{"nothing", "25*1000 | 25*1000", ""},
		{
			"single, then withdrawn", "25*1000 | 3000 1000 1000 1000",
			"1 warning single: LCP regressed 200% on /cart (one load)\n" +
				"3 info single: Withdrawn: LCP regressed on /cart <1>",
		},
		{
			"single, probable, confirmed, new level", "25*1000 | 20*3000",
			"1 warning single: LCP regressed 200% on /cart (one load)\n" +
				"3 error probable: LCP regressed 200% on /cart\n" +
				"5 error confirmed: LCP regressed 200% on /cart\n" +
				"20 info confirmed: New level: LCP on /cart <5>",
		},
		{
			"confirmed, then recovery", "25*1000 | 6*1300 10*1000",
			"3 warning probable: LCP regressed 30% on /cart\n" +
				"5 warning confirmed: LCP regressed 30% on /cart\n" +
				"9 info confirmed: Resolved: LCP regressed on /cart <5>",
		},
		{
			"a slow page, a recovery, and slow again: the slow loads are in no baseline", "25*1000 | 6*1300 5*1000 5*1300",
			"3 warning probable: LCP regressed 30% on /cart\n" +
				"5 warning confirmed: LCP regressed 30% on /cart\n" +
				"9 info confirmed: Resolved: LCP regressed on /cart <5>\n" +
				"14 warning probable: LCP regressed 30% on /cart\n" +
				"16 warning confirmed: LCP regressed 30% on /cart",
		},
		{
			"a new level is a baseline", "25*1000 | 20*1300 20*1500 20*2000",
			"3 warning probable: LCP regressed 30% on /cart\n" +
				"5 warning confirmed: LCP regressed 30% on /cart\n" +
				"20 info confirmed: New level: LCP on /cart <5>\n" +
				"43 warning probable: LCP regressed 33% on /cart\n" +
				"45 warning confirmed: LCP regressed 33% on /cart\n" +
				"60 info confirmed: New level: LCP on /cart <45>",
		},
		{"faster is no news", "25*1000 | 20*500", ""},
		{
			"and a baseline: what was usual before is a regression", "25*1000 | 5*500 20*1000",
			"10 error confirmed: LCP regressed 100% on /cart\n" +
				"25 info confirmed: New level: LCP on /cart <10>",
		},
		{
			"what was suppressed is reported with the next load", "25*1000 | 2*1300 (1300) 1300 1300 5*1000",
			"4 warning probable: LCP regressed 30% on /cart again\n" +
				"5 warning confirmed: LCP regressed 30% on /cart\n" +
				"8 info confirmed: Resolved: LCP regressed on /cart <5>",
		},
		{
			"a step that is suppressed leaves open what was reported", "25*1000 | 4*1300 (3*1300) 5*1000",
			"3 warning probable: LCP regressed 30% on /cart\n" +
				"8 warning confirmed: LCP regressed 30% on /cart again\n" +
				"10 info confirmed: Resolved: LCP regressed on /cart <8>",
		},
		{
			"also when it is over before that is reported", "25*1000 | 4*1300 (3*1300) (1000) (1000) 5*1000",
			"3 warning probable: LCP regressed 30% on /cart\n" +
				"10 info confirmed: Resolved: LCP regressed on /cart <3>",
		},
		{"what was not published has no end", "25*1000 | (3000) (1000) 1000 1000", ""},
		{
			"an end that is suppressed is the next load's", "25*1000 | 3000 1000 (1000) 1000 1000",
			"1 warning single: LCP regressed 200% on /cart (one load)\n" +
				"4 info single: Withdrawn: LCP regressed on /cart <1> again",
		},
		{
			"unless something else is found by then", "25*1000 | 3000 1000 (1000) 9000 9000 9000 5*1000",
			"1 warning single: LCP regressed 200% on /cart (one load)\n" +
				"4 warning single: LCP regressed 800% on /cart (one load)\n" +
				"6 error probable: LCP regressed 800% on /cart\n" +
				"8 info probable: Withdrawn: LCP regressed on /cart <6>",
		},
		{"a new level of a regression that was not published", "25*1000 | (20*1300) 10*1300", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := visits{t: t, rule: regression.NewConfirmed(), now: noon}
			v.play(tt.loads, lcp)
			if got := v.report(); got != tt.want {
				t.Errorf("%s\ngot\n%s\nwant\n%s", tt.loads, got, tt.want)
			}
		})
	}
}

// TestConfirmedAlerts checks all fields of an alert of each kind.
func TestConfirmedAlerts(t *testing.T) {
	on := func(device telemetry.Device) func(float64) *telemetry.Vitals {
		return func(v float64) *telemetry.Vitals { return &telemetry.Vitals{LCP: &v, Device: device} }
	}
	for _, tt := range []struct {
		name, loads   string
		vitals        func(float64) *telemetry.Vitals
		title, detail string
		key           string
		context       map[string]any
	}{
		{
			"single", "25*1000 | 3000.04", lcp, "LCP regressed 200% on /cart (one load)",
			"LCP 3000 ms in one load, baseline 1000 ms (20 loads)", "regression:web:/cart:lcp_ms",
			map[string]any{"metric": "lcp_ms", "page": "/cart", "value": 3000.04, "baseline": 1000.0, "loads": 20, "median_of": 1, "confidence": "single"},
		},
		{
			"probable", "25*1000 | 1290 1300 1310", lcp, "LCP regressed 30% on /cart",
			"LCP 1300 ms (median of 3 loads), baseline 1000 ms (20 loads)", "regression:web:/cart:lcp_ms",
			map[string]any{"metric": "lcp_ms", "page": "/cart", "value": 1300.0, "baseline": 1000.0, "loads": 20, "median_of": 3, "confidence": "probable"},
		},
		{
			"confirmed", "25*1000 | 5*1210.5", on("tablet"), "LCP regressed 21% on /cart (tablet)",
			"LCP 1210.5 ms (median of 5 loads), baseline 1000 ms (20 loads); p = 3.8e-05", "regression:web:/cart:lcp_ms:tablet",
			map[string]any{
				"metric": "lcp_ms", "page": "/cart", "value": 1210.5, "baseline": 1000.0, "loads": 20, "median_of": 5, "confidence": "confirmed",
				"device": "tablet", "p": 2.0 / 53130,
			},
		},
		{
			"single on a device", "25*1000 | 3000", on("mobile"), "LCP regressed 200% on /cart (mobile, one load)",
			"LCP 3000 ms in one load, baseline 1000 ms (20 loads)", "regression:web:/cart:lcp_ms:mobile",
			map[string]any{
				"metric": "lcp_ms", "page": "/cart", "value": 3000.0, "baseline": 1000.0, "loads": 20, "median_of": 1, "confidence": "single", "device": "mobile",
			},
		},
		{
			"withdrawn", "25*1000 | 3000 1000 1100", on("mobile"), "Withdrawn: LCP regressed on /cart (mobile)",
			"the loads that followed do not confirm it: LCP 1050 ms (median of 2 loads), baseline 1000 ms (20 loads)", "regression:web:/cart:lcp_ms:mobile",
			map[string]any{
				"metric": "lcp_ms", "page": "/cart", "value": 1050.0, "baseline": 1000.0, "loads": 20, "median_of": 2, "confidence": "single", "device": "mobile",
				"outcome": "withdrawn",
			},
		},
		{
			"recovered", "25*1000 | 5*1300 1000 1001 1002", lcp, "Resolved: LCP regressed on /cart",
			"LCP 1002 ms (median of 5 loads), baseline 1000 ms (20 loads)", "regression:web:/cart:lcp_ms",
			map[string]any{
				"metric": "lcp_ms", "page": "/cart", "value": 1002.0, "baseline": 1000.0, "loads": 20, "median_of": 5, "confidence": "confirmed", "outcome": "recovered",
			},
		},
		{
			"a new level", "25*1000 | 5*1300 15*1350", on("desktop"), "New level: LCP on /cart (desktop)",
			"LCP 1350 ms (median of 5 loads), before 1000 ms (20 loads)", "regression:web:/cart:lcp_ms:desktop",
			map[string]any{
				"metric": "lcp_ms", "page": "/cart", "value": 1350.0, "baseline": 1000.0, "loads": 20, "median_of": 5, "confidence": "confirmed",
				"device": "desktop", "outcome": "new_level",
			},
		},
		{
			"CLS", "25*0.05 | 3*0.2", cls, "CLS regressed by 0.15 on /cart",
			"CLS 0.2 (median of 3 loads), baseline 0.05 (20 loads)", "regression:web:/cart:cls",
			map[string]any{"metric": "cls", "page": "/cart", "value": 0.2, "baseline": 0.05, "loads": 20, "median_of": 3, "confidence": "probable"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := visits{t: t, rule: regression.NewConfirmed(), now: noon}
			v.play(tt.loads, tt.vitals)
			if len(v.all) == 0 {
				t.Fatalf("no alerts, want %q", tt.title)
			}
			got := v.all[len(v.all)-1]
			want := alert.Alert{
				Title: tt.title, Detail: tt.detail, DedupKey: tt.key, Context: tt.context,
				Category: alert.Regression, Source: alert.SourcePerformance, URL: cart,
				ID: got.ID, Severity: got.Severity, Resolves: got.Resolves, AlsoResolves: got.AlsoResolves, // TestConfirmed checks them
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("last alert (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDevicesAreApart checks that loads are compared with those of the same class of
// devices only.
func TestDevicesAreApart(t *testing.T) {
	c := regression.NewConfirmed()
	reported := 0
	load := func(url string, v float64, device telemetry.Device) {
		reported += len(c.Load("web", url, &telemetry.Vitals{LCP: &v, Device: device}, noon))
	}
	for range 12 {
		load("/a", 1000, telemetry.DeviceDesktop)
		load("/a", 3000, telemetry.DeviceMobile)
		load("/b", 100, "")
	}
	load("/a", 2000, "")
	if reported > 0 {
		t.Errorf("%d findings, want none", reported)
	}
	want := []regression.Baseline{
		{Page: "/a", Metric: "lcp_ms", Median: 2000, Loads: 1},
		{Page: "/a", Metric: "lcp_ms", Device: telemetry.DeviceMobile, Median: 3000, Loads: 12},
		{Page: "/a", Metric: "lcp_ms", Device: telemetry.DeviceDesktop, Median: 1000, Loads: 12},
	}
	if diff := cmp.Diff(want, c.BaselinesOf("/a")); diff != "" {
		t.Errorf("baselines of /a (-want +got):\n%s", diff)
	}
	if got := c.BaselinesOf("/nowhere"); got != nil {
		t.Errorf("baselines of an unknown page = %+v, want nil", got)
	}
	if diff := cmp.Diff([]string{"/a", "/b"}, c.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := c.Baselines(); len(got) != 4 || got[3] != want[0] || c.Len() != 4 {
		t.Errorf("%d pages with baselines %+v, want 4 pages and 4 baselines, the last %+v", c.Len(), got, want[0])
	}
}

func TestConfirmedIsBounded(t *testing.T) {
	c := regression.NewConfirmed()
	for i := range regression.MaxPages + 2 {
		c.Load("web", fmt.Sprintf("/page-%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676), lcp(100), noon)
	}
	if c.Len() != regression.MaxPages || c.Evicted() != 2 {
		t.Errorf("%d pages, %d evicted, want %d and 2", c.Len(), c.Evicted(), regression.MaxPages)
	}
	wantOldest := func(evicted, kept string) {
		t.Helper()
		if got := c.BaselinesOf(evicted); got != nil {
			t.Errorf("baselines of %s = %+v, want it evicted", evicted, got)
		}
		if c.BaselinesOf(kept) == nil {
			t.Errorf("%s has no baselines, want it kept", kept)
		}
	}
	wantOldest("/page-baa", "/page-caa")
	c = confirmedAgain(t, c)
	c.Load("web", "/new", lcp(100), noon)
	wantOldest("/page-caa", "/page-daa")
}

// TestConfirmedIsConsistent checks, on any loads whose alerts are suppressed or not, that a
// restart makes no difference, that every end resolves the open alert, and that nothing is
// reported again unless its confidence or its level is higher.
func TestConfirmedIsConsistent(t *testing.T) {
	rank := map[any]int{"single": 1, "probable": 2, "confirmed": 3}
	rapid.Check(t, func(t *rapid.T) {
		one, other := regression.NewConfirmed(), regression.NewConfirmed()
		open, sure, values := map[string]string{}, map[string]int{}, map[string]float64{}
		usual := 1000.0
		for i := range rapid.IntRange(1, 150).Draw(t, "loads") {
			if rapid.IntRange(0, 12).Draw(t, "shift") == 0 {
				usual *= rapid.SampledFrom([]float64{0.5, 0.8, 1.3, 2, 4}).Draw(t, "by")
			}
			v := usual * rapid.SampledFrom([]float64{0.9, 1, 1, 1.1, 3}).Draw(t, "factor")
			c := v / 10000
			vitals := &telemetry.Vitals{LCP: &v, CLS: &c, Device: rapid.SampledFrom([]telemetry.Device{"", "", "mobile"}).Draw(t, "device")}
			suppressed := rapid.IntRange(0, 4).Draw(t, "suppressed") == 0
			if rapid.Bool().Draw(t, "restart") {
				other = confirmedAgain(t, other)
			}
			found, again := one.Load("web", cart, vitals, noon), other.Load("web", cart, vitals, noon)
			if len(found) != len(again) {
				t.Fatalf("%d findings after a restart, want %d", len(again), len(found))
			}
			for n, f := range found {
				a, id := f.Alert, fmt.Sprint(i, "-", n)
				if diff := cmp.Diff(a, again[n].Alert); diff != "" || f.Again != again[n].Again {
					t.Fatalf("again %v after a restart, want %v; alert (-want +got):\n%s", again[n].Again, f.Again, diff)
				}
				key, confidence := a.DedupKey, rank[a.Context["confidence"]]
				_, ended := a.Context["outcome"]
				worse := confidence == 3 && a.Context["value"].(float64) > values[key]
				switch {
				case confidence == 0:
					t.Fatalf("alert = %+v, want a confidence", a)
				case ended && (a.Resolves == "" || a.Resolves != open[key] || a.Severity != alert.Info):
					t.Fatalf("end = %+v, want severity info and that it resolves %q", a, open[key])
				case !ended && (a.Resolves != "" || confidence <= sure[key] && !worse):
					t.Fatalf("alert = %+v, want that it resolves nothing and has a higher confidence than %d or a higher value", a, sure[key])
				}
				if ended {
					delete(sure, key)
				}
				if suppressed {
					continue
				}
				f.MarkPublished(id)
				again[n].MarkPublished(id)
				if ended {
					delete(open, key)
				} else {
					open[key], sure[key], values[key] = id, confidence, a.Context["value"].(float64)
				}
			}
		}
	})
}

// FuzzRestoreConfirmed checks that loads continue from any state that is accepted.
func FuzzRestoreConfirmed(f *testing.F) {
	for _, loads := range []string{"", "25*1000", "25*1000 1*3000", "25*1000 1*3000 1*1000 (1*1000)", "25*1000 4*3000", "25*1000 9*3000 (2*3000)"} {
		c := regression.NewConfirmed()
		for word := range strings.FieldsSeq(loads) {
			var n int
			var ms float64
			if _, err := fmt.Sscanf(strings.Trim(word, "()"), "%d*%g", &n, &ms); err != nil {
				f.Fatal(err)
			}
			for range n {
				for _, found := range c.Load("web", cart, lcp(ms), noon) {
					if !strings.HasPrefix(word, "(") {
						found.MarkPublished("id")
					}
				}
			}
		}
		f.Add(snapshottest.Write(c))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := regression.NewConfirmed()
		if err := snapshot.Read(data, c.State); err != nil {
			if !errors.Is(err, snapshot.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		confirmedAgain(t, c)
		restored(t, c.Learned())
		for i := range 40 {
			for _, found := range c.Load("web", cart, lcp(float64(100*(i%9))), noon) {
				found.MarkPublished("id")
			}
		}
		c.Baselines()
		c.Names()
		confirmedAgain(t, c)
	})
}

// usualLoads returns loads of a page that raise no alert.
func usualLoads() []*telemetry.Vitals {
	all := make([]*telemetry.Vitals, 197)
	for i := range all {
		v, shift := 1000+float64(i*37%len(all)), 0.1
		all[i] = &telemetry.Vitals{FCP: &v, LCP: &v, INP: &v, TTFB: &v, CLS: &shift, Device: telemetry.DeviceMobile}
	}
	return all
}

func TestNothingFoundAllocatesNothing(t *testing.T) {
	c, loads, i := regression.NewConfirmed(), usualLoads(), 0
	load := func() {
		if found := c.Load("web", cart, loads[i%len(loads)], noon); len(found) > 0 {
			t.Fatalf("findings of a usual load = %+v, want none", found)
		}
		i++
	}
	load() // makes the page
	if n := testing.AllocsPerRun(1000, load); n > 0 {
		t.Errorf("%v allocations a load, want none", n)
	}
}

func BenchmarkLoadConfirmed(b *testing.B) {
	b.ReportAllocs()
	c, loads, i := regression.NewConfirmed(), usualLoads(), 0
	for b.Loop() {
		c.Load("web", cart, loads[i%len(loads)], noon)
		i++
	}
}
