package external_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	externalrule "github.com/tocsin-bus/tocsin/services/detector/external"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
)

func report(key, episode, state string) *external.Alert {
	return &external.Alert{Source: alert.SourceAlertmanager, Key: key, Episode: episode, State: state, Severity: alert.Error, Name: "Down"}
}

func TestTimeline(t *testing.T) {
	alerts := externalrule.New()
	for i, s := range []struct{ key, episode, state, revises, resolves, why string }{
		{"a", "1", "firing", "", "", "the first time"},
		{"a", "1", "firing", "id0", "", "reported again after the group's interval"},
		{"b", "1", "firing", "", "", "another of the group"},
		{"a", "1", "firing", "id0", "", "and again"},
		{"a", "1", "resolved", "", "id0", "its end"},
		{"a", "1", "resolved", "id4", "id0", "its end again: only part of the group has ended"},
		{"a", "1", "firing", "", "", "it was lost for a while, and never ended"},
		{"a", "2", "firing", "", "", "a new firing whose end in between was never reported"},
		{"a", "2", "firing", "id7", "", "again"},
		{"a", "2", "resolved", "", "id7", "its end"},
		{"b", "1", "firing", "id2", "", "the other still fires"},
		{"c", "7", "resolved", "", "", "the end of one never seen firing"},
		{"c", "7", "resolved", "id11", "", "but once"},
		{"c", "8", "resolved", "", "", "the end of the next firing, never seen either"},
		{"c", "", "firing", "", "", "without a start"},
		{"c", "", "firing", "id14", "", "again"},
	} {
		a := publish(alerts, report(s.key, s.episode, s.state), fmt.Sprint("id", i))
		want := alert.Error
		if s.state == external.StateResolved {
			want = alert.Info
		}
		if a.Severity != want {
			t.Errorf("%d, %s: severity = %q, want %q", i, s.why, a.Severity, want)
		}
		if got, want := [...]string{a.Revises, a.Resolves, a.DedupKey}, [...]string{s.revises, s.resolves, "alertmanager:" + s.key + ":" + s.state}; got != want {
			t.Errorf("%d, %s: revises, resolves, dedup key = %q, want %q", i, s.why, got, want)
		}
		alerts = restored(t, alerts)
	}
	for range 2 {
		a := alerts.Prepare(report("c", "", external.StateResolved)).Alert // never published
		if got, want := [...]string{a.Revises, a.Resolves}, [...]string{"", "id14"}; got != want {
			t.Errorf("after an alert that was not published: revises, resolves = %q, want %q", got, want)
		}
	}
}

// publish publishes the alert about a report.
func publish(alerts *externalrule.Alerts, e *external.Alert, id string) alert.Alert {
	pending := alerts.Prepare(e)
	alerts.MarkPublished(pending, id)
	return pending.Alert
}

func full(state string) *external.Alert {
	return &external.Alert{
		Source: alert.SourceAlertmanager, Key: "a1b2c3d4e5f60718", Episode: "2026-01-28T14:30:00.123Z", State: state,
		Severity: alert.Error, Level: "critical", App: "checkout", Name: "HighErrorRate", Place: "checkout-7d9f",
		Summary: "Too many errors", Detail: "5% of requests fail", URL: "http://prometheus/graph?g0.expr=up",
		Dashboard: "http://grafana/d/1", Runbook: "http://runbooks/errors",
		Labels:  map[string]string{"alertname": "HighErrorRate", "severity": "critical", "pod": "checkout-7d9f", "a\nb": "c"},
		GroupBy: []string{"alertname", "gone"}, Receiver: "tocsin",
		StartsAt: time.Date(2026, 1, 28, 14, 30, 0, 123456789, time.UTC), EndsAt: time.Date(2026, 1, 28, 14, 34, 0, 0, time.UTC),
	}
}

// TestGolden checks the JSON of alerts, without the fields that package fold fills in.
func TestGolden(t *testing.T) {
	const labels = `"labels":{"alertname":"HighErrorRate","a␊b":"c","pod":"checkout-7d9f","severity":"critical"},`
	for state, want := range map[string]string{
		"firing": `{"id":"","severity":"error","category":"threshold","title":"Alert firing: HighErrorRate on checkout-7d9f",` +
			`"detail":"Too many errors; 5% of requests fail","timestamp":"0001-01-01T00:00:00.000Z","source":"alertmanager","app":"",` +
			`"url":"http://prometheus/graph?g0.expr=up","context":{"dashboard_url":"http://grafana/d/1","group":{"alertname":"HighErrorRate"},` + labels +
			`"receiver":"tocsin","runbook_url":"http://runbooks/errors","severity":"critical","starts_at":"2026-01-28T14:30:00.123Z","state":"firing"},` +
			`"dedup_key":"alertmanager:a1b2c3d4e5f60718:firing","correlation_id":""}`,
		"resolved": `{"id":"","severity":"info","category":"threshold","title":"Alert resolved: HighErrorRate on checkout-7d9f",` +
			`"detail":"was: Too many errors; 5% of requests fail","timestamp":"0001-01-01T00:00:00.000Z","source":"alertmanager","app":"",` +
			`"url":"http://prometheus/graph?g0.expr=up","context":{"dashboard_url":"http://grafana/d/1","ends_at":"2026-01-28T14:34:00.000Z","group":{"alertname":"HighErrorRate"},` + labels +
			`"receiver":"tocsin","runbook_url":"http://runbooks/errors","severity":"critical","starts_at":"2026-01-28T14:30:00.123Z","state":"resolved"},` +
			`"dedup_key":"alertmanager:a1b2c3d4e5f60718:resolved","correlation_id":""}`,
	} {
		got, err := json.Marshal(externalrule.New().Prepare(full(state)).Alert)
		if err != nil {
			t.Fatal(err)
		}
		if sorted(t, string(got)) != sorted(t, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func sorted(t *testing.T, text string) string {
	t.Helper()
	var open any
	if err := json.Unmarshal([]byte(text), &open); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(open)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTexts(t *testing.T) {
	long := strings.Repeat("ä", 3000)
	for _, tt := range []struct {
		name          string
		change        func(a *external.Alert)
		title, detail string
	}{
		{"no text", func(*external.Alert) {}, "Alert firing: Down", ""},
		{"no name", func(a *external.Alert) { a.Name = "" }, "Alert firing", ""},
		{"an app", func(a *external.Alert) { a.App = "shop" }, "Alert firing: Down on shop", ""},
		{"the default app", func(a *external.Alert) { a.App = "default" }, "Alert firing: Down", ""},
		{"a place", func(a *external.Alert) { a.App, a.Place = "shop", "shop-1" }, "Alert firing: Down on shop-1", ""},
		{"only a description", func(a *external.Alert) { a.Detail = "d" }, "Alert firing: Down", "d"},
		{"the same twice", func(a *external.Alert) { a.Summary, a.Detail = "d", "d" }, "Alert firing: Down", "d"},
		{"resolved, no text", func(a *external.Alert) { a.State = "resolved" }, "Alert resolved: Down", ""},
		{"left out", func(a *external.Alert) { a.Omitted = 3 }, "Alert firing: Down", "alertmanager left out more alerts of this group: 3"},
		{"left out, and a long text", func(a *external.Alert) { a.Omitted, a.Summary = 3, long }, "Alert firing: Down",
			strings.Repeat("ä", 1947) + "…; alertmanager left out more alerts of this group: 3"},
	} {
		e := report("a", "1", external.StateFiring)
		tt.change(e)
		a := externalrule.New().Prepare(e).Alert
		if got, want := [...]string{a.Title, a.Detail}, [...]string{tt.title, tt.detail}; got != want {
			t.Errorf("%s: title, detail = %q, want %q", tt.name, got, want)
		}
		if got := utf8.RuneCountInString(a.Detail); tt.name == "left out, and a long text" && got != alert.MaxDetail {
			t.Errorf("%s: detail has %d characters, want %d", tt.name, got, alert.MaxDetail)
		}
	}
}

func TestBounds(t *testing.T) {
	alerts := externalrule.New()
	for i := range externalrule.MaxAlerts + 1 {
		publish(alerts, report(fmt.Sprint(i), "1", external.StateFiring), "id")
	}
	if alerts.Len() != externalrule.MaxAlerts || alerts.Evicted() != 1 {
		t.Errorf("%d alerts, %d evicted, want %d, 1", alerts.Len(), alerts.Evicted(), externalrule.MaxAlerts)
	}
	alerts = restored(t, alerts)
	if a := publish(alerts, report("1", "1", external.StateFiring), "new"); a.Revises != "id" {
		t.Errorf("alert 1, which is remembered: revises %q, want %q", a.Revises, "id")
	}
	if a := publish(alerts, report("0", "1", external.StateFiring), "new"); a.Revises != "" {
		t.Errorf("alert 0, which was forgotten: revises %q, want none", a.Revises)
	}
}

func restored(t *testing.T, alerts *externalrule.Alerts) *externalrule.Alerts {
	t.Helper()
	again := externalrule.New()
	snapshottest.Copy(t, alerts, again)
	return again
}

func BenchmarkPublish(b *testing.B) {
	alerts, all := externalrule.New(), make([]*external.Alert, 1000)
	for i := range all {
		all[i] = full(external.StateFiring)
		all[i].Key = fmt.Sprint(i)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		publish(alerts, all[n%len(all)], "abcdefghijklmnopqrstuvwxyz")
		n++
	}
}

func BenchmarkSave(b *testing.B) {
	alerts := externalrule.New()
	for i := range externalrule.MaxAlerts {
		publish(alerts, report(fmt.Sprintf("%016d", i), "2026-01-28T14:30:00.123Z", external.StateFiring), "abcdefghijklmnopqrstuvwxyz")
	}
	b.ReportAllocs()
	var state []byte
	for b.Loop() {
		state = snapshot.Append(state[:0], alerts.State)
	}
	b.ReportMetric(float64(len(state)), "bytes")
}
