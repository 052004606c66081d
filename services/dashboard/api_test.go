package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// TestDetectorRequests: requests are forwarded to the detector, and its answers are cleaned.
func TestDetectorRequests(t *testing.T) {
	b, d := onBus(t)
	d.awaitActions(t)
	d.get(t, pathStatus).check(t, "status without a detector", http.StatusServiceUnavailable, "the detector does not answer")
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
		d.send(t, tt.method, tt.path, tt.body).check(t, fmt.Sprintf("%s %.80s %.60s", tt.method, tt.path, tt.body), tt.status, tt.want)
	}
	text := d.get(t, pathMetrics).body
	for _, line := range []string{
		`tocsin_dashboard_desk_requests_total{result="ok",what="noise change"} 3`,
		`tocsin_dashboard_desk_requests_total{result="refused",what="noise change"} 4`,
		`tocsin_dashboard_desk_requests_total{result="failed",what="noise change"} 1`,
	} {
		checkContains(t, "metrics", text, line+"\n")
	}
}

// TestBodies: bodies that the page does not send are refused.
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
		{"not JSON", "nonsense", "application/json", 400, "the body must be one JSON object"},
		{"two values", `{}{}`, "application/json", 400, "the body must be one JSON object"},
		{"a list", `[]`, "application/json", 400, `the body must be one JSON object"`},
		{"wrong type", `{"app":1}`, "application/json", 400, "app must not be a number"},
		{"charset", `{}`, "application/json; charset=utf-8", 400, "silence must have one of dedup_key, category, app"},
	} {
		a := d.send(t, http.MethodPost, pathSilences, tt.body, "Content-Type", tt.media)
		a.check(t, tt.name, tt.status, tt.want)
		a.check(t, tt.name, tt.status, `{"ok":false,"error":"`)
	}
}

// TestSilences: silences and acknowledgements of the page are stored on the bus, and can be
// ended.
func TestSilences(t *testing.T) {
	b, d := onBus(t)
	d.awaitActions(t)
	checkEqual(t, "initial answer", d.get(t, pathSilences).body, `{"silences":[],"acks":[]}`+"\n")
	for body, message := range map[string]string{
		`{}`:                                         "silence must have one of dedup_key, category, app",
		`{"category":"nonsense"}`:                    "category must be one of [regression",
		`{"app":"web","minutes":0}`:                  "minutes must be between 1 and 10080",
		`{"app":"web","minutes":10081}`:              "minutes must be between 1 and 10080",
		`{"app":"web","minutes":1.5}`:                "minutes must not be a number 1.5",
		`{"dedup_key":"errors:web:foo…"}`:            "dedup_key is truncated",
		`{"app":"` + strings.Repeat("x", 300) + `"}`: "app must be a text of at most 256 bytes",
		`{"app":"web","reason":"` + strings.Repeat("x", 3000) + `"}`: "reason must be a text of at most 2048 bytes",
	} {
		d.send(t, http.MethodPost, pathSilences, body).check(t, fmt.Sprintf("silence %.60s", body), http.StatusBadRequest, message)
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
	if !added.OK || s.ID == "" {
		t.Errorf("answer = %+v, want ok and an id", added)
	}
	checkEqual(t, "app, by and reason", fmt.Sprint([]string{s.App, s.By, s.Reason}), "[web the dashboard deploy]")
	checkEqual(t, "duration", s.Until.Sub(s.Created).String(), "30m0s")
	c, err := bus.Connect(t.Context(), bus.Config{Name: "g", Role: bus.RoleGateway, Server: b.server, Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if set, err := silence.Read(t.Context(), c); err != nil || len(set.Silences) != 1 || set.Silences[0].ID != s.ID {
		t.Errorf("silences on the bus = %+v (%v), want one with id %s", set.Silences, err, s.ID)
	}
	checkContains(t, "silences", d.get(t, pathSilences).body, `"id":"`+s.ID+`"`)
	ended := d.send(t, http.MethodDelete, pathSilences+"/"+s.ID, "")
	ended.check(t, "end of the silence", http.StatusOK, "")
	checkEqual(t, "end of the silence", ended.body, "{\"ok\":true}\n")
	d.send(t, http.MethodDelete, pathSilences+"/"+s.ID, "").check(t, "second end of the silence", http.StatusNotFound, "no active silence")

	b.raise(t, 2)
	resolution := b.alert()
	resolution.Resolves = "alert001"
	b.publish(t, resolution)
	for body, status := range map[string]int{`{}`: 400, `{"alert_id":"no such"}`: 404, `{"alert_id":"alert001"}`: 409, `{"alert_id":"alert002"}`: 200} {
		d.send(t, http.MethodPost, pathAcks, body).check(t, "acknowledge "+body, status, "")
	}
	checkContains(t, "silences", d.get(t, pathSilences).body, `{"silences":[],"acks":[{"alert_id":"alert002","app":"web",`)
	for _, status := range []int{200, 404} {
		d.send(t, http.MethodDelete, pathAcks+"/alert002", "").check(t, "unacknowledge", status, "")
	}
}

// TestNotices: the messages of agents to their users are cleaned, newest first.
func TestNotices(t *testing.T) {
	b, d := onBus(t)
	d.awaitActions(t)
	checkEqual(t, "initial answer", d.get(t, pathNotices).body, `{"notices":[]}`+"\n")
	gateway, err := bus.Connect(t.Context(), bus.Config{Name: "g", Role: bus.RoleGateway, Server: b.server, Logger: discard()})
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
	type notice struct {
		Message, Level, Client string
		Seq                    uint64
		Received               time.Time
	}
	var got struct{ Notices []notice }
	d.get(t, pathNotices+"?limit=3").json(t, &got)
	for i := range got.Notices {
		if got.Notices[i].Received.IsZero() {
			t.Errorf("received of notice %d = %s, want a time", i, got.Notices[i].Received)
		}
		got.Notices[i].Received = time.Time{}
	}
	want := []notice{{Message: "␛[2J three", Level: "warn", Client: "c", Seq: 3}, {Message: "two [REDACTED:github]", Level: "warn", Client: "c", Seq: 2}}
	if diff := cmp.Diff(want, got.Notices); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
}

// TestHealth: all services that answer are listed, with this dashboard, and the answer is
// cached.
func TestHealth(t *testing.T) {
	b, d := onBus(t)
	d.awaitActions(t)
	var queries atomic.Int64
	sub, err := b.detector.NC.Subscribe(query.SubjectHealth, func(m *nats.Msg) {
		queries.Add(1)
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
	s := got.Services[0]
	checkEqual(t, "service and version", s.Service+" "+s.Version, "dashboard v1")
	if !s.OK || s.Dashboard == nil {
		t.Errorf("health = %+v, want ok, with the dashboard's own figures", s)
	}
	before := queries.Load()
	for range 20 {
		d.get(t, pathHealth)
	}
	if queries.Load() > before+1 {
		t.Errorf("20 requests made %d queries, want at most 1", queries.Load()-before)
	}
}

// TestWithoutActions: without actions, alerts are sent, and actions are refused with the reason.
func TestWithoutActions(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.Actions, cfg.NoActions = nil, "alerts only: set TOCSIN_DESK_CREDS"
	d := start(t, cfg)
	d.awaitReady(t)
	b.raise(t, 1)
	d.listen(t, "?last_event_id=0").ids(t, 1)
	for method, path := range map[string]string{"GET": pathSilences, "POST": pathAcks, "DELETE": pathAcks + "/x"} {
		d.send(t, method, path, `{"alert_id":"x"}`).check(t, method+" "+path, http.StatusServiceUnavailable, "TOCSIN_DESK_CREDS")
	}
	var s struct {
		Desk       bool   `json:"desk"`
		DeskReason string `json:"desk_reason"`
	}
	d.get(t, pathSession).json(t, &s)
	if s.Desk || s.DeskReason != cfg.NoActions {
		t.Errorf("session = %+v, want no desk, and the reason %q", s, cfg.NoActions)
	}
	if err := func() error { _, err := (Config{Logger: discard()}).complete(); return err }(); err == nil {
		t.Error("complete without Actions and NoActions = nil, want an error")
	}
}

// TestAlerts: stored alerts are read in pages, newest first.
func TestAlerts(t *testing.T) {
	b, d := onBus(t)
	checkEqual(t, "initial answer", d.get(t, pathAlerts).body, `{"alerts":[],"first":0,"last":0}`+"\n")
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
				t.Fatalf("alert with sequence %d = %s, want alert%03d", a.Seq, a.Alert.ID, a.Seq)
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
			t.Errorf("%s: alerts %s of %d-%d, want %s of 1-1203", query, got, first, last, want)
		}
	}
	for query, message := range map[string]string{"?limit=0": "limit", "?limit=1001": "limit", "?before=x": "before", "?before=0": "before"} {
		d.get(t, pathAlerts+query).check(t, query, http.StatusBadRequest, message)
	}
	admin, err := bus.Connect(t.Context(), bus.Config{Name: "p", Role: bus.RoleProvisioner, Server: b.server, Logger: discard()})
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
		t.Errorf("alerts after 1100 were deleted: %s of %d-%d, want 1101-1203 of 1101-1203", spans(seqs), first, last)
	}
}
