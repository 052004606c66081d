package ingest

import (
	"fmt"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

func (fakeMasker) External(a *external.Alert) { a.Summary = mask(a.Summary) }

// postAlerts posts a message of Alertmanager.
func postAlerts(h *handler, body string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, ask("POST", pathAlertmanager, strings.NewReader(body), append([]string{"Content-Type", "application/json"}, header...)...))
	return w
}

func groupOf(alerts ...string) string {
	return `{"version":"4","alerts":[` + strings.Join(alerts, ",") + `]}`
}

func TestAlertmanager(t *testing.T) {
	data, err := os.ReadFile("alertmanager/testdata/grouped.json")
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeSink{}
	w := postAlerts(testHandler(s), string(data))
	if w.Code != 200 || w.Body.String() != `{"ok":true,"accepted":2}` || len(s.msgs) != 1 || s.msgs[0].Subject != bus.SubjectIntakeAlerts {
		t.Fatalf("got %d %s, %d messages, want 200, 2 accepted, 1 message on %s", w.Code, w.Body, len(s.msgs), bus.SubjectIntakeAlerts)
	}
	const want = `[{"source":"alertmanager","key":"4f6fdf9073726d07","episode":"2020-01-01T00:00:00Z","state":"resolved","severity":"error","level":"page",` +
		`"app":"cart","name":"HighErrorRate","summary":"cart is failing",` +
		`"labels":{"alertname":"HighErrorRate","cluster":"eu","job":"cart","severity":"page"},"group_by":["alertname","cluster"],` +
		`"receiver":"web.hook","starts_at":"2020-01-01T00:00:00Z","ends_at":"2020-01-01T00:00:00Z"},` +
		`{"source":"alertmanager","key":"4d0ffddc932a1984","episode":"2026-11-21T11:18:38.723386085Z","state":"firing","severity":"error","level":"critical",` +
		`"app":"checkout","name":"HighErrorRate","place":"checkout-7d9f8b6c5-x2x4z","summary":"5% of requests to checkout fail",` +
		`"detail":"More than 5% for 10 minutes.","url":"http://prometheus.example/graph?g0.expr=rate%28errors%5B5m%5D%29","runbook":"https://runbooks.example/errors",` +
		`"labels":{"alertname":"HighErrorRate","cluster":"eu","pod":"checkout-7d9f8b6c5-x2x4z","service":"checkout","severity":"critical"},` +
		`"group_by":["alertname","cluster"],"receiver":"web.hook","starts_at":"2026-11-21T11:18:38.723386085Z"}]`
	if got := string(s.msgs[0].Data); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAlertmanagerAnswers(t *testing.T) {
	const one = `{"status":"firing","labels":{"alertname":"A"}}`
	withToken := func(c *Config) { c.Token = "s3cret" }
	crowded := func(c *Config) { c.MaxInFlight = 1 }
	for name, tt := range map[string]struct {
		body   string
		header []string
		change func(*Config)
		err    error
		status int
		says   string
	}{
		"nothing in it":          {groupOf(), nil, nil, nil, 200, `"accepted":0`},
		"one left out":           {groupOf(one, `{}`), nil, nil, nil, 200, `"accepted":1`},
		"not JSON":               {`x`, nil, nil, nil, 400, "malformed JSON"},
		"a wrong field":          {groupOf(`{"status":1}`), nil, nil, nil, 400, "alerts.0.status must be a string"},
		"too many":               {groupOf(strings.Repeat(`{},`, 10_000) + `{}`), nil, nil, nil, 413, "more than 10000 alerts"},
		"too large":              {strings.Repeat(" ", maxBody+1), nil, nil, nil, 413, "over 1048576 bytes"},
		"another type":           {groupOf(one), []string{"Content-Type", "text/plain"}, nil, nil, 415, "application/json"},
		"packed":                 {groupOf(one), []string{"Content-Encoding", "gzip"}, nil, nil, 415, "identity"},
		"the token":              {groupOf(one), []string{"Authorization", "Bearer s3cret"}, withToken, nil, 200, `"accepted":1`},
		"no token":               {groupOf(one), nil, withToken, nil, 401, "token"},
		"a page":                 {groupOf(one), []string{"Origin", "https://evil.example"}, nil, nil, 403, "TOCSIN_ALLOWED_ORIGINS"},
		"a configured page":      {groupOf(one), []string{"Origin", "https://app.example"}, nil, nil, 200, `"accepted":1`},
		"the bus is unreachable": {groupOf(one), nil, nil, bus.ErrUnreachable, 503, ""},
		"the bus is busy":        {groupOf(one), nil, nil, bus.ErrBusy, 503, ""},
		"load is shed":           {groupOf(one), nil, crowded, nil, 503, "try again later"},
	} {
		t.Run(name, func(t *testing.T) {
			change := tt.change
			if change == nil {
				change = func(*Config) {}
			}
			sink := &fakeSink{err: tt.err}
			w := postAlerts(testHandler(sink, change), tt.body, tt.header...)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.says)
			}
			if (w.Code == 503) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("status %d with Retry-After %q, want it with 503 alone", w.Code, w.Header().Get("Retry-After"))
			}
			if want := strings.Contains(tt.says, `"accepted":1`); want != (len(sink.msgs) == 1) {
				t.Errorf("%d messages, want one: %t", len(sink.msgs), want)
			}
		})
	}
}

// TestAlertsAreSplit checks that no message is larger than a server accepts, and that
// alerts keep their order.
func TestAlertsAreSplit(t *testing.T) {
	const n = 3000
	s, all := &fakeSink{}, make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"status":"firing","labels":{"alertname":"A%d"},"annotations":{"summary":"%s"}}`, i, strings.Repeat("s", 250))
	}
	if w := postAlerts(testHandler(s), groupOf(all...)); w.Code != 200 || !strings.Contains(w.Body.String(), `"accepted":3000`) {
		t.Fatalf("got %d %s, want 200 and 3000 accepted", w.Code, w.Body)
	}
	next := 0
	for _, m := range s.msgs {
		alerts, err := external.DecodeMessage(m.Data)
		if err != nil || len(m.Data) > maxMessage || len(alerts) == 0 {
			t.Fatalf("a message of %d bytes with %d alerts: %v, want at most %d bytes, and some", len(m.Data), len(alerts), err, maxMessage)
		}
		for i := range alerts {
			if alerts[i].Name != fmt.Sprintf("A%d", next) {
				t.Fatalf("alert %d is %s, want A%d", next, alerts[i].Name, next)
			}
			next++
		}
	}
	if next != n || len(s.msgs) < 2 || len(s.msgs) > 4 {
		t.Errorf("%d alerts in %d messages, want %d in 2 to 4", next, len(s.msgs), n)
	}
}

// largest returns an alert with the longest texts, of the characters that take most bytes.
func largest() external.Alert {
	long := strings.Repeat("\U0001F514", 20_000)
	a := external.Alert{
		Source: alert.SourceAlertmanager, Key: strings.Repeat("k", external.MaxKey), Episode: strings.Repeat("e", external.MaxKey),
		State: external.StateFiring, Severity: alert.Error, Labels: map[string]string{},
	}
	a.EachText(func(s *string, _ int) { *s = long })
	a.EachLink(func(s *string, _ int) { *s = long })
	for i := range external.MaxLabels {
		name := fmt.Sprintf("%02d%s", i, long)
		a.Labels[name] = long
		a.GroupBy = append(a.GroupBy, name)
	}
	return a
}

func TestAlertsAreBounded(t *testing.T) {
	a := largest()
	cleanAlert(&a, fakeMasker{})
	data, err := external.Append(nil, &a)
	if err != nil || len(data) > 140<<10 {
		t.Fatalf("%d bytes, error %v, want at most %d and none", len(data), err, 140<<10)
	}
	if err := a.Validate(); err != nil {
		t.Fatal(err)
	}
	texts := func(s *string, limit int) {
		if n := utf8.RuneCountInString(*s); n != limit {
			t.Errorf("%d characters, want %d", n, limit)
		}
	}
	a.EachText(texts)
	a.EachLink(texts)
	for i, name := range a.GroupBy {
		value, ok := a.Labels[name]
		if !ok {
			t.Errorf("the alert is grouped by label %d, %q, and lacks it; want it among the labels", i, name)
		}
		texts(&name, external.MaxName)
		texts(&value, external.MaxLabel)
	}
}

// TestAlertsAreCleaned checks that hidden characters are removed, also from names of
// labels, and that no secret is stored.
func TestAlertsAreCleaned(t *testing.T) {
	body := strings.NewReplacer("{zero}", `\u200b`, "{bidi}", `\u202e`, "{esc}", `\u001b[31m`).Replace(plant(groupOf(
		`{"status":"firing","fingerprint":"f1","startsAt":"2026-01-28T14:30:00Z","generatorURL":"http://u:{password}@p/graph?token={cookie}",` +
			`"labels":{"alertname":"A{zero}{token}","severity":"{bidi}page","app":"{esc}{key}","pod":"p{zero}","token":"{cookie}","x{bidi}y":"{jwt}","{token}":"z"},` +
			`"annotations":{"summary":"login with {token}","description":"{card}{zero}","dashboard":"http://d/?api_key={cookie}","runbook":"http://u:{password}@r/"}}`)))
	s := &fakeSink{}
	if w := postAlerts(testHandler(s, func(c *Config) { c.Masker = redact.New() }), body); w.Code != 200 {
		t.Fatalf("got %d %s, want 200", w.Code, w.Body)
	}
	stored := string(s.msgs[0].Data)
	for name, secret := range secrets {
		if strings.Contains(stored, secret) {
			t.Errorf("the %s is stored: got %s, want it masked", name, stored)
		}
	}
	if strings.ContainsAny(stored, "\u200b\u202e\x1b") || strings.Contains(stored, `\u001b`) {
		t.Errorf("hidden characters are stored: got %q, want none", stored)
	}
	alerts, err := external.DecodeMessage(s.msgs[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	a := alerts[0]
	if a.Key != "f1" || a.Place != "p" || a.Level != "page" || a.Labels["xy"] == "" || a.Labels["token"] != "[REDACTED]" {
		t.Errorf("got %+v, want it cleaned and its token masked", a)
	}
}

// TestAlertsOfHiddenCharacters checks that texts of hidden characters alone become empty.
func TestAlertsOfHiddenCharacters(t *testing.T) {
	a := external.Alert{Labels: map[string]string{"\u200b": "\u202e", "a": "\ufeff"}, App: "\u200b"}
	if cleanAlert(&a, redact.New()); a.App != "" || !reflect.DeepEqual(a.Labels, map[string]string{"": "", "a": ""}) {
		t.Errorf("got app %q, labels %q, want both without hidden characters", a.App, a.Labels)
	}
}

func BenchmarkAlertmanager(b *testing.B) {
	data, err := os.ReadFile("alertmanager/testdata/grouped.json")
	if err != nil {
		b.Fatal(err)
	}
	for name, body := range map[string]string{
		"a group of two": string(data),
		"a full body":    groupOf(strings.Repeat(`{"status":"firing","labels":{"alertname":"HighErrorRate","b":"c"},"startsAt":"2026-01-28T15:30:00Z"},`, 9_999) + `{}`),
	} {
		b.Run(name, func(b *testing.B) {
			h := testHandler(&fakeSink{}, func(c *Config) { c.Masker = redact.New() })
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				h.sink = &fakeSink{}
				if w := postAlerts(h, body); w.Code != 200 {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}
