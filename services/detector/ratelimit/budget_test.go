package ratelimit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/ratelimit"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// offer publishes n alerts of an app with different keys, or suppresses them, and returns how
// many were published.
func offer(b *ratelimit.Budget, app string, n, ms int) (published int) {
	for i := range n {
		if b.TryPay(app, at(ms)) {
			published++
			continue
		}
		b.Suppress(app, fmt.Appendf(nil, "%s%d/%d", app, ms, i), alert.Errors, alert.Error, func() string { return "e" }, at(ms))
	}
	return published
}

// TestPay checks that of one app 50 are published at once, and 5 more each second.
func TestPay(t *testing.T) {
	b := ratelimit.NewBudget()
	for i, s := range []struct {
		app         string
		ms, n, want int
	}{
		{"a", 0, 60, 50},
		{"a", 0, 10, 0},
		{"a", 199, 1, 0},
		{"a", 200, 2, 1},
		{"b", 200, 60, 50}, // another app
		{"a", 1200, 10, 5},
		{"a", 11_200, 60, 50},
		{"a", 3_600_000, 60, 50},
		{"a", 3_500_000, 1, 0}, // the clock was set back
		{"a", 3_500_200, 2, 1},
	} {
		if got := offer(b, s.app, s.n, s.ms); got != s.want {
			t.Errorf("step %d: %d alerts of %s at %d ms: %d published, want %d", i, s.n, s.app, s.ms, got, s.want)
		}
		b = restoredBudget(t, b)
	}
}

// TestShares checks that all apps together publish 500 at once and 100 more each second, in
// even parts, and that there is room for another app.
func TestShares(t *testing.T) {
	for _, apps := range []int{2, 9, 20, 300, 450} {
		b := ratelimit.NewBudget()
		published, total := make([]int, apps), 0
		offerAll := func(ms int) {
			for i := range apps {
				n := offer(b, fmt.Sprint("app", i), 1, ms)
				published[i] += n
				total += n
			}
		}
		for range 60 {
			offerAll(0)
		}
		low, high := published[0], published[0]
		for _, n := range published {
			low, high = min(low, n), max(high, n)
		}
		if even := min(50, 500/(apps+1)); high > low+1 || low < even-1 || low == 0 {
			t.Errorf("%d apps: %d to %d alerts of each published at once, want about %d", apps, low, high, even)
		}
		if got := offer(b, "next", 1, 0); got != 1 {
			t.Errorf("%d apps in a storm: %d first alerts of another app published, want 1", apps, got)
		}
		for ms := 0; ms <= 30_000; ms += 100 {
			offerAll(ms)
			if most := 500 + ms/10; total > most {
				t.Fatalf("%d apps: %d alerts published within %d ms, want at most %d", apps, total, ms, most)
			}
		}
		low, high = published[0], published[0]
		for _, n := range published {
			low, high = min(low, n), max(high, n)
		}
		if high-low > 2 {
			t.Errorf("%d apps: %d to %d alerts of each published in 30 s, want even parts", apps, low, high)
		}
		if least := min(3000, apps*5*30) * 9 / 10; total < least {
			t.Errorf("%d apps: %d alerts published in 30 s, want %d at least", apps, total, least)
		}
		for i := range 10 {
			for ms := range 20 {
				offerAll(30_000 + 2000*i + 100*ms)
			}
			if got := offer(b, "calm", 1, 32_000+2000*i); got != 1 && apps <= 300 {
				t.Errorf("%d apps in a storm: %d of alert %d of another app published, want 1", apps, got, i)
			}
		}
	}
}

// TestSummary checks that different alerts are counted by category, and that up to five are
// named.
func TestSummary(t *testing.T) {
	b := ratelimit.NewBudget()
	suppress := func(key string, c alert.Category, s alert.Severity, ms int) {
		b.Suppress("web", []byte(key), c, s, func() string { return "title " + key }, at(ms))
		b = restoredBudget(t, b)
	}
	checkSuppressed := func(when string, want bool) {
		t.Helper()
		if got := b.HasSuppressed("web"); got != want {
			t.Errorf("%s: HasSuppressed = %v, want %v", when, got, want)
		}
		if got := b.AnySuppressed(); got != want {
			t.Errorf("%s: AnySuppressed = %v, want %v", when, got, want)
		}
	}
	checkDue := func(when string, ms int, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, b.DueSummaries(at(ms))); diff != "" {
			t.Errorf("%s: DueSummaries (-want +got):\n%s", when, diff)
		}
	}
	checkSuppressed("before the first alert", false)
	suppress("a", alert.Security, alert.Warning, 0)
	for i := range 7 {
		suppress(fmt.Sprint(i), alert.NetworkErrors, alert.Warning, i)
	}
	suppress("b", alert.Errors, alert.Error, 8)
	suppress("a", alert.Security, alert.Warning, 9)
	checkDue("after 9.999 s", 9_999)
	checkSuppressed("after 9.999 s", true)
	checkDue("after 10 s", 10_000, "web")
	want := ratelimit.Summary{
		Total: 10, Severity: alert.Error,
		Storm: alert.Storm{
			Categories: map[alert.Category]int{alert.Security: 1, alert.NetworkErrors: 7, alert.Errors: 1},
			Examples:   []string{"title a", "title 0", "title 1", "title 2", "title 3"},
		},
	}
	if diff := cmp.Diff(want, b.TakeSummary("web")); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	checkSuppressed("after the summary was taken", false)
	suppress("c", alert.UserFrustration, alert.Warning, 20_000)
	want = ratelimit.Summary{
		Total: 1, Severity: alert.Warning,
		Storm: alert.Storm{Categories: map[alert.Category]int{alert.UserFrustration: 1}, Examples: []string{"title c"}},
	}
	if diff := cmp.Diff(want, b.TakeSummary("web")); diff != "" {
		t.Errorf("the next summary (-want +got):\n%s", diff)
	}
	suppress("d", alert.Kubernetes, alert.Warning, 60_000)
	checkDue("after the clock was set back", 10_000)
	checkDue("10 s after the clock was set back", 20_000, "web")
}

func TestIsLimited(t *testing.T) {
	var limited []string
	for _, c := range alert.Categories() {
		if ratelimit.IsLimited(c) {
			limited = append(limited, string(c))
		}
	}
	if got, want := strings.Join(limited, " "), "errors network_errors security user_frustration kubernetes"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestBudgetIsBounded checks that the alerts that are forgotten with an app are counted, and
// that its part of the shared bucket drains like the others.
func TestBudgetIsBounded(t *testing.T) {
	b := ratelimit.NewBudget()
	offer(b, "first", 53, 0)
	published := 0
	for i := range 2 * ratelimit.MaxApps {
		published += offer(b, fmt.Sprint(i), 1, 0)
	}
	if b.Lost() != 3+550 { // those of the first app, and of evicted apps whose alerts came when the bucket was full
		t.Errorf("%d alerts lost, want 553", b.Lost())
	}
	if published != 450 {
		t.Errorf("%d alerts of many apps published after 50 of the first, want 450", published)
	}
	b = restoredBudget(t, b)
	if got := offer(b, "late", 60, 5_000); got != 50 {
		t.Errorf("%d alerts published once all have drained, want 50", got)
	}
}

// TestBudgetProperties checks that the published alerts, those in summaries and those still
// suppressed add up. It also checks the limits of each app and of all apps, that a single app
// is not limited by the shared bucket, and that restarts change nothing.
func TestBudgetProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := ratelimit.NewBudget()
		now, begin := 0, 0
		apps := rapid.IntRange(1, 40).Draw(t, "apps")
		published, offered, summarized, waiting := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
		all := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.SampledFrom([]int{0, 0, 1, 7, 50, 900, 9_999, 10_000}).Draw(t, "gap")
			app := fmt.Sprint(rapid.IntRange(0, apps-1).Draw(t, "app"))
			n := rapid.SampledFrom([]int{1, 1, 20, 80}).Draw(t, "alerts")
			got := offer(b, app, n, now)
			offered[app] += n
			published[app] += got
			waiting[app] += n - got
			all += got
			if most := 50 + (now-begin)/200; published[app] > most {
				t.Fatalf("%d alerts of %s published within %d ms, want at most %d", published[app], app, now-begin, most)
			}
			if most := 500 + (now-begin)/10; all > most {
				t.Fatalf("%d alerts published within %d ms, want at most %d", all, now-begin, most)
			}
			if apps == 1 && waiting[app] > 0 && got == 0 && now-begin > 0 && published[app] < 50 {
				t.Fatalf("an alert of the only app was suppressed after %d, want 50 published before", published[app])
			}
			if got, want := b.HasSuppressed(app), waiting[app] > 0; got != want {
				t.Fatalf("HasSuppressed(%s) = %v, want %v", app, got, want)
			}
			if waiting[app] > 0 && rapid.Bool().Draw(t, "summary") {
				s := b.TakeSummary(app)
				summarized[app] += s.Total
				waiting[app] = 0
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				b = restoredBudget(t, b)
			}
		}
		for app, n := range offered {
			if b.HasSuppressed(app) {
				if s := b.TakeSummary(app); s.Total != waiting[app] {
					t.Fatalf("%s: %d alerts in the summary, want %d", app, s.Total, waiting[app])
				}
			}
			if published[app]+summarized[app]+waiting[app] != n {
				t.Fatalf("%s: %d published, %d in summaries and %d suppressed, want %d together", app, published[app], summarized[app], waiting[app], n)
			}
		}
	})
}

func restoredBudget(t fataler, b *ratelimit.Budget) *ratelimit.Budget {
	again := ratelimit.NewBudget()
	snapshottest.Copy(t, b, again)
	return again
}

// FuzzRestoreBudget checks that a damaged snapshot is refused or usable.
func FuzzRestoreBudget(f *testing.F) {
	b := ratelimit.NewBudget()
	offer(b, "a", 53, 0)
	offer(b, "b", 1, 10)
	f.Add(snapshottest.Write(b))
	f.Fuzz(func(t *testing.T, data []byte) {
		b := ratelimit.NewBudget()
		if snapshot.Read(data, b.State) != nil {
			return
		}
		offer(b, "a", 10, 1000)
		for _, app := range b.DueSummaries(at(100_000)) {
			if s := b.TakeSummary(app); s.Total < 1 || s.Severity.Rank() == 0 {
				t.Errorf("%s: summary = %+v, want a total and a severity", app, s)
			}
		}
	})
}

// BenchmarkPay measures an alert while 300 apps are in a storm.
func BenchmarkPay(b *testing.B) {
	budget := ratelimit.NewBudget()
	var names [300]string
	for i := range names {
		names[i] = fmt.Sprint("app", i)
	}
	b.ReportAllocs()
	key := []byte("GET:/e123:500")
	title := func() string { return "Server error" }
	n := 0
	now := time.UnixMilli(1_770_000_000_000)
	for b.Loop() {
		app := names[n%len(names)]
		if n++; n%10 == 0 {
			now = now.Add(time.Millisecond)
		}
		if !budget.TryPay(app, now) {
			budget.Suppress(app, key, alert.NetworkErrors, alert.Error, title, now)
		}
	}
}
