package external_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	rule "github.com/tocsin-bus/tocsin/services/detector/external"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
)

func made(key, episode, state string) *external.Alert {
	return &external.Alert{Source: alert.SourceAlertmanager, Key: key, Episode: episode, State: state, Severity: alert.Error, Name: "Down"}
}

func TestTimeline(t *testing.T) {
	alerts := rule.New()
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
		a := take(alerts, made(s.key, s.episode, s.state), fmt.Sprint("id", i))
		want := alert.Error
		if s.state == external.StateResolved {
			want = alert.Info
		}
		if a.Revises != s.revises || a.Resolves != s.resolves || a.DedupKey != "alertmanager:"+s.key+":"+s.state || a.Severity != want {
			t.Errorf("%d, %s: revises %q, resolves %q, key %s, %s", i, s.why, a.Revises, a.Resolves, a.DedupKey, a.Severity)
		}
		alerts = restored(t, alerts)
	}
	for range 2 {
		if a := alerts.Prepare(made("c", "", external.StateResolved)).Alert; a.Resolves != "id14" || a.Revises != "" {
			t.Errorf("what was not reported must be news: %+v", a)
		}
	}
}

// take is the alert about another system's, which leaves.
func take(alerts *rule.Alerts, e *external.Alert, id string) alert.Alert {
	taken := alerts.Prepare(e)
	alerts.MarkPublished(taken, id)
	return taken.Alert
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

// TestGolden: the alert as it goes out, but for what the fold fills in.
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
		got, err := json.Marshal(rule.New().Prepare(full(state)).Alert)
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

func TestWords(t *testing.T) {
	long := strings.Repeat("ä", 3000)
	for _, tt := range []struct {
		name          string
		change        func(a *external.Alert)
		title, detail string
	}{
		{"nothing said", func(*external.Alert) {}, "Alert firing: Down", ""},
		{"no name", func(a *external.Alert) { a.Name = "" }, "Alert firing", ""},
		{"an app", func(a *external.Alert) { a.App = "shop" }, "Alert firing: Down on shop", ""},
		{"the default app", func(a *external.Alert) { a.App = "default" }, "Alert firing: Down", ""},
		{"a place", func(a *external.Alert) { a.App, a.Place = "shop", "shop-1" }, "Alert firing: Down on shop-1", ""},
		{"a description alone", func(a *external.Alert) { a.Detail = "d" }, "Alert firing: Down", "d"},
		{"the same twice", func(a *external.Alert) { a.Summary, a.Detail = "d", "d" }, "Alert firing: Down", "d"},
		{"resolved, nothing said", func(a *external.Alert) { a.State = "resolved" }, "Alert resolved: Down", ""},
		{"left out", func(a *external.Alert) { a.Omitted = 3 }, "Alert firing: Down", "alertmanager left out more alerts of this group: 3"},
		{"left out, and a long text", func(a *external.Alert) { a.Omitted, a.Summary = 3, long }, "Alert firing: Down",
			strings.Repeat("ä", 1947) + "…; alertmanager left out more alerts of this group: 3"},
	} {
		e := made("a", "1", external.StateFiring)
		tt.change(e)
		a := rule.New().Prepare(e).Alert
		if a.Title != tt.title || a.Detail != tt.detail {
			t.Errorf("%s: %q, %q", tt.name, a.Title, a.Detail)
		}
		if tt.name == "left out, and a long text" && utf8.RuneCountInString(a.Detail) != alert.MaxDetail {
			t.Errorf("%d characters", utf8.RuneCountInString(a.Detail))
		}
	}
}

func TestBounds(t *testing.T) {
	alerts := rule.New()
	for i := range rule.MaxAlerts + 1 {
		take(alerts, made(fmt.Sprint(i), "1", external.StateFiring), "id")
	}
	if alerts.Len() != rule.MaxAlerts || alerts.Evicted() != 1 {
		t.Errorf("%d alerts, %d evicted", alerts.Len(), alerts.Evicted())
	}
	alerts = restored(t, alerts)
	if a := take(alerts, made("1", "1", external.StateFiring), "new"); a.Revises != "id" {
		t.Error("1 is remembered")
	}
	if a := take(alerts, made("0", "1", external.StateFiring), "new"); a.Revises != "" {
		t.Error("0 was forgotten")
	}
}

func restored(t *testing.T, alerts *rule.Alerts) *rule.Alerts {
	t.Helper()
	again := rule.New()
	snapshottest.Copy(t, alerts, again)
	return again
}

func BenchmarkTake(b *testing.B) {
	alerts, all := rule.New(), make([]*external.Alert, 1000)
	for i := range all {
		all[i] = full(external.StateFiring)
		all[i].Key = fmt.Sprint(i)
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		take(alerts, all[n%len(all)], "abcdefghijklmnopqrstuvwxyz")
		n++
	}
}

func BenchmarkSave(b *testing.B) {
	alerts := rule.New()
	for i := range rule.MaxAlerts {
		take(alerts, made(fmt.Sprintf("%016d", i), "2026-01-28T14:30:00.123Z", external.StateFiring), "abcdefghijklmnopqrstuvwxyz")
	}
	b.ReportAllocs()
	var state []byte
	for b.Loop() {
		state = snapshot.Append(state[:0], alerts.State)
	}
	b.ReportMetric(float64(len(state)), "bytes")
}
