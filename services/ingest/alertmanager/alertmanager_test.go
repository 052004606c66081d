package alertmanager_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/ingest/alertmanager"
	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
)

// grouped returns a group that Alertmanager 0.34.2 sent: one of two alerts is resolved.
func grouped(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/grouped.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestGrouped(t *testing.T) {
	got, leftOut, err := alertmanager.Decode(grouped(t))
	if err != nil || leftOut != 0 {
		t.Fatalf("Decode left out %d alerts, error %v, want 0 and none", leftOut, err)
	}
	fired := time.Date(2026, 11, 21, 11, 18, 38, 723386085, time.UTC)
	ended := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	want := []external.Alert{
		{
			Source: alert.SourceAlertmanager, Key: "4f6fdf9073726d07", Episode: "2020-01-01T00:00:00Z", State: external.StateResolved,
			Severity: alert.Error, Level: "page", App: "cart", Name: "HighErrorRate", Summary: "cart is failing",
			Labels:  map[string]string{"alertname": "HighErrorRate", "cluster": "eu", "job": "cart", "severity": "page"},
			GroupBy: []string{"alertname", "cluster"}, Receiver: "web.hook", StartsAt: ended, EndsAt: ended,
		},
		{
			Source: alert.SourceAlertmanager, Key: "4d0ffddc932a1984", Episode: "2026-11-21T11:18:38.723386085Z", State: external.StateFiring,
			Severity: alert.Error, Level: "critical", App: "checkout", Name: "HighErrorRate", Place: "checkout-7d9f8b6c5-x2x4z",
			Summary: "5% of requests to checkout fail", Detail: "More than 5% for 10 minutes.",
			URL: "http://prometheus.example/graph?g0.expr=rate%28errors%5B5m%5D%29", Runbook: "https://runbooks.example/errors",
			Labels: map[string]string{"alertname": "HighErrorRate", "cluster": "eu", "pod": "checkout-7d9f8b6c5-x2x4z",
				"service": "checkout", "severity": "critical"},
			GroupBy: []string{"alertname", "cluster"}, Receiver: "web.hook", StartsAt: fired,
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// one returns a message with one alert.
func one(alert string) string { return `{"version":"4","alerts":[` + alert + `]}` }

func decodeOne(t *testing.T, text string) external.Alert {
	t.Helper()
	got, leftOut, err := alertmanager.Decode([]byte(one(text)))
	if err != nil || leftOut != 0 || len(got) != 1 {
		t.Fatalf("Decode(%s): %d alerts, %d left out, error %v, want 1, 0 and none", text, len(got), leftOut, err)
	}
	return got[0]
}

func TestSeverities(t *testing.T) {
	for label, want := range map[string]alert.Severity{
		"critical": alert.Error, "page": alert.Error, "error": alert.Error, "emergency": alert.Error, "high": alert.Error, "Critical": alert.Error,
		"info": alert.Info, "none": alert.Info, "low": alert.Info, "debug": alert.Info, "INFO": alert.Info,
		"warning": alert.Warning, "": alert.Warning, "ticket": alert.Warning, "3": alert.Warning,
	} {
		if a := decodeOne(t, fmt.Sprintf(`{"status":"firing","labels":{"alertname":"A","severity":%q}}`, label)); a.Severity != want || a.Level != label {
			t.Errorf("label %q: severity %s, level %q, want %s and the label", label, a.Severity, a.Level, want)
		}
	}
	if a := decodeOne(t, `{"status":"firing","labels":{"alertname":"A"}}`); a.Severity != alert.Warning {
		t.Errorf("without a label: severity %s, want %s", a.Severity, alert.Warning)
	}
}

func TestAppAndPlace(t *testing.T) {
	for _, tt := range []struct{ labels, app, place string }{
		{`{"alertname":"A"}`, "", ""},
		{`{"job":"j"}`, "j", ""},
		{`{"job":"j","service":"s"}`, "s", "s"},
		{`{"job":"j","service":"s","app_kubernetes_io_name":"k"}`, "k", "s"},
		{`{"job":"j","service":"s","app_kubernetes_io_name":"k","app":"a"}`, "a", "s"},
		{`{"job":"j","app":""}`, "j", ""},
		{`{"service":"s","instance":"i:9100"}`, "s", "i:9100"},
		{`{"instance":"i:9100","node":"n"}`, "", "n"},
		{`{"instance":"i:9100","node":"n","pod":"p"}`, "", "p"},
	} {
		if a := decodeOne(t, `{"status":"firing","labels":`+tt.labels+`}`); a.App != tt.app || a.Place != tt.place {
			t.Errorf("%s: app %q, place %q, want %q and %q", tt.labels, a.App, a.Place, tt.app, tt.place)
		}
	}
}

func TestTexts(t *testing.T) {
	for _, tt := range []struct{ annotations, summary, detail, dashboard, runbook string }{
		{`{}`, "", "", "", ""},
		{`{"message":"m","description":"d"}`, "m", "d", "", ""},
		{`{"summary":"s","message":"m"}`, "s", "", "", ""},
		{`{"dashboard":"d","runbook":"r"}`, "", "", "d", "r"},
		{`{"dashboard":"d","dashboard_url":"du","runbook":"r","runbook_url":"ru"}`, "", "", "du", "ru"},
	} {
		a := decodeOne(t, `{"status":"firing","labels":{"a":"b"},"annotations":`+tt.annotations+`}`)
		if a.Summary != tt.summary || a.Detail != tt.detail || a.Dashboard != tt.dashboard || a.Runbook != tt.runbook {
			t.Errorf("annotations %s: got %+v, want %+v", tt.annotations, a, tt)
		}
	}
}

func TestIdentity(t *testing.T) {
	key := func(text string) string { return decodeOne(t, `{"status":"firing",`+text+`}`).Key }
	if k := key(`"fingerprint":"0a1b","labels":{"a":"b"}`); k != "0a1b" {
		t.Errorf("key with a fingerprint = %q, want %q", k, "0a1b")
	}
	hash := key(`"labels":{"a":"b","c":"d"}`)
	if len(hash) != 32 || hash != key(`"labels":{"c":"d","a":"b"}`) || hash != key(`"fingerprint":"no such\u0000thing","labels":{"a":"b","c":"d"}`) {
		t.Errorf("key of the labels = %q, want 32 digits, the same in any order and for an invalid fingerprint", hash)
	}
	for _, other := range []string{`"labels":{"a":"b"}`, `"labels":{"a":"b","c":"e"}`, `"labels":{"a":"bc","":"d"}`} {
		if key(other) == hash {
			t.Errorf("key of %s = %q, want another than that of other labels", other, hash)
		}
	}
	for starts, want := range map[string]string{
		"2026-01-28T14:30:00.1Z": "2026-01-28T14:30:00.1Z", "2026-01-28T15:30:00.1+01:00": "2026-01-28T14:30:00.1Z",
		"": "", "soon": "", "0001-01-01T00:00:00Z": "", "0000-01-01T00:00:00Z": "", "9999-12-31T23:59:59-01:00": "",
	} {
		a := decodeOne(t, fmt.Sprintf(`{"status":"firing","labels":{"a":"b"},"startsAt":%q}`, starts))
		if a.Episode != want || a.StartsAt.IsZero() != (want == "") {
			t.Errorf("starts at %s: episode %q, StartsAt %s, want episode %q", starts, a.Episode, a.StartsAt, want)
		}
	}
}

func TestBounds(t *testing.T) {
	labels := map[string]string{}
	for i := range 100 {
		labels[fmt.Sprintf("l%02d", i)] = "x"
	}
	data, err := json.Marshal(labels)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := alertmanager.Decode(fmt.Appendf(nil,
		`{"version":"4","truncatedAlerts":3,"receiver":"a\\.b\\c\\\\","groupLabels":{"l00":"x","l01":"y","l99":"x"},"alerts":[{"status":"firing","labels":%s}]}`, data))
	if err != nil {
		t.Fatal(err)
	}
	a := got[0]
	if len(a.Labels) != external.MaxLabels || a.Labels["l31"] != "x" || !reflect.DeepEqual(a.GroupBy, []string{"l00"}) || a.Omitted != 3 || a.Receiver != `a.b\c\` {
		t.Errorf("got %d labels, grouped by %q, omitted %d, receiver %q; want %d, [l00], 3, %q", len(a.Labels), a.GroupBy, a.Omitted, a.Receiver, external.MaxLabels, `a.b\c\`)
	}
	// Each alert of a message repeats the receiver.
	long := fmt.Appendf(nil, `{"version":"4","receiver":"%s","alerts":[{"status":"firing","labels":{"a":"b"}}]}`, strings.Repeat("r", 2000))
	if got, _, err := alertmanager.Decode(long); err != nil || len(got) != 1 || got[0].Receiver != "" {
		t.Errorf("a long receiver: got %+v, error %v, want one alert without a receiver", got, err)
	}
	most := `{"version":"4","truncatedAlerts":18446744073709551615,"alerts":[{"status":"firing","labels":{"a":"b"}}]}`
	if got, _, err := alertmanager.Decode([]byte(most)); err != nil || got[0].Omitted < 1 {
		t.Errorf("Decode = %+v, %v, want an alert with Omitted above 0", got, err)
	}
}

func TestLeftOut(t *testing.T) {
	got, leftOut, err := alertmanager.Decode([]byte(one(`{"status":"firing","labels":{"a":"b"}},{},{"status":"firing"},{"status":"suppressed","labels":{"a":"b"}},null,` +
		`{"status":"resolved","fingerprint":"f"}`)))
	if err != nil || leftOut != 4 || len(got) != 2 {
		t.Fatalf("%d alerts, %d left out, error %v, want 2, 4 and none", len(got), leftOut, err)
	}
	if got, leftOut, err := alertmanager.Decode([]byte(one(""))); err != nil || len(got)+leftOut != 0 {
		t.Errorf("no alerts: got %v, %d left out, error %v, want none", got, leftOut, err)
	}
}

func TestRefusals(t *testing.T) {
	many := func(n int, of string) string { return strings.TrimSuffix(strings.Repeat(of+",", n), ",") }
	for name, tt := range map[string]struct{ in, says string }{
		"nothing":           {``, "malformed JSON"},
		"an array":          {`[]`, "must be a JSON object"},
		"cut off":           {one(`{"status":"firing"`)[:40], "malformed JSON"},
		"two":               {one("") + one(""), "malformed JSON"},
		"another version":   {`{"version":"3","alerts":[]}`, `version must be "4"`},
		"a number":          {`{"version":4}`, "version must be a string"},
		"no version":        {`{}`, "alerts must be an array"},
		"no alerts":         {`{"version":"4"}`, "alerts must be an array"},
		"alerts of null":    {`{"version":"4","alerts":null}`, "alerts must be an array"},
		"an object":         {`{"version":"4","alerts":{}}`, "alerts must be an array"},
		"a text":            {one(`"x"`), "alerts.0 must be an object"},
		"a state's type":    {one(`{},{"status":1}`), "alerts.1.status must be a string"},
		"a label's type":    {one(`{"labels":{"a":1}}`), "alerts.0.labels.a must be a string"},
		"labels":            {one(`{"labels":[]}`), "alerts.0.labels must be an object of strings"},
		"truncated":         {`{"version":"4","alerts":[],"truncatedAlerts":-1}`, "truncatedAlerts must be a number"},
		"too many alerts":   {one(many(decoding.MaxItems+1, `{}`)), "more than 10000 alerts: set max_alerts or send smaller batches"},
		"too many labels":   {one(`{"labels":{` + many(decoding.MaxParts+1, `"a":""`) + `}}`), "more than 200000 labels and annotations: set max_alerts or send smaller batches"},
		"in several places": {`{"version":"4","groupLabels":{"a":""},"alerts":[{"labels":{` + many(decoding.MaxParts, `"a":""`) + `}}]}`, "more than 200000"},
		"too many parts":    {`{"version":"4","else":[` + many(decoding.MaxParts, `[]`) + `]}`, "more than 200000 objects and lists"},
		"too deep":          {one(strings.Repeat("[", 100)), "deeper"},
	} {
		got, leftOut, err := alertmanager.Decode([]byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.says) || got != nil || leftOut != 0 {
			t.Errorf("%s: error %v, %d alerts, %d left out, want an error with %q and no alerts", name, err, len(got), leftOut, tt.says)
			continue
		}
		if strings.Contains(err.Error(), "alertmanager.") {
			t.Errorf("%s: error %v, want no Go types in it", name, err)
		}
		if strings.HasPrefix(name, "too ") != errors.Is(err, decoding.ErrTooMany) && name != "in several places" {
			t.Errorf("%s: error %v wraps ErrTooMany: got %t, want %t", name, err, errors.Is(err, decoding.ErrTooMany), strings.HasPrefix(name, "too "))
		}
	}
	if _, _, err := alertmanager.Decode([]byte(one(many(decoding.MaxItems, `{"status":"firing","fingerprint":"f"}`)))); err != nil {
		t.Errorf("the largest number of alerts: error %v, want none", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(grouped(f))
	f.Add([]byte(one(`{"status":"firing","labels":{"a":"b","a":"c"},"startsAt":"2026-01-28T15:30:00.1+01:00"},null`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		alerts, leftOut, err := alertmanager.Decode(data)
		if err != nil && (alerts != nil || leftOut != 0) {
			t.Fatalf("error %v with %d alerts and %d left out, want none with an error", err, len(alerts), leftOut)
		}
		if len(alerts)+leftOut > decoding.MaxItems {
			t.Fatalf("%d alerts, want at most %d", len(alerts)+leftOut, decoding.MaxItems)
		}
		for i := range alerts {
			if err := alerts[i].Validate(); err != nil {
				t.Fatalf("alert %d is invalid: %v, want only valid ones", i, err)
			}
			if _, err := external.Append(nil, &alerts[i]); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := grouped(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := alertmanager.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeMost decodes the most expensive message of 1 MiB.
func BenchmarkDecodeMost(b *testing.B) {
	for name, data := range map[string]string{
		"alerts": one(strings.TrimSuffix(strings.Repeat(`{"status":"firing","labels":{"alertname":"a","b":"c"},"startsAt":"2026-01-28T15:30:00Z"},`, 10_000), ",")),
		"labels": func() string {
			var s strings.Builder
			for i := range 80_000 {
				fmt.Fprintf(&s, `"%x":"",`, i)
			}
			return one(`{"status":"firing","labels":{` + s.String() + `"x":""}}`)
		}(),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := alertmanager.Decode([]byte(data)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
