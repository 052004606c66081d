package detector_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// counter returns the value of a counter or gauge with a label value, 0 if there is none.
func counter(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "tocsin_detector_"+name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// TestRealAppAmongMany checks that an app with 20 loads and a known error stays tracked
// when 1,100 other apps send one event each, before and after a restart, and that the
// evicted apps are counted at once.
func TestRealAppAmongMany(t *testing.T) {
	r := newRig(t)
	registry := prometheus.NewRegistry()
	stop := r.detectWith(t, time.Hour, registry) // without snapshots, only a scrape exports the counts
	load := func(lcp float64) telemetry.Event {
		return telemetry.Event{Kind: telemetry.KindVitals, App: "web", URL: "/cart", Vitals: &telemetry.Vitals{LCP: &lcp}}
	}
	for range 20 {
		r.send(t, load(1000))
	}
	known := telemetry.Event{Kind: telemetry.KindLog, App: "web", Log: &telemetry.Log{Level: telemetry.LevelError, Message: "boom"}}
	r.send(t, known)
	for post := range 11 {
		others := make([]telemetry.Event, 100)
		for i := range others {
			others[i] = telemetry.Event{Kind: telemetry.KindLog, App: fmt.Sprintf("app%d-%d", post, i), Log: &telemetry.Log{Level: telemetry.LevelInfo, Message: "hello"}}
		}
		r.send(t, others...)
	}
	r.send(t, known, load(5000))
	want := []string{"New error: boom", "LCP regressed 400% on /cart"}
	check := func() {
		t.Helper()
		if got := r.titles(t, len(want)); !slices.Equal(got, want) {
			t.Errorf("alerts = %q, want %q", got, want)
		}
		status := ask[query.StatusReply](t, r, query.SubjectStatus, struct{}{})
		web := slices.IndexFunc(status.Apps, func(a query.AppStatus) bool { return a.App == "web" })
		if web < 0 || len(status.Apps) != 1000 || status.Detector.AppsNotTracked != 101 {
			t.Errorf("status has %d apps, web among them: %v, and %d not tracked; want 1000, true, 101", len(status.Apps), web >= 0, status.Detector.AppsNotTracked)
		}
		if health := ask[query.Health](t, r, query.SubjectHealth, struct{}{}); health.Detector == nil || health.Detector.AppsNotTracked != 101 || len(health.Detector.Rules) != 1 {
			t.Errorf("detector health = %+v, want 101 apps not tracked and one line of rules", health.Detector)
		}
	}
	check()
	if got := counter(t, registry, "forgotten_total", "apps"); got != 101 {
		t.Errorf("forgotten_total of apps = %v, want 101", got)
	}
	if got := counter(t, registry, "apps_not_tracked", "0"); got != 101 {
		t.Errorf("apps_not_tracked = %v, want 101", got)
	}
	stop()
	r.detect(t, time.Hour)
	check()
}
