package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestLive: who reads along gets what is raised from then on, in the form of the
// stream.
func TestLive(t *testing.T) {
	b, d := onBus(t)
	b.raise(t, 2)
	eventually(t, "alert that is told", func() bool { return strings.Contains(d.get(t, pathMetrics).body, "tocsin_dashboard_alerts_total 2\n") })
	l := d.listen(t, "")
	b.raise(t, 3)
	e := l.next(t)
	if e.id != 3 || e.kind != "" || !strings.HasPrefix(e.data, `{"id":"alert003","severity":"error","category":"ci",`) {
		t.Errorf("%+v", e)
	}
	want(t, "then", l.ids(t, 2), "4-5")
}

// TestLastAlert: what was stored before the end is told to whoever listens then, however
// soon after it the end comes.
func TestLastAlert(t *testing.T) {
	b := newBus(t)
	for i := range 20 {
		d := start(t, b.config())
		d.awaitReady(t)
		readers := make([]*listener, 10)
		for k := range readers {
			readers[k] = d.listen(t, "")
		}
		b.raise(t, 1)
		for _, l := range readers { // who was told one reads along
			want(t, "the first", l.ids(t, 1), fmt.Sprint(2*i+1))
		}
		b.raise(t, 1)
		d.stop()
		for _, l := range readers {
			want(t, "the last", l.ids(t, 1), fmt.Sprint(2*i+2))
		}
	}
}

// TestPast: of the past a reader gets what it asks for, and then goes on without a
// gap.
func TestPast(t *testing.T) {
	b, d := onBus(t)
	b.raise(t, 10)
	for _, tt := range []struct {
		query, header string
		from          func(newest int) int // the first that comes
	}{
		{"?replay=3", "", func(n int) int { return n - 2 }},
		{"?replay=1000", "", func(int) int { return 1 }},
		{"?last_event_id=7", "", func(int) int { return 8 }},
		{"?last_event_id=0", "", func(int) int { return 1 }},
		{"?last_event_id=2&replay=1", "9", func(int) int { return 10 }}, // the header is newer
		{"", "4", func(int) int { return 5 }},
	} {
		var header []string
		if tt.header != "" {
			header = []string{"Last-Event-ID", tt.header}
		}
		newest := b.n
		eventually(t, "alert that is told", func() bool {
			return strings.Contains(d.get(t, pathMetrics).body, fmt.Sprintf("tocsin_dashboard_alerts_total %d\n", newest))
		})
		l := d.listen(t, tt.query, header...)
		from := tt.from(newest)
		want(t, tt.query+" "+tt.header, l.ids(t, 1), fmt.Sprint(from)) // what is past for it is settled now
		b.raise(t, 1)
		want(t, tt.query+" "+tt.header, l.ids(t, b.n-from), fmt.Sprintf("%d-%d", from+1, b.n))
		l.close()
	}
}

// TestOlderThanKept: what is not in memory any more comes from the bus.
func TestOlderThanKept(t *testing.T) {
	b := newBus(t)
	b.raise(t, 1500)
	b.publish(t, func() alert.Alert { a := b.alert(); a.Category = alert.Security; return a }())
	b.raise(t, 1200)
	d := start(t, b.config()) // it reads the newest 1024
	l := d.listen(t, "?last_event_id=3")
	want(t, "resumed", l.ids(t, 2701-3), "4-2701")
	only := d.listen(t, "?category=security&replay=5")
	want(t, "replayed", only.ids(t, 1), "1501")
	b.raise(t, 2)
	want(t, "live", l.ids(t, 2), "2702-2703")
}

// TestFilters: a reader gets what it wants, of the past and live.
func TestFilters(t *testing.T) {
	b, d := onBus(t)
	of := func(app string, category alert.Category, severity alert.Severity) {
		a := b.alert()
		a.App, a.Category, a.Severity = app, category, severity
		b.publish(t, a)
	}
	all := func() {
		of("web", alert.CI, alert.Error)
		of("web", alert.Errors, alert.Warning)
		of("shop", alert.Errors, alert.Info)
		of("Shop, the other", alert.Threshold, alert.Warning)
	}
	all()
	eventually(t, "alert that is told", func() bool { return strings.Contains(d.get(t, pathMetrics).body, "tocsin_dashboard_alerts_total 4\n") })
	listeners := map[string]*listener{}
	for query, ids := range filters {
		listeners[ids+"|"+query] = d.listen(t, "?replay=100&"+query)
	}
	all()
	for key, l := range listeners {
		ids, query, _ := strings.Cut(key, "|")
		n := 0
		for part := range strings.FieldsSeq(ids) {
			var from, to int
			if k, _ := fmt.Sscanf(part, "%d-%d", &from, &to); k == 2 {
				n += to - from + 1
			} else {
				n++
			}
		}
		want(t, query, l.ids(t, n), ids)
	}
}

// filters are queries, and what passes of eight alerts.
var filters = map[string]string{
	"category=ci":                       "1 5",
	"category=ci,threshold":             "1 4-5 8",
	"category=ci&category=threshold":    "1 4-5 8",
	"severity=warning":                  "1-2 4-6 8",
	"severity=error,warning":            "1-2 4-6 8",
	"app=web":                           "1-2 5-6",
	"app=shop&severity=info":            "3 7",
	"app=web,shop&category=errors":      "2-3 6-7",
	"category=%20ci%20,,&whatever=else": "1 5",
}

// TestRefusedStreams: what can't be meant is refused, and says what is allowed.
func TestRefusedStreams(t *testing.T) {
	_, d := onBus(t)
	for query, says := range map[string]string{
		"?category=nonsense":               "category must be one of [regression anomaly",
		"?category=ci,nonsense":            "category must be one of",
		"?severity=loud":                   "severity must be one of [info warning error]",
		"?replay=-1":                       "replay must be between 0 and 1000",
		"?replay=1001":                     "replay must be between 0 and 1000",
		"?replay=x":                        "replay must be between 0 and 1000",
		"?last_event_id=x":                 "Last-Event-ID",
		"?last_event_id=-1":                "Last-Event-ID",
		"?app=" + strings.Repeat("x", 300): "app must have at most 256 bytes",
		"?app=" + strings.Repeat("x,", 40): "app must have at most 32 values",
		"?app=%zz":                         "the query can't be read",
	} {
		a := d.get(t, pathStream+query)
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, says) || !strings.HasPrefix(a.body, `{"ok":false,"error":"`) {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	if a := d.send(t, http.MethodHead, pathStream, ""); a.status != http.StatusOK || a.header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Errorf("HEAD: %d %v", a.status, a.header)
	}
	if a := d.send(t, http.MethodPost, pathStream, "{}"); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", a.status, a.header)
	}
}

// TestBusRestart: a reader that stays misses nothing of what is raised meanwhile and
// after, and one that comes back neither.
func TestBusRestart(t *testing.T) {
	b, d := onBus(t)
	l := d.listen(t, "")
	b.raise(t, 3)
	want(t, "before", l.ids(t, 3), "1-3")
	for round := range 3 {
		b.down()
		b.up(t)
		b.raise(t, 5) // perhaps before the dashboard is back
		want(t, fmt.Sprintf("after restart %d", round), l.ids(t, 5), fmt.Sprintf("%d-%d", b.n-4, b.n))
	}
	back := d.listen(t, "?last_event_id=2")
	want(t, "who comes back", back.ids(t, b.n-2), fmt.Sprintf("3-%d", b.n))
}

// TestRenewed: alerts that begin their sequences again are all told, to who stays and
// to who comes back from before.
func TestRenewed(t *testing.T) {
	b, d := onBus(t)
	l := d.listen(t, "")
	b.raise(t, 6)
	want(t, "before", l.ids(t, 6), "1-6")
	for round, of := range []int{2, 6, 9} { // shorter than before, as long, longer
		b.down()
		renewed := newBus(t) // its streams take the place of those that there were
		first := b.n + 1
		renewed.n = b.n
		renewed.raise(t, of)
		renewed.down()
		replaceStore(t, b.dir.JetStream(), renewed.dir.JetStream())
		b.n = renewed.n
		b.up(t)
		want(t, fmt.Sprintf("who stays, %d", round), l.ids(t, of), fmt.Sprintf("%d-%d", first, b.n))
		back := d.listen(t, fmt.Sprintf("?last_event_id=%d", 100))
		want(t, fmt.Sprintf("who comes back, %d", round), back.ids(t, of), fmt.Sprintf("%d-%d", first, b.n))
		back.close()
	}
	b.raise(t, 1)
	want(t, "then", l.ids(t, 1), fmt.Sprint(b.n))
}

// TestLost: an alert that got lost on the way is read from the stream, also when none
// comes after it.
func TestLost(t *testing.T) {
	b, d := onBus(t)
	l := d.listen(t, "")
	b.raise(t, 1)
	want(t, "before", l.ids(t, 1), "1")
	republish := func(to *jetstream.RePublish) {
		t.Helper()
		admin, err := bus.Connect(t.Context(), bus.Config{Name: t.Name(), Role: bus.RoleProvisioner, Server: b.server, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		s, err := admin.JS.Stream(t.Context(), bus.StreamAlerts)
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.RePublish = to
		if _, err := admin.JS.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	republish(nil)
	b.raise(t, 3)
	want(t, "lost, and nothing after", l.ids(t, 3), "2-4")
	republish(nil)
	b.raise(t, 2)
	republish(&jetstream.RePublish{Source: bus.AllAlerts, Destination: bus.AllLiveAlerts})
	b.raise(t, 2)
	want(t, "lost, and more after", l.ids(t, 4), "5-8")
}

// TestNoAlert: what is no alert is skipped, and is no gap.
func TestNoAlert(t *testing.T) {
	b, d := onBus(t)
	l := d.listen(t, "")
	b.raise(t, 1)
	b.publishRaw(t, "alerts.web.ci.error", []byte("nonsense"))
	b.publishRaw(t, "alerts.web.ci.error", []byte(`{"severity":"loud"}`))
	b.raise(t, 1)
	want(t, "told", l.ids(t, 2), "1-2")
	b.publishRaw(t, "alerts.web.ci.error", []byte("nonsense"))
	again := d.listen(t, "?replay=10")
	want(t, "replayed", again.ids(t, 2), "1-2")
}

// TestOutsideText: an alert is passed on as it is stored, in one line, unless it
// holds what nobody should be shown.
func TestOutsideText(t *testing.T) {
	b, d := onBus(t)
	l := d.listen(t, "")
	stored := `{"id":"a","severity":"info","category":"ci","title":"<b>1 < 2 & 3</b>","timestamp":"2026-01-28T14:30:00.000Z","later_field":{"x":1}}`
	b.publishRaw(t, "alerts.web.ci.info", []byte(stored))
	want(t, "as it is", l.next(t).data, stored)
	b.publishRaw(t, "alerts.web.ci.info", []byte("{\n  \"id\": \"b\",\r\n \"severity\":\"info\",\"title\":\"two\\nlines\",\"timestamp\":\"2026-01-28T14:30:00.000Z\"}"))
	want(t, "in one line", l.next(t).data, `{"id":"b","severity":"info","title":"two\nlines","timestamp":"2026-01-28T14:30:00.000Z"}`)
	for _, hidden := range []string{"\u202e", `\u202e`} {
		b.publishRaw(t, "alerts.web.ci.info", []byte(`{"id":"b2","severity":"info","timestamp":"2026-01-28T14:30:00.000Z","later_field":"`+hidden+`"}`))
		if data := l.next(t).data; strings.Contains(data, hidden) {
			t.Error(data)
		}
	}
	b.publishRaw(t, "alerts.web.ci.info", []byte(`{"id":"c","severity":"info","title":"\u202eevil \u001b[2J ghp_0123456789abcdefghijABCDEFGHIJ012345","timestamp":"2026-01-28T14:30:00.000Z"}`))
	if data := l.next(t).data; strings.Contains(data, "ghp_") || strings.Contains(data, "202e") || strings.Contains(data, "\u202e") || strings.Contains(data, "001b") {
		t.Error(data)
	}
}

// TestReadersBound: 256 read along at once, each gets all; one more is refused until
// one has left.
func TestReadersBound(t *testing.T) {
	b, d := onBus(t)
	listeners := make([]*listener, maxReaders)
	for i := range listeners {
		listeners[i] = d.listen(t, "")
	}
	a := d.get(t, pathStream)
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "the limit is 256") {
		t.Errorf("answer = %d, %v, %s, want 503 with Retry-After and the limit", a.status, a.header, a.body)
	}
	b.raise(t, 20)
	for i, l := range listeners {
		want(t, fmt.Sprintf("reader %d", i), l.ids(t, 20), "1-20")
	}
	listeners[0].close()
	eventually(t, "free place", func() bool { return strings.Contains(d.get(t, pathMetrics).body, "tocsin_dashboard_readers 255\n") })
	d.listen(t, "?replay=1").ids(t, 1)
}

// TestUnreachableBus: without a bus the page is there, says so, and readers get what comes
// once it is.
func TestUnreachableBus(t *testing.T) {
	b := newBus(t)
	b.raise(t, 2)
	b.down()
	d := start(t, b.config())
	if a := d.get(t, pathReady); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "unreachable") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := d.get(t, pathAlerts); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	for path, status := range map[string]int{"/": 200, pathAlive: 200, pathSession: 200} {
		if a := d.get(t, path); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	live, back := d.listen(t, ""), d.listen(t, "?last_event_id=1")
	b.up(t)
	b.raise(t, 2)
	want(t, "who came before the bus", live.ids(t, 2), "3-4")
	want(t, "who came back before the bus", back.ids(t, 3), "2-4")
}

// TestCluster: a dashboard on a cluster misses nothing while its servers are
// restarted one after the other.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it restarts three servers")
	}
	rig := bustest.Cluster(t, 3)
	rig.Provision(bus.Layout{Replicas: 3})
	d := start(t, Config{Bus: rig.Config(bus.RoleDashboard), NoActions: "not needed here"})
	d.awaitReady(t)
	l := d.listen(t, "")
	b := &testBus{detector: rig.Connect(bus.RoleDetector)}
	put := func(n int) {
		t.Helper()
		for range n {
			a := b.alert()
			data, err := a.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "stored alert", func() bool {
				_, err := b.detector.JS.PublishMsg(t.Context(), &nats.Msg{
					Subject: bus.AlertSubject(a), Data: data, Header: nats.Header{nats.MsgIdHdr: {a.ID}},
				})
				return err == nil
			})
		}
	}
	put(20)
	for i := range 3 {
		rig.Stop(i)
		put(10)
		rig.Start(i)
		rig.Ready()
		put(10)
	}
	want(t, "told", l.ids(t, b.n), fmt.Sprintf("1-%d", b.n))
}
