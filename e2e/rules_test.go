package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// shadowed are the alerts that tocsin tail --shadow --json has shown so far.
func shadowed(t *testing.T, tail *harness.Process) (all []alert.Alert) {
	t.Helper()
	for line := range strings.Lines(tail.Stdout.String()) {
		var a alert.Alert
		if err := json.Unmarshal([]byte(line), &a); err == nil { // else it is not written to its end
			all = append(all, a)
		}
	}
	return all
}

// burst sends so many errors of an app at once that they are a spike also where
// nothing is known of it.
func (w *world) burst(t *testing.T, app string) {
	t.Helper()
	var all []map[string]any
	for range 80 {
		all = append(all, map[string]any{"kind": "log", "app": app, "log": map[string]any{"level": "error", "message": "boom"}})
	}
	w.events(t, all...)
}

// of are the alerts of a category.
func of(all []alert.Alert, category alert.Category) (some []alert.Alert) {
	for _, a := range all {
		if a.Category == category {
			some = append(some, a)
		}
	}
	return some
}

// TestRulesInTheShadow: with both, the rule of the contract speaks and the other
// one is heard on shadow.alerts.> alone; an app can be judged by another.
func TestRulesInTheShadow(t *testing.T) {
	w := start(t, "--anomaly=both", "--anomaly=shop=rate-tail")
	tail := run(t, w.bus.StateDir, "tail", "--shadow", "--json")
	// It listens from now on: what comes before it does is kept nowhere.
	heard := harness.Poll(t.Context(), 20*time.Second, func() bool {
		w.burst(t, fmt.Sprintf("first%d", time.Now().UnixNano()))
		return len(shadowed(t, tail)) > 0
	})
	if !heard {
		t.Fatalf("tail --shadow shows nothing\n%s%s", tail.Log, w.bus.Log)
	}
	w.burst(t, "web")
	w.burst(t, "shop")
	var web, shop []alert.Alert
	told := harness.Poll(t.Context(), 20*time.Second, func() bool {
		for _, a := range of(w.observe(t, nil).Alerts, alert.Anomaly) {
			switch a.App {
			case "web":
				web = append(web, a)
			case "shop":
				shop = append(shop, a)
			}
		}
		return len(web) > 0 && len(shop) > 0
	})
	if !told || len(web) != 1 || len(shop) != 1 {
		t.Fatalf("web %+v, shop %+v\n%s", web, shop, w.bus.Log)
	}
	if !strings.Contains(web[0].Title, "3x") || web[0].Context["rule"] == "rate-tail" {
		t.Errorf("web: the contract's rule does not speak: %+v", web[0])
	}
	if !strings.Contains(shop[0].Detail, "expected") || !strings.Contains(shop[0].Detail, "p = ") || shop[0].Context["rule"] != "rate-tail" {
		t.Errorf("shop: rate-tail does not speak: %+v", shop[0])
	}
	for _, a := range shadowed(t, tail) {
		if a.App == "shop" || a.Category == alert.Anomaly && a.Context["rule"] != "rate-tail" {
			t.Errorf("in the shadow: %+v", a)
		}
	}
	isShadow := func() bool {
		for _, a := range shadowed(t, tail) {
			if a.App == "web" && a.Category == alert.Anomaly && a.DedupKey == web[0].DedupKey && a.ID != web[0].ID {
				return true
			}
		}
		return false
	}
	if !harness.Poll(t.Context(), 10*time.Second, isShadow) {
		t.Errorf("of web nothing is in the shadow: %+v", shadowed(t, tail))
	}
}

// TestRulesWithdrawn: one slow load is told as such, and withdrawn by those that
// follow.
func TestRulesWithdrawn(t *testing.T) {
	w := start(t, "--regression", "confirmed")
	for i := range 20 {
		w.vitals(t, "/cart", 1000+float64(i*7%30))
	}
	w.vitals(t, "/cart", 3000)
	single := w.alerts(t, 1)
	if len(single) != 1 || single[0].Category != alert.Regression || single[0].Context["confidence"] != "single" {
		t.Fatalf("%+v", single)
	}
	for range 2 {
		w.vitals(t, "/cart", 1010)
	}
	withdrawn := w.alerts(t, 1)
	if len(withdrawn) != 1 || withdrawn[0].Resolves != single[0].ID || !strings.HasPrefix(withdrawn[0].Title, "Withdrawn: ") {
		t.Fatalf("%+v", withdrawn)
	}
}

// TestRulesAreChecked: a rule that there is not is refused with those that there are.
func TestRulesAreChecked(t *testing.T) {
	for _, args := range [][]string{{"up", "--anomaly", "web=often"}, {"detector", "--nats-url=nats://127.0.0.1:1", "--anomaly=often"}} {
		p, err := harness.Start(binary, t.TempDir(), nil, args...)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.Done():
		case <-time.After(20 * time.Second):
			_ = p.Kill()
			t.Fatalf("%v goes on", args)
		}
		if text := p.Log.String(); p.ExitCode() != 2 || !strings.Contains(text, "ratio3x, rate-tail, both") || strings.Count(text, "\n") != 1 {
			t.Errorf("%v: %d %s", args, p.ExitCode(), text)
		}
	}
}
