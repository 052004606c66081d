package alerts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// burst sends enough errors of an app at once to be a spike even in an unknown app.
func burst(t *testing.T, sys *e2etest.System, app string) {
	t.Helper()
	var all []map[string]any
	for range 80 {
		all = append(all, map[string]any{"kind": "log", "app": app, "log": map[string]any{"level": "error", "message": "boom"}})
	}
	sys.PostEvents(t, all...)
}

// ofCategory returns the alerts of a category.
func ofCategory(all []alert.Alert, category alert.Category) (some []alert.Alert) {
	for _, a := range all {
		if a.Category == category {
			some = append(some, a)
		}
	}
	return some
}

// TestRulesOfAYoungApp checks the default rules on a new app: 12 errors at once are a
// spike, the second load can be a regression, and both within 5 s are correlated.
// tocsin doctor names the rules.
func TestRulesOfAYoungApp(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	sys.PostVitals(t, "/cart", 2500)
	sys.PostVitals(t, "/cart", 3350)
	sys.PostLogs(t, "error", 12, func(int) string { return "boom" })
	sys.WaitReceived(t, 3) // regression, first error, spike
	got := map[alert.Category]string{}
	o := sys.Observe(t, nil)
	for _, a := range o.Alerts {
		got[a.Category] = a.Title
	}
	want := map[alert.Category]string{
		alert.Regression: "Correlated: LCP regressed 34% on /cart + Error spike in logs: more than 3x the rolling average",
		alert.Errors:     "New error: boom",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v\n%s", got, want, o.Block)
	}
	const rules = "rules: anomaly auto (ratio3x while an app is young, then rate-tail), regression auto (spec, then confirmed), noise auto (mined)"
	if _, stdout, stderr := e2etest.Tocsin(t, sys.Bus.StateDir, "doctor"); !strings.Contains(stdout, rules) {
		t.Errorf("doctor says %s%s, want %q in it", stdout, stderr, rules)
	}
}

// TestRuleFlags checks that a single flag overrides --rules, and an app's rule both.
func TestRuleFlags(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t, "--rules=statistical", "--anomaly=ratio3x", "--anomaly=shop=rate-tail")
	burst(t, sys, "web")
	burst(t, sys, "shop")
	spikes := map[string][]alert.Alert{}
	delivered := harness.Poll(t.Context(), 20*time.Second, func() bool {
		for _, a := range ofCategory(sys.Observe(t, nil).Alerts, alert.Anomaly) {
			spikes[a.App] = append(spikes[a.App], a)
		}
		return len(spikes["web"]) > 0 && len(spikes["shop"]) > 0
	})
	if !delivered || len(spikes["web"]) != 1 || len(spikes["shop"]) != 1 {
		t.Fatalf("got %+v, want 1 entry in spikes[\"web\"] and 1 entry in spikes[\"shop\"]\n%s", spikes, sys.Bus.Log)
	}
	if web := spikes["web"][0]; !strings.Contains(web.Title, "3x") || web.Context["rule"] == "rate-tail" {
		t.Errorf("spike of web = %+v, want one of the rule ratio3x", web)
	}
	if shop := spikes["shop"][0]; !strings.Contains(shop.Detail, "expected") || !strings.Contains(shop.Detail, "p = ") || shop.Context["rule"] != "rate-tail" {
		t.Errorf("spike of shop = %+v, want one of the rule rate-tail", shop)
	}
}

// TestRemovedRuleFlags checks that "both" and tail --shadow are accepted with a warning
// that names the setting.
func TestRemovedRuleFlags(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t, "--anomaly=both")
	if log := sys.Bus.Log.String(); !strings.Contains(log, "--anomaly") || !strings.Contains(log, "TOCSIN_ANOMALY") || !strings.Contains(log, "taken as auto") {
		t.Errorf("log = %s, want a warning that --anomaly=both is taken as auto", log)
	}
	burst(t, sys, "web")
	tail := e2etest.Run(t, sys.Bus.StateDir, "tail", "--shadow", "--json")
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { return strings.Contains(tail.Stdout.String(), "Error spike in logs: more than 3x") }) {
		t.Errorf("timed out: tail --shadow shows no spike: %s%s", tail.Stdout, tail.Log)
	}
	if log := tail.Log.String(); !strings.Contains(log, "tail --shadow has no effect") {
		t.Errorf("log = %s, want a warning that tail --shadow has no effect", log)
	}
}

// TestSingleSlowLoadIsWithdrawn checks that one slow load raises an alert for a single load,
// and that the next loads withdraw it.
func TestSingleSlowLoadIsWithdrawn(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t, "--regression", "confirmed")
	for i := range 20 {
		sys.PostVitals(t, "/cart", 1000+float64(i*7%30))
	}
	sys.PostVitals(t, "/cart", 3000)
	single := sys.TakeAlerts(t, 1)
	if len(single) != 1 || single[0].Category != alert.Regression || single[0].Context["confidence"] != "single" {
		t.Fatalf("got %+v, want 1 of them, Category %v and Context[\"confidence\"] \"single\"", single, alert.Regression)
	}
	for range 2 {
		sys.PostVitals(t, "/cart", 1010)
	}
	withdrawn := sys.TakeAlerts(t, 1)
	if len(withdrawn) != 1 || withdrawn[0].Resolves != single[0].ID || !strings.HasPrefix(withdrawn[0].Title, "Withdrawn: ") {
		t.Fatalf("got %+v, want 1 of them, Resolves %v and Title that begins with \"Withdrawn: \"", withdrawn, single[0].ID)
	}
}

// TestUnknownRuleIsRefused checks that an unknown rule is refused with a list of the
// rules.
func TestUnknownRuleIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"up", "--anomaly", "web=often"}, {"detector", "--nats-url=nats://127.0.0.1:1", "--anomaly=often"}} {
		p, err := harness.Start(e2etest.Binary(t), t.TempDir(), nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.Done():
		case <-time.After(20 * time.Second):
			_ = p.Kill()
			t.Fatalf("timed out: %v is still running", args)
		}
		if text := p.Log.String(); p.ExitCode() != 2 || !strings.Contains(text, "auto, ratio3x, rate-tail") || strings.Count(text, "\n") != 1 {
			t.Errorf("%v: got %d %s, want ExitCode 2, \"auto, ratio3x, rate-tail\" in text and one line", args, p.ExitCode(), text)
		}
	}
}
