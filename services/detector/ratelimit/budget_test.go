package ratelimit_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/ratelimit"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// offer lets n alerts of an app leave, or holds them back under keys of their own,
// and returns how many left.
func offer(b *ratelimit.Budget, app string, n, ms int) (left int) {
	for i := range n {
		if b.TryPay(app, at(ms)) {
			left++
			continue
		}
		b.Suppress(app, fmt.Appendf(nil, "%s%d/%d", app, ms, i), alert.Errors, alert.Error, func() string { return "e" }, at(ms))
	}
	return left
}

// TestPay: of one app 50 leave at once, and 5 more each second.
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
			t.Errorf("step %d: %d alerts of %s at %d ms: %d left, want %d", i, s.n, s.app, s.ms, got, s.want)
		}
		b = restoredBudget(t, b)
	}
}

// TestShares: all apps together have 500 at once and 100 more each second, in even
// parts, and there is room for an app that comes next.
func TestShares(t *testing.T) {
	for _, apps := range []int{2, 9, 20, 300, 450} {
		b := ratelimit.NewBudget()
		left, total := make([]int, apps), 0
		offerAll := func(ms int) {
			for i := range apps {
				n := offer(b, fmt.Sprint("app", i), 1, ms)
				left[i] += n
				total += n
			}
		}
		for range 60 {
			offerAll(0)
		}
		low, high := left[0], left[0]
		for _, n := range left {
			low, high = min(low, n), max(high, n)
		}
		if even := min(50, 500/(apps+1)); high > low+1 || low < even-1 || low == 0 {
			t.Errorf("%d apps: %d to %d alerts of each left at once, want about %d", apps, low, high, even)
		}
		if got := offer(b, "next", 1, 0); got != 1 {
			t.Errorf("%d apps in a storm leave no room for the first alert of another one", apps)
		}
		for ms := 0; ms <= 30_000; ms += 100 {
			offerAll(ms)
			if most := 500 + ms/10; total > most {
				t.Fatalf("%d apps: %d alerts left within %d ms, want at most %d", apps, total, ms, most)
			}
		}
		low, high = left[0], left[0]
		for _, n := range left {
			low, high = min(low, n), max(high, n)
		}
		if high-low > 2 {
			t.Errorf("%d apps: %d to %d alerts of each left in 30 s, want even parts", apps, low, high)
		}
		if least := min(3000, apps*5*30) * 9 / 10; total < least {
			t.Errorf("%d apps: %d alerts left in 30 s, want %d at least", apps, total, least)
		}
		for i := range 10 {
			for ms := range 20 {
				offerAll(30_000 + 2000*i + 100*ms)
			}
			if got := offer(b, "calm", 1, 32_000+2000*i); got != 1 && apps <= 300 {
				t.Errorf("%d apps in a storm leave no room for alert %d of another one", apps, i)
			}
		}
	}
}

// TestSummary: different alerts are counted by category, and named up to five.
func TestSummary(t *testing.T) {
	b := ratelimit.NewBudget()
	hold := func(key string, c alert.Category, s alert.Severity, ms int) {
		b.Suppress("web", []byte(key), c, s, func() string { return "title " + key }, at(ms))
		b = restoredBudget(t, b)
	}
	if b.HasSuppressed("web") || b.AnySuppressed() {
		t.Error("something is suppressed before the first alert")
	}
	hold("a", alert.Security, alert.Warning, 0)
	for i := range 7 {
		hold(fmt.Sprint(i), alert.NetworkErrors, alert.Warning, i)
	}
	hold("b", alert.Errors, alert.Error, 8)
	hold("a", alert.Security, alert.Warning, 9)
	if due := b.DueSummaries(at(9_999)); len(due) > 0 || !b.AnySuppressed() {
		t.Errorf("due after 9.999 s: %q; waits: %v", due, b.AnySuppressed())
	}
	if due := b.DueSummaries(at(10_000)); !reflect.DeepEqual(due, []string{"web"}) {
		t.Errorf("due after 10 s: %q", due)
	}
	want := ratelimit.Summary{
		Total: 10, Severity: alert.Error,
		Storm: alert.Storm{
			Categories: map[alert.Category]int{alert.Security: 1, alert.NetworkErrors: 7, alert.Errors: 1},
			Examples:   []string{"title a", "title 0", "title 1", "title 2", "title 3"},
		},
	}
	if got := b.TakeSummary("web"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if b.HasSuppressed("web") || b.AnySuppressed() {
		t.Error("something is suppressed after it was taken")
	}
	hold("c", alert.UserFrustration, alert.Warning, 20_000)
	if got := b.TakeSummary("web"); got.Total != 1 || got.Severity != alert.Warning || got.Categories[alert.UserFrustration] != 1 {
		t.Errorf("the next one has %+v", got)
	}
	hold("d", alert.Kubernetes, alert.Warning, 60_000)
	if due := b.DueSummaries(at(10_000)); len(due) > 0 {
		t.Errorf("due after the clock was set back: %q", due)
	}
	if due := b.DueSummaries(at(20_000)); len(due) != 1 {
		t.Errorf("due 10 s after the clock was set back: %q", due)
	}
}

func TestCounts(t *testing.T) {
	var counted []string
	for _, c := range alert.Categories() {
		if ratelimit.IsLimited(c) {
			counted = append(counted, string(c))
		}
	}
	if got, want := strings.Join(counted, " "), "errors network_errors security user_frustration kubernetes"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestBudgetIsBounded: what is forgotten with an app is counted, and its part of the
// shared bucket drains like every other.
func TestBudgetIsBounded(t *testing.T) {
	b := ratelimit.NewBudget()
	offer(b, "first", 53, 0)
	left := 0
	for i := range 2 * ratelimit.MaxApps {
		left += offer(b, fmt.Sprint(i), 1, 0)
	}
	if b.Lost() != 3+550 { // of the first app, and of the other apps among the 1,001 evicted ones that came too late
		t.Errorf("%d alerts lost, want 553", b.Lost())
	}
	if left != 450 {
		t.Errorf("%d alerts of many apps left after 50 of the first, want 450", left)
	}
	b = restoredBudget(t, b)
	if got := offer(b, "late", 60, 5_000); got != 50 {
		t.Errorf("%d alerts left once all have drained, want 50", got)
	}
}

// However alerts come: what left, what summaries counted and what is still suppressed
// is all there was; no app has more than 50 and 5 a second, all have no more than 500
// and 100 a second, an app alone is not held up, and a restart changes nothing.
func TestBudgetProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := ratelimit.NewBudget()
		now, begin := 0, 0
		apps := rapid.IntRange(1, 40).Draw(t, "apps")
		left, offered, reported, held := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
		all := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.SampledFrom([]int{0, 0, 1, 7, 50, 900, 9_999, 10_000}).Draw(t, "gap")
			app := fmt.Sprint(rapid.IntRange(0, apps-1).Draw(t, "app"))
			n := rapid.SampledFrom([]int{1, 1, 20, 80}).Draw(t, "alerts")
			got := offer(b, app, n, now)
			offered[app] += n
			left[app] += got
			held[app] += n - got
			all += got
			if most := 50 + (now-begin)/200; left[app] > most {
				t.Fatalf("%d alerts of %s left within %d ms, want at most %d", left[app], app, now-begin, most)
			}
			if most := 500 + (now-begin)/10; all > most {
				t.Fatalf("%d alerts left within %d ms, want at most %d", all, now-begin, most)
			}
			if apps == 1 && held[app] > 0 && got == 0 && now-begin > 0 && left[app] < 50 {
				t.Fatalf("alone, %d alerts left, and one is suppressed", left[app])
			}
			if b.HasSuppressed(app) != (held[app] > 0) {
				t.Fatalf("%s: holds %v, want %d alerts", app, b.HasSuppressed(app), held[app])
			}
			if held[app] > 0 && rapid.Bool().Draw(t, "summary") {
				s := b.TakeSummary(app)
				reported[app] += s.Total
				held[app] = 0
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				b = restoredBudget(t, b)
			}
		}
		for app, n := range offered {
			if b.HasSuppressed(app) {
				if s := b.TakeSummary(app); s.Total != held[app] {
					t.Fatalf("%s: %d alerts suppressed, want %d", app, s.Total, held[app])
				}
			}
			if left[app]+reported[app]+held[app] != n {
				t.Fatalf("%s: %d left, %d in summaries and %d suppressed of %d", app, left[app], reported[app], held[app], n)
			}
		}
	})
}

func restoredBudget(t fataler, b *ratelimit.Budget) *ratelimit.Budget {
	again := ratelimit.NewBudget()
	snapshottest.Copy(t, b, again)
	return again
}

// FuzzRestoreBudget: whatever a damaged snapshot holds, it is refused or usable.
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
				t.Errorf("%s: %+v", app, s)
			}
		}
	})
}

// BenchmarkPay is what an alert costs while 300 apps are in a storm.
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
