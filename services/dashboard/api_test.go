package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// fakeDetector answers with the request, and refuses the requests that a test names.
func (b *testBus) fakeDetector(t *testing.T) {
	t.Helper()
	service, err := micro.AddService(b.detector.NC, micro.Config{Name: query.Service, Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Stop() }) // the connection may have ended before
	echo := func(r micro.Request) {
		if strings.Contains(string(r.Data()), "refuse me") {
			_ = r.Error("400", "pattern must be another", nil)
			return
		}
		if strings.Contains(string(r.Data()), "fail") {
			_ = r.Error("503", "the detector is too busy to answer: try again", nil)
			return
		}
		_ = r.Respond(fmt.Appendf(nil, `{"asked":%s,"text":"\u202e\u001bx","number":12345678901234567890}`, r.Data()))
	}
	events := func(r micro.Request) {
		_ = r.Respond([]byte(`{"events":[{"kind":"log","app":"web","log":{"level":"error","message":"token ghp_0123456789abcdefghijABCDEFGHIJ012345\nline two"},"received":"2026-01-28T14:30:00Z"}]}`))
	}
	for subject, answers := range map[string]func(micro.Request){
		query.SubjectStatus: echo, query.SubjectNoise: echo, query.SubjectEvents: events,
	} {
		if err := service.AddEndpoint("q", micro.HandlerFunc(answers), micro.WithEndpointSubject(subject)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.detector.NC.Flush(); err != nil { // the server knows of them
		t.Fatal(err)
	}
}

// awaitActions waits until actions are possible.
func (d *running) awaitActions(t *testing.T) {
	t.Helper()
	eventually(t, "actions", func() bool { return d.get(t, pathSilences).status == http.StatusOK })
}

// TestAsk: what a person asks goes to the detector, and its answer comes clean.
func TestAsk(t *testing.T) {
	b, d := onBus(t)
	d.awaitActions(t)
	if a := d.get(t, pathStatus); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "the detector does not answer") {
		t.Errorf("without a detector: %d %s", a.status, a.body)
	}
	b.fakeDetector(t)
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", pathStatus, "", 200, `{"asked":null,"number":12345678901234567890,"text":"␛x"}`},
		{"GET", pathNoise + "?app=web", "", 200, `{"asked":{"action":"list","app":"web"},"number":12345678901234567890,"text":"␛x"}`},
		{"POST", pathNoise, `{"action":"add","app":"web","pattern":"polling"}`, 200, `"asked":{"action":"add","app":"web","pattern":"polling"}`},
		{"POST", pathNoise, `{"action":"remove","rule_id":"r1"}`, 200, `"asked":{"action":"remove","rule_id":"r1"}`},
		{"POST", pathNoise, `{"action":"auto_detect"}`, 200, `"asked":{"action":"auto_detect"}`},
		{"POST", pathNoise, `{"action":"add","pattern":"refuse me"}`, 400, `pattern must be another`},
		{"POST", pathNoise, `{"action":"add","pattern":"fail"}`, 503, `too busy`},
		{"POST", pathNoise, `{"action":"list"}`, 400, `action must be one of add, remove, auto_detect`},
		{"POST", pathNoise, `{}`, 400, `action must be one of`},
		{"POST", pathNoise, `{"action":"add","pattern":"` + strings.Repeat("x", 3000) + `"}`, 400, `pattern must be a text of at most 2048 bytes`},
		{"GET", pathEvents + "?app=web&kind=log,network&since=2026-01-28T14:30:00Z&until=2026-01-28T14:31:00.5Z&limit=7", "", 200, `"message":"token [REDACTED:github]\nline two"`},
		{"GET", pathEvents + "?kind=nonsense", "", 400, `kind must be one of [log`},
		{"GET", pathEvents + "?kind=log,log,log,log,log,log,log,log", "", 400, `kind must be named once each`},
		{"GET", pathEvents + "?since=yesterday", "", 400, `since must be a time such as`},
		{"GET", pathEvents + "?limit=201", "", 400, `limit must be between 1 and 200`},
		{"GET", pathEvents + "?app=" + strings.Repeat("x", 3000), "", 400, `app must be a text of at most 2048 bytes`},
		{"GET", pathVitals, "", 503, `the detector does not answer`},
	} {
		a := d.send(t, tt.method, tt.path, tt.body)
		if a.status != tt.status || !strings.Contains(a.body, tt.want) {
			t.Errorf("%s %.80s %.60s: %d %s", tt.method, tt.path, tt.body, a.status, a.body)
		}
	}
	text := d.get(t, pathMetrics).body
	for _, line := range []string{
		`tocsin_dashboard_desk_requests_total{result="ok",what="noise change"} 3`,
		`tocsin_dashboard_desk_requests_total{result="refused",what="noise change"} 4`,
		`tocsin_dashboard_desk_requests_total{result="failed",what="noise change"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in %s", line, text)
		}
	}
}

// TestBodies: what no page of ours sends is refused before the bus is asked.
func TestBodies(t *testing.T) {
	_, d := onBus(t)
	d.awaitActions(t)
	for _, tt := range []struct {
		name, body, media string
		status            int
		want              string
	}{
		{"form", "app=web", "application/x-www-form-urlencoded", 415, "Content-Type must be application/json"},
		{"plain text", `{"app":"web"}`, "text/plain", 415, "Content-Type must be application/json"},
		{"too large", `{"app":"` + strings.Repeat("x", maxBody) + `"}`, "application/json", 413, "the body is over 65536 bytes"},
		{"no JSON", "nonsense", "application/json", 400, "the body must be one JSON object"},
		{"two values", `{}{}`, "application/json", 400, "the body must be one JSON object"},
		{"a list", `[]`, "application/json", 400, `the body must be one JSON object"`},
		{"wrong type", `{"app":1}`, "application/json", 400, "app must not be a number"},
		{"charset", `{}`, "application/json; charset=utf-8", 400, "silence must have one of dedup_key, category, app"},
	} {
		a := d.send(t, http.MethodPost, pathSilences, tt.body, "Content-Type", tt.media)
		if a.status != tt.status || !strings.Contains(a.body, tt.want) || !strings.HasPrefix(a.body, `{"ok":false,"error":"`) {
			t.Errorf("%s: %d %s", tt.name, a.status, a.body)
		}
	}
}

// TestSilences: what is silenced and acknowledged on the page is on the bus for
// everybody, and can be taken back.
func TestSilences(t *testing.T) {
	b, d := onBus(t)
	d.awaitActions(t)
	want(t, "at first", d.get(t, pathSilences).body, `{"silences":[],"acks":[]}`+"\n")
	for body, says := range map[string]string{
		`{}`:                                         "silence must have one of dedup_key, category, app",
		`{"category":"nonsense"}`:                    "category must be one of [regression",
		`{"app":"web","minutes":0}`:                  "minutes must be between 1 and 10080",
		`{"app":"web","minutes":10081}`:              "minutes must be between 1 and 10080",
		`{"app":"web","minutes":1.5}`:                "minutes must not be a number 1.5",
		`{"dedup_key":"errors:web:foo…"}`:            "dedup_key is truncated",
		`{"app":"` + strings.Repeat("x", 300) + `"}`: "app must be a text of at most 256 bytes",
		`{"app":"web","reason":"` + strings.Repeat("x", 3000) + `"}`: "reason must be a text of at most 2048 bytes",
	} {
		if a := d.send(t, http.MethodPost, pathSilences, body); a.status != http.StatusBadRequest || !strings.Contains(a.body, says) {
			t.Errorf("%.60s: %d %s", body, a.status, a.body)
		}
	}
	var added struct {
		OK      bool
		Silence struct {
			ID, App, By, Reason string
			Created, Until      time.Time
		}
	}
	d.send(t, http.MethodPost, pathSilences, `{"app":"web","category":"ci","minutes":30,"reason":"deploy"}`).json(t, &added)
	s := added.Silence
	if !added.OK || s.ID == "" || s.App != "web" || s.By != "the dashboard" || s.Reason != "deploy" || s.Until.Sub(s.Created) != 30*time.Minute {
		t.Errorf("%+v", added)
	}
	c, err := bus.Connect(t.Context(), bus.Config{Name: "g", Role: bus.RoleGateway, Server: b.server, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if set, err := silence.Read(t.Context(), c); err != nil || len(set.Silences) != 1 || set.Silences[0].ID != s.ID {
		t.Errorf("on the bus: %+v %v", set, err)
	}
	if text := d.get(t, pathSilences).body; !strings.Contains(text, `"id":"`+s.ID+`"`) {
		t.Error(text)
	}
	if a := d.send(t, http.MethodDelete, pathSilences+"/"+s.ID, ""); a.status != 200 || a.body != "{\"ok\":true}\n" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := d.send(t, http.MethodDelete, pathSilences+"/"+s.ID, ""); a.status != 404 || !strings.Contains(a.body, "no active silence") {
		t.Errorf("%d %s", a.status, a.body)
	}

	b.raise(t, 2)
	over := b.alert()
	over.Resolves = "alert001"
	b.publish(t, over)
	for body, status := range map[string]int{`{}`: 400, `{"alert_id":"no such"}`: 404, `{"alert_id":"alert001"}`: 409, `{"alert_id":"alert002"}`: 200} {
		if a := d.send(t, http.MethodPost, pathAcks, body); a.status != status {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if text := d.get(t, pathSilences).body; !strings.HasPrefix(text, `{"silences":[],"acks":[{"alert_id":"alert002","app":"web",`) {
		t.Error(text)
	}
	for _, status := range []int{200, 404} {
		if a := d.send(t, http.MethodDelete, pathAcks+"/alert002", ""); a.status != status {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

// TestNotices: the messages of agents to their users, newest first and cleaned.
func TestNotices(t *testing.T) {
	b, d := onBus(t)
	d.awaitActions(t)
	want(t, "at first", d.get(t, pathNotices).body, `{"notices":[]}`+"\n")
	gateway, err := bus.Connect(t.Context(), bus.Config{Name: "g", Role: bus.RoleGateway, Server: b.server, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer gateway.Close()
	for i, text := range []string{"one", "two ghp_0123456789abcdefghijABCDEFGHIJ012345", "\\u001b[2J three"} {
		data := fmt.Appendf(nil, `{"message":"%s","level":"warn","context":"llm","client":"c","timestamp":"2026-01-28T14:30:0%d.000Z"}`, text, i)
		if _, err := gateway.JS.Publish(t.Context(), bus.NoticeSubject("llm"), data); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := gateway.JS.Publish(t.Context(), bus.NoticeSubject("llm"), []byte("nonsense")); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Notices []struct {
			Message, Level, Client string
			Seq                    uint64
			Received               time.Time
		}
	}
	d.get(t, pathNotices+"?limit=3").json(t, &got)
	if len(got.Notices) != 2 || got.Notices[0].Message != "␛[2J three" || got.Notices[1].Message != "two [REDACTED:github]" ||
		got.Notices[0].Seq != 3 || got.Notices[0].Received.IsZero() || got.Notices[0].Level != "warn" {
		t.Errorf("%+v", got)
	}
}

// TestHealth: all services that answer are listed, this dashboard among them, and
// many who ask are one question.
func TestHealth(t *testing.T) {
	b, d := onBus(t)
	d.awaitActions(t)
	var asked atomic.Int64
	sub, err := b.detector.NC.Subscribe(query.SubjectHealth, func(m *nats.Msg) {
		asked.Add(1)
		data, _ := json.Marshal(query.Health{Service: "detector", ID: "d1", OK: true, Host: "h"})
		_ = m.Respond(data)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var got struct{ Services []query.Health }
	eventually(t, "health of both", func() bool {
		d.get(t, pathHealth).json(t, &got)
		return len(got.Services) == 2
	})
	if s := got.Services[0]; s.Service != "dashboard" || !s.OK || s.Version != "v1" || s.Dashboard == nil {
		t.Errorf("%+v", s)
	}
	before := asked.Load()
	for range 20 {
		d.get(t, pathHealth)
	}
	if asked.Load() > before+1 {
		t.Errorf("asked %d times", asked.Load()-before)
	}
}

// TestWithoutActions expects alerts, and the reason why there is no more.
func TestWithoutActions(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.Actions, cfg.NoActions = nil, "alerts only: set TOCSIN_DESK_CREDS"
	d := start(t, cfg)
	d.awaitReady(t)
	b.raise(t, 1)
	d.listen(t, "?last_event_id=0").ids(t, 1)
	for method, path := range map[string]string{"GET": pathSilences, "POST": pathAcks, "DELETE": pathAcks + "/x"} {
		if a := d.send(t, method, path, `{"alert_id":"x"}`); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "TOCSIN_DESK_CREDS") {
			t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
		}
	}
	var s struct {
		Desk       bool   `json:"desk"`
		DeskReason string `json:"desk_reason"`
	}
	d.get(t, pathSession).json(t, &s)
	if s.Desk || s.DeskReason != cfg.NoActions {
		t.Errorf("%+v", s)
	}
	if err := func() error { _, err := (Config{Logger: quiet()}).complete(); return err }(); err == nil {
		t.Error("the answer lacks the reason why actions are not possible")
	}
}

// TestAlerts: the history, newest first, page by page.
func TestAlerts(t *testing.T) {
	b, d := onBus(t)
	want(t, "at first", d.get(t, pathAlerts).body, `{"alerts":[],"first":0,"last":0}`+"\n")
	b.raise(t, 1203)
	page := func(query string) (seqs []int, first, last uint64) {
		t.Helper()
		var got struct {
			Alerts []struct {
				Seq   uint64
				Alert struct{ ID string }
			}
			First, Last uint64
		}
		d.get(t, pathAlerts+query).json(t, &got)
		for _, a := range got.Alerts {
			if a.Alert.ID != fmt.Sprintf("alert%03d", a.Seq) {
				t.Fatalf("%+v", a)
			}
			seqs = append([]int{int(a.Seq)}, seqs...)
		}
		return seqs, got.First, got.Last
	}
	for query, want := range map[string]string{
		"":                        "704-1203",
		"?limit=1000":             "204-1203",
		"?limit=1":                "1203",
		"?before=704":             "204-703",
		"?before=204":             "1-203",
		"?before=1":               "",
		"?before=2":               "1",
		"?before=99999&limit=2":   "1202-1203",
		"?before=1204&limit=1000": "204-1203",
	} {
		seqs, first, last := page(query)
		if got := spans(seqs); got != want || first != 1 || last != 1203 {
			t.Errorf("%s: %s of %d-%d, want %s", query, got, first, last, want)
		}
	}
	for query, says := range map[string]string{"?limit=0": "limit", "?limit=1001": "limit", "?before=x": "before", "?before=0": "before"} {
		if a := d.get(t, pathAlerts+query); a.status != http.StatusBadRequest || !strings.Contains(a.body, says) {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	admin, err := bus.Connect(t.Context(), bus.Config{Name: "p", Role: bus.RoleProvisioner, Server: b.server, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	s, err := admin.JS.Stream(t.Context(), bus.StreamAlerts)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 1100; seq++ {
		if err := s.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	if seqs, first, last := page("?limit=1000"); spans(seqs) != "1101-1203" || first != 1101 || last != 1203 {
		t.Errorf("after some were dropped: %s of %d-%d", spans(seqs), first, last)
	}
}
