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
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// TestLiveAlerts: a reader gets the alerts that are raised after it joined.
func TestLiveAlerts(t *testing.T) {
	b, d := onBus(t)
	b.raise(t, 2)
	d.awaitMetric(t, "tocsin_dashboard_alerts_total 2")
	l := d.listen(t, "")
	b.raise(t, 3)
	e := l.next(t)
	if e.id != 3 || e.kind != "" {
		t.Errorf("event = id %d of type %q, want id 3 without a type", e.id, e.kind)
	}
	if want := `{"id":"alert003","severity":"error","category":"ci",`; !strings.HasPrefix(e.data, want) {
		t.Errorf("data = %s, want %s at its beginning", e.data, want)
	}
	checkEqual(t, "next alerts", l.ids(t, 2), "4-5")
}

// TestLastAlert: at shutdown, readers still get the alerts that were stored before.
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
		for _, l := range readers { // a reader that got one has joined
			checkEqual(t, "first alert", l.ids(t, 1), fmt.Sprint(2*i+1))
		}
		b.raise(t, 1)
		d.stop()
		for _, l := range readers {
			checkEqual(t, "last alert", l.ids(t, 1), fmt.Sprint(2*i+2))
		}
	}
}

// TestReplayAndResume: a reader gets the past alerts that it requests, and then the live ones
// without a gap.
func TestReplayAndResume(t *testing.T) {
	b, d := onBus(t)
	b.raise(t, 10)
	for _, tt := range []struct {
		query, header string
		from          func(newest int) int // the first alert that is sent
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
		d.awaitMetric(t, fmt.Sprintf("tocsin_dashboard_alerts_total %d", newest))
		l := d.listen(t, tt.query, header...)
		from := tt.from(newest)
		checkEqual(t, tt.query+" "+tt.header, l.ids(t, 1), fmt.Sprint(from)) // the reader has joined now
		b.raise(t, 1)
		checkEqual(t, tt.query+" "+tt.header, l.ids(t, b.n-from), fmt.Sprintf("%d-%d", from+1, b.n))
		l.close()
	}
}

// TestOlderThanKept: alerts that are no longer in memory are read from the bus.
func TestOlderThanKept(t *testing.T) {
	b := newBus(t)
	b.raise(t, 1500)
	b.publish(t, func() alert.Alert { a := b.alert(); a.Category = alert.Security; return a }())
	b.raise(t, 1200)
	d := start(t, b.config()) // it loads the newest 1,000
	l := d.listen(t, "?last_event_id=3")
	checkEqual(t, "alerts after a resume", l.ids(t, 2701-3), "4-2701")
	only := d.listen(t, "?category=security&replay=5")
	checkEqual(t, "replayed alerts", only.ids(t, 1), "1501")
	b.raise(t, 2)
	checkEqual(t, "live alerts", l.ids(t, 2), "2702-2703")
}

// TestFilters: a reader gets the alerts that match its filter, replayed and live.
func TestFilters(t *testing.T) {
	b, d := onBus(t)
	publish := func(app string, category alert.Category, severity alert.Severity) {
		a := b.alert()
		a.App, a.Category, a.Severity = app, category, severity
		b.publish(t, a)
	}
	publishFour := func() {
		publish("web", alert.CI, alert.Error)
		publish("web", alert.Errors, alert.Warning)
		publish("shop", alert.Errors, alert.Info)
		publish("Shop, the other", alert.Threshold, alert.Warning)
	}
	publishFour()
	d.awaitMetric(t, "tocsin_dashboard_alerts_total 4")
	listeners := map[string]*listener{}
	for query, ids := range filters {
		listeners[ids+"|"+query] = d.listen(t, "?replay=100&"+query)
	}
	publishFour()
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
		checkEqual(t, query, l.ids(t, n), ids)
	}
}

// filters has the numbers of the alerts, of eight, that match each query.
var filters = map[string]string{
	"category=ci":                           "1 5",
	"category=ci,threshold":                 "1 4-5 8",
	"category=ci&category=threshold":        "1 4-5 8",
	"severity=warning":                      "1-2 4-6 8",
	"severity=error,warning":                "1-2 4-6 8",
	"app=web":                               "1-2 5-6",
	"app=shop&severity=info":                "3 7",
	"app=web,shop&category=errors":          "2-3 6-7",
	"category=%20ci%20,,&unknown=parameter": "1 5",
}

// TestRefusedStreams: invalid parameters are refused with the allowed values.
func TestRefusedStreams(t *testing.T) {
	_, d := onBus(t)
	for query, message := range map[string]string{
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
		a.check(t, query, http.StatusBadRequest, message)
		a.check(t, query, http.StatusBadRequest, `{"ok":false,"error":"`)
	}
	a := d.send(t, http.MethodHead, pathStream, "")
	a.check(t, "HEAD", http.StatusOK, "")
	a.checkHeader(t, "HEAD", "Content-Type", "text/event-stream; charset=utf-8")
	a = d.send(t, http.MethodPost, pathStream, "{}")
	a.check(t, "POST", http.StatusMethodNotAllowed, "")
	a.checkHeader(t, "POST", "Allow", "GET, HEAD")
}

// TestBusRestart: a connected reader and one that reconnects miss no alert over restarts of the
// bus.
func TestBusRestart(t *testing.T) {
	b, d := onBus(t)
	l := d.listen(t, "")
	b.raise(t, 3)
	checkEqual(t, "alerts before the restarts", l.ids(t, 3), "1-3")
	for round := range 3 {
		b.down()
		b.up(t)
		b.raise(t, 5) // perhaps before the dashboard is connected again
		checkEqual(t, fmt.Sprintf("alerts after restart %d", round), l.ids(t, 5), fmt.Sprintf("%d-%d", b.n-4, b.n))
	}
	back := d.listen(t, "?last_event_id=2")
	checkEqual(t, "alerts of a reader that reconnects", back.ids(t, b.n-2), fmt.Sprintf("3-%d", b.n))
}

// TestRecreatedStream: connected readers and those that reconnect get all alerts of a recreated
// stream.
func TestRecreatedStream(t *testing.T) {
	b, d := onBus(t)
	l := d.listen(t, "")
	b.raise(t, 6)
	checkEqual(t, "alerts of the first stream", l.ids(t, 6), "1-6")
	for round, size := range []int{2, 6, 9} { // shorter than the first stream, as long, longer
		b.down()
		recreated := newBus(t) // its store replaces that of b
		first := b.n + 1
		recreated.n = b.n
		recreated.raise(t, size)
		recreated.down()
		replaceStore(t, b.dir.JetStream(), recreated.dir.JetStream())
		b.n = recreated.n
		b.up(t)
		checkEqual(t, fmt.Sprintf("alerts of a connected reader, round %d", round), l.ids(t, size), fmt.Sprintf("%d-%d", first, b.n))
		back := d.listen(t, fmt.Sprintf("?last_event_id=%d", 100))
		checkEqual(t, fmt.Sprintf("alerts of a reader that reconnects, round %d", round), back.ids(t, size), fmt.Sprintf("%d-%d", first, b.n))
		back.close()
	}
	b.raise(t, 1)
	checkEqual(t, "next alert", l.ids(t, 1), fmt.Sprint(b.n))
}

// TestLostLiveMessages: alerts whose live messages are lost are read from the stream, also if no
// other alert follows.
func TestLostLiveMessages(t *testing.T) {
	b, d := onBus(t)
	l := d.listen(t, "")
	b.raise(t, 1)
	checkEqual(t, "first alert", l.ids(t, 1), "1")
	republish := func(to *jetstream.RePublish) {
		t.Helper()
		admin, err := bus.Connect(t.Context(), bus.Config{Name: t.Name(), Role: bus.RoleProvisioner, Server: b.server, Logger: discard()})
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
	checkEqual(t, "alerts without live messages", l.ids(t, 3), "2-4")
	republish(nil)
	b.raise(t, 2)
	republish(&jetstream.RePublish{Source: bus.AllAlerts, Destination: bus.AllLiveAlerts})
	b.raise(t, 2)
	checkEqual(t, "alerts without and with live messages", l.ids(t, 4), "5-8")
}

// TestInvalidAlerts: messages that are not alerts are skipped.
func TestInvalidAlerts(t *testing.T) {
	b, d := onBus(t)
	l := d.listen(t, "")
	b.raise(t, 1)
	b.publishRaw(t, "alerts.web.ci.error", []byte("nonsense"))
	b.publishRaw(t, "alerts.web.ci.error", []byte(`{"severity":"loud"}`))
	b.raise(t, 1)
	checkEqual(t, "live alerts", l.ids(t, 2), "1-2")
	b.publishRaw(t, "alerts.web.ci.error", []byte("nonsense"))
	again := d.listen(t, "?replay=10")
	checkEqual(t, "replayed alerts", again.ids(t, 2), "1-2")
}

// TestOutsideText: an alert is sent as it is stored, in one line, without secrets and invisible
// characters.
func TestOutsideText(t *testing.T) {
	b, d := onBus(t)
	l := d.listen(t, "")
	stored := `{"id":"a","severity":"info","category":"ci","title":"<b>1 < 2 & 3</b>","timestamp":"2026-01-28T14:30:00.000Z","later_field":{"x":1}}`
	b.publishRaw(t, "alerts.web.ci.info", []byte(stored))
	checkEqual(t, "data", l.next(t).data, stored)
	b.publishRaw(t, "alerts.web.ci.info", []byte("{\n  \"id\": \"b\",\r\n \"severity\":\"info\",\"title\":\"two\\nlines\",\"timestamp\":\"2026-01-28T14:30:00.000Z\"}"))
	checkEqual(t, "data in one line", l.next(t).data, `{"id":"b","severity":"info","title":"two\nlines","timestamp":"2026-01-28T14:30:00.000Z"}`)
	for _, hidden := range []string{"\u202e", `\u202e`} {
		b.publishRaw(t, "alerts.web.ci.info", []byte(`{"id":"b2","severity":"info","timestamp":"2026-01-28T14:30:00.000Z","later_field":"`+hidden+`"}`))
		checkLacks(t, "data", l.next(t).data, hidden)
	}
	b.publishRaw(t, "alerts.web.ci.info", []byte(`{"id":"c","severity":"info","title":"\u202eevil \u001b[2J ghp_0123456789abcdefghijABCDEFGHIJ012345","timestamp":"2026-01-28T14:30:00.000Z"}`))
	data := l.next(t).data
	for _, unwanted := range []string{"ghp_", "202e", "\u202e", "001b"} {
		checkLacks(t, "data", data, unwanted)
	}
}

// TestReadersBound: 256 readers get all alerts; one more is refused until one leaves.
func TestReadersBound(t *testing.T) {
	b, d := onBus(t)
	listeners := make([]*listener, maxReaders)
	for i := range listeners {
		listeners[i] = d.listen(t, "")
	}
	a := d.get(t, pathStream)
	a.check(t, "one reader more", http.StatusServiceUnavailable, "the limit is 256")
	a.checkHeader(t, "one reader more", "Retry-After", fmt.Sprint(readersRetry))
	b.raise(t, 20)
	for i, l := range listeners {
		checkEqual(t, fmt.Sprintf("reader %d", i), l.ids(t, 20), "1-20")
	}
	listeners[0].close()
	d.awaitMetric(t, "tocsin_dashboard_readers 255")
	d.listen(t, "?replay=1").ids(t, 1)
}

// TestUnreachableBus: without a bus, the page is served, reads are refused with the reason, and
// readers get the alerts that are raised after the bus is restored.
func TestUnreachableBus(t *testing.T) {
	b := newBus(t)
	b.raise(t, 2)
	b.down()
	d := start(t, b.config())
	d.get(t, pathReady).check(t, pathReady, http.StatusServiceUnavailable, "unreachable")
	a := d.get(t, pathAlerts)
	a.check(t, pathAlerts, http.StatusServiceUnavailable, "")
	a.checkHeader(t, pathAlerts, "Retry-After", fmt.Sprint(httpserve.RetryAfter))
	for _, path := range []string{"/", pathAlive, pathSession} {
		d.get(t, path).check(t, path, http.StatusOK, "")
	}
	live, back := d.listen(t, ""), d.listen(t, "?last_event_id=1")
	b.up(t)
	b.raise(t, 2)
	checkEqual(t, "alerts of a reader that joined before the bus", live.ids(t, 2), "3-4")
	checkEqual(t, "alerts of a reader that reconnected before the bus", back.ids(t, 3), "2-4")
}

// TestCluster: a dashboard on a cluster misses no alert while the servers are restarted one
// after the other.
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
	raise := func(n int) {
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
	raise(20)
	for i := range 3 {
		rig.Stop(i)
		raise(10)
		rig.Start(i)
		rig.Ready()
		raise(10)
	}
	checkEqual(t, "alerts", l.ids(t, b.n), fmt.Sprintf("1-%d", b.n))
}
