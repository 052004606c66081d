package bus_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// dial connects to an embedded bus as a role, without the checks of bus.Connect.
func dial(t *testing.T, s *embedded.Server, dir statedir.Dir, role bus.Role) *bustest.Wire {
	t.Helper()
	auth, err := nats.NkeyOptionFromSeed(dir.Credential(string(role)))
	if err != nil {
		t.Fatal(err)
	}
	return bustest.Dial(t, s.URL(), auth)
}

// TestIngestMayDeleteResultsAlone tries on the wire what ingest may not do with the
// requests that it may make for CI results.
func TestIngestMayDeleteResultsAlone(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	w := dial(t, s, dir, bus.RoleIngest)
	w.MayNotPublish(
		"$JS.API.STREAM.MSG.DELETE."+bus.StreamTelemetry, "$JS.API.STREAM.MSG.DELETE."+bus.StreamAlerts,
		"$JS.API.DIRECT.GET."+bus.StreamTelemetry+"."+bus.SubjectIntakeCI, "$JS.API.DIRECT.GET."+bus.StreamDeliveries,
		"$JS.API.STREAM.MSG.DELETE."+bus.StreamDeliveries, "$JS.API.STREAM.PURGE."+bus.StreamDeliveries,
		"$JS.API.DIRECT.GET."+bus.StreamTelemetry, "$JS.API.DIRECT.GET."+bus.StreamAlerts,
		"$JS.API.STREAM.PURGE."+bus.StreamCI, "$JS.API.STREAM.DELETE."+bus.StreamCI, "$JS.API.STREAM.UPDATE."+bus.StreamCI,
		"$JS.API.STREAM.MSG.GET."+bus.StreamCI, "$JS.API.CONSUMER.CREATE."+bus.StreamCI+".x",
	)
	w.MayNotSubscribe("ci.>")

	c := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, Server: s})
	p, err := bus.NewPublisher(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	seq, err := p.Publish(t.Context(), &nats.Msg{Subject: bus.CIResultSubject("custom", "abc", "build", "failure"), Data: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if msgs, err := c.Read(t.Context(), bus.StreamCI, 1, 10); err != nil || len(msgs) != 1 || msgs[0].Seq != seq {
		t.Fatalf("Read = %v, %v, want message %d", msgs, err, seq)
	}
	if err := c.Delete(t.Context(), bus.StreamCI, seq); err != nil {
		t.Fatal(err)
	}
	if msgs, err := c.Read(t.Context(), bus.StreamCI, 1, 10); err != nil || len(msgs) != 0 {
		t.Fatalf("Read after Delete = %v, %v, want none", msgs, err)
	}
}

// TestAlertsOfOthersComeByIngest checks that only ingest may log the alerts of other
// senders, and that it may not publish alerts itself.
func TestAlertsOfOthersComeByIngest(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	p, err := bus.NewPublisher(connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, Server: s}), 1)
	if err != nil {
		t.Fatal(err)
	}
	seq, err := p.Publish(t.Context(), &nats.Msg{Subject: bus.SubjectIntakeAlerts, Data: []byte("[]")})
	if err != nil || seq != 1 {
		t.Fatalf("Publish = %d, %v, want sequence 1", seq, err)
	}
	for role, subject := range map[bus.Role]string{
		bus.RoleIngest: "alerts.web.threshold.error", bus.RoleDetector: bus.SubjectIntakeAlerts,
		bus.RoleGateway: bus.SubjectIntakeAlerts, bus.RoleDashboard: bus.SubjectIntakeAlerts,
	} {
		dial(t, s, dir, role).MayNotPublish(subject)
	}
}

// TestDashboardMayOnlyRead tries on the wire what a read-only credential may and may not do.
func TestDashboardMayOnlyRead(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	w := dial(t, s, dir, bus.RoleDashboard)
	w.MayOnlyRead()

	live, err := w.SubscribeSync(bus.AllLiveAlerts)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	d := connect(t, bus.Config{Name: "d", Role: bus.RoleDetector, Server: s})
	p, err := bus.NewPublisher(d, 1)
	if err != nil {
		t.Fatal(err)
	}
	seq, err := p.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: []byte(`{"id":"a"}`)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := live.NextMsg(5 * time.Second)
	if err != nil || m.Subject != "live.alerts.web.ci.error" {
		t.Fatalf("live alert = %v, %v, want one on live.alerts.web.ci.error", m, err)
	}
	ask, err := json.Marshal(map[string]uint64{"seq": seq})
	if err != nil {
		t.Fatal(err)
	}
	m, err = w.Request("$JS.API.DIRECT.GET."+bus.StreamAlerts, ask, 5*time.Second)
	if err != nil || string(m.Data) != `{"id":"a"}` {
		t.Fatalf("direct get of message %d = %v, %v, want the alert", seq, m, err)
	}
}

// TestDashboardHearsNotices checks that a dashboard receives notices on the live subject only.
func TestDashboardHearsNotices(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	w := dial(t, s, dir, bus.RoleDashboard)
	w.MayNotPublish("$JS.API.DIRECT.GET." + bus.StreamNotices)
	live, err := w.SubscribeSync(bus.AllLiveNotices)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	p, err := bus.NewPublisher(connect(t, bus.Config{Name: "g", Role: bus.RoleGateway, Server: s}), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(t.Context(), &nats.Msg{Subject: bus.NoticeSubject("Deploy 1"), Data: []byte("done")}); err != nil {
		t.Fatal(err)
	}
	m, err := live.NextMsg(5 * time.Second)
	if err != nil || m.Subject != "live.notices.deploy_1" || string(m.Data) != "done" {
		t.Fatalf("live notice = %v, %v, want done on live.notices.deploy_1", m, err)
	}
}

// TestGatewaysSilence checks that gateways write, read and follow silences and acks, that no
// other service does, and that a gateway can't delete the bucket. Dashboards may read acks.
func TestGatewaysSilence(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	g := connect(t, bus.Config{Name: "g", Role: bus.RoleGateway, Server: s})
	kv, err := g.JS.KeyValue(t.Context(), bus.BucketSilences)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{bus.KeySilences, bus.KeyAcks} {
		rev, err := kv.Create(t.Context(), key, []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Update(t.Context(), key, []byte("new "+key), rev); err != nil {
			t.Fatal(err)
		}
		if v, err := kv.Get(t.Context(), key); err != nil || string(v.Value()) != "new "+key {
			t.Fatalf("Get(%s) = %v, %v, want %q", key, v, err, "new "+key)
		}
	}
	if msgs, err := g.Read(t.Context(), bus.StreamSilences, 1, 10); err != nil || len(msgs) != 2 || msgs[0].Subject != "$KV.silences.silences" {
		t.Fatalf("Read = %v, %v, want the silences and the acks", msgs, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var followed []string
	err = bustest.Follow(ctx, g, bus.FollowConfig{Stream: bus.StreamSilences, Logger: quiet()}, func(m bus.Message) error {
		if followed = append(followed, string(m.Data)); len(followed) == 2 {
			cancel()
		}
		return nil
	})
	if diff := cmp.Diff([]string{"new silences", "new acks"}, followed); diff != "" || err != nil {
		t.Errorf("Follow = %v, messages (-want +got):\n%s", err, diff)
	}
	cancel()
	for _, role := range []bus.Role{bus.RoleIngest, bus.RoleDetector, bus.RoleDashboard} {
		w := dial(t, s, dir, role)
		const get = "$JS.API.DIRECT.GET." + bus.StreamSilences
		w.MayNotPublish("$KV.silences.silences", get, "$JS.API.CONSUMER.CREATE."+bus.StreamSilences+".x")
		const acks = get + ".$KV.silences.acks"
		if role != bus.RoleDashboard {
			w.MayNotPublish(acks)
			continue
		}
		if m, err := w.Request(acks, nil, 5*time.Second); err != nil || string(m.Data) != "new acks" {
			t.Errorf("acks for a dashboard = %v, %v, want new acks", m, err)
		}
	}
	w := dial(t, s, dir, bus.RoleGateway)
	for _, call := range []string{"PURGE", "DELETE", "UPDATE", "MSG.DELETE"} {
		w.MayNotPublish("$JS.API.STREAM." + call + "." + bus.StreamSilences)
	}
}

// TestEveryServiceCanDoItsWork does what the services do on the bus, with their credentials.
func TestEveryServiceCanDoItsWork(t *testing.T) {
	s, _ := serve(t, bustest.OpenDir(t))
	gateway := connect(t, bus.Config{Name: "g", Role: bus.RoleGateway, Server: s})
	kv, err := gateway.JS.KeyValue(t.Context(), bus.BucketGateways)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), "client", []byte("7")); err != nil {
		t.Fatal(err)
	}
	if v, err := kv.Get(t.Context(), "client"); err != nil || string(v.Value()) != "7" {
		t.Fatalf("inbox position = %v, %v, want 7", v, err)
	}
	if err := gateway.Check(t.Context(), bus.StreamAlerts); err != nil {
		t.Fatal(err)
	}
	if msgs, err := gateway.Read(t.Context(), bus.StreamAlerts, 1, 10); err != nil || len(msgs) != 0 {
		t.Fatalf("Read of the alerts, as a hook does = %v, %v, want none", msgs, err)
	}
	detector := connect(t, bus.Config{Name: "d", Role: bus.RoleDetector, Server: s})
	store, err := detector.JS.ObjectStore(t.Context(), bus.BucketDetector)
	if err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 3<<20)
	for range 2 { // the second replaces the first
		if _, err := store.PutBytes(t.Context(), "fold", big); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := store.GetBytes(t.Context(), "fold"); err != nil || len(got) != len(big) {
		t.Fatalf("snapshot = %d bytes, %v, want %d", len(got), err, len(big))
	}
	ingest := connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, Server: s})
	p, err := bus.NewPublisher(ingest, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"telemetry.web.log", bus.SubjectIntakeCI, "ci.result.custom.abc.build.failure"} {
		if _, err := p.Publish(t.Context(), &nats.Msg{Subject: subject, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ingest.Check(t.Context(), bus.StreamTelemetry); err != nil {
		t.Fatal(err)
	}
	// A gateway sends a query, and the detector answers.
	sub, err := detector.NC.Subscribe("query.status", func(m *nats.Msg) {
		if err := m.Respond([]byte("fine")); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := detector.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	m, err := gateway.NC.Request("query.status", nil, 5*time.Second)
	if err != nil || string(m.Data) != "fine" {
		t.Fatalf("answer to the query = %v, %v, want fine", m, err)
	}
}

// TestInvestigatorKeepsItsOwn tries on the wire what an investigator may do to what is not its
// own, and what others may do to what is.
func TestInvestigatorKeepsItsOwn(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	w := dial(t, s, dir, bus.RoleInvestigator)
	var denied []string
	for _, stream := range []string{bus.StreamAlerts, bus.StreamKubernetes, bus.StreamCI, bus.StreamSilences} {
		for _, call := range []string{"PURGE.", "DELETE.", "UPDATE.", "MSG.DELETE."} {
			denied = append(denied, "$JS.API.STREAM."+call+stream)
		}
		if stream != bus.StreamAlerts { // a replica may not have the newest alert yet: the leader is asked
			denied = append(denied, "$JS.API.STREAM.MSG.GET."+stream)
		}
	}
	for _, stream := range []string{bus.StreamInvestigations, bus.StreamInvestigationTexts, bus.StreamInvestigationQueue, bus.StreamInvestigatorKeys} {
		for _, call := range []string{"CREATE.", "DELETE.", "UPDATE."} {
			denied = append(denied, "$JS.API.STREAM."+call+stream)
		}
	}
	w.MayNotPublish(append(denied,
		"telemetry.web.log", bus.SubjectIntakeAlerts, bus.SubjectIntakeNoise, "ci.result.custom.abc.build.failure", "kubernetes.a.b.c.d.e",
		"notices.llm", "live.alerts.web.ci.error", "$KV.silences.silences", "$KV.gateways.me", "$O.detector.M.x",
		"$JS.API.CONSUMER.CREATE."+bus.StreamTelemetry+".x", "$JS.API.DIRECT.GET."+bus.StreamTelemetry, "query.partition.0.events",
	)...)
	w.MayNotSubscribe("telemetry.>", "query.>", "query.events", "live.>", "_INBOX_gateway.>", "$KV.>")

	const session = "01JD0000000000000000000000"
	for _, role := range []bus.Role{bus.RoleIngest, bus.RoleDetector, bus.RoleGateway, bus.RoleKubewatch, bus.RoleDashboard} {
		w := dial(t, s, dir, role)
		w.MayNotPublish(
			bus.InvestigationSubject(session), bus.InvestigationTextSubject(session, "a", "0"), bus.InvestigationQueueSubject(session, "1"),
			bus.LiveInvestigationSubject(session), "$KV."+bus.BucketInvestigatorKeys+".a",
			"$JS.API.DIRECT.GET."+bus.StreamInvestigations, "$JS.API.STREAM.MSG.GET."+bus.StreamInvestigations,
			"$JS.API.CONSUMER.CREATE."+bus.StreamInvestigations+".x", "$JS.API.STREAM.PURGE."+bus.StreamInvestigations,
		)
		w.MayNotSubscribe(bus.AllLiveInvestigations, "investigation.>", bus.AllInvestigate)
		if role != bus.RoleGateway {
			w.MayNotPublish(bus.SubjectInvestigateSubmit, bus.SubjectInvestigateGet, bus.SubjectInvestigateList)
		}
	}
}

// TestGatewaysSubmit checks that an investigator answers a gateway's request, and asks
// detectors itself.
func TestGatewaysSubmit(t *testing.T) {
	s, _ := serve(t, bustest.OpenDir(t))
	answer := func(role bus.Role, subject string) {
		c := connect(t, bus.Config{Name: "answers", Role: role, Server: s})
		if _, err := c.NC.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte(m.Subject)) }); err != nil {
			t.Fatal(err)
		}
		if err := c.NC.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	answer(bus.RoleInvestigator, bus.AllInvestigate)
	answer(bus.RoleDetector, "query.status")
	for role, subject := range map[bus.Role]string{bus.RoleGateway: bus.SubjectInvestigateSubmit, bus.RoleInvestigator: "query.status"} {
		c := connect(t, bus.Config{Name: "asks", Role: role, Server: s})
		if got, err := bus.Ask(t.Context(), c, subject, struct{}{}); err != nil || string(got) != subject {
			t.Errorf("%s asks %s = %q, %v, want %q", role, subject, got, err, subject)
		}
	}
}

func TestWebsocketOrigins(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	seed, err := os.ReadFile(dir.Credential(string(bus.RoleDashboard)))
	if err != nil || !strings.HasPrefix(string(seed), "SU") {
		t.Fatalf("seed begins with %.2q, %v, want SU", seed, err)
	}
	auth, err := nats.NkeyOptionFromSeed(dir.Credential(string(bus.RoleDashboard)))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.WSURL(), auth)
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	for origin, want := range map[string]int{"http://evil.example": http.StatusForbidden, "http://localhost:3000": http.StatusSwitchingProtocols} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(s.WSURL(), "ws://", "http://", 1), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"Origin": origin, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
			req.Header.Set(k, v)
		}
		tr := &http.Transport{DisableKeepAlives: true}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		tr.CloseIdleConnections()
		if resp.StatusCode != want {
			t.Errorf("origin %s: status = %d, want %d", origin, resp.StatusCode, want)
		}
	}
}

// TestDashboardsLeaveRoom checks that dashboards can't take all connections of a server.
func TestDashboardsLeaveRoom(t *testing.T) {
	account, err := bustest.Cluster(t, 1).Node(0).LookupAccount(bus.AccountDashboards)
	if err != nil {
		t.Fatal(err)
	}
	if got := account.MaxActiveConnections(); got != bus.MaxDashboards {
		t.Errorf("dashboards may have %d connections, want %d", got, bus.MaxDashboards)
	}
}
