package bus_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// connectBare connects as a role without what bus.Connect adds. forbidden does
// what the server must refuse.
func connectBare(t *testing.T, s *embedded.Server, dir statedir.Dir, role bus.Role) (nc *nats.Conn, forbidden func(what string, do func() error)) {
	t.Helper()
	refused := make(chan error, 10)
	auth, err := nats.NkeyOptionFromSeed(dir.Credential(string(role)))
	if err != nil {
		t.Fatal(err)
	}
	nc, err = nats.Connect(s.URL(), auth, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, func(what string, do func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Logf("%s: %v", what, err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
				t.Fatalf("%s: %v", what, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: was not refused", what)
		}
	}
}

// TestIngestMayDeleteResultsAlone tries on the wire what ingest may not do
// with the means that it has for CI results.
func TestIngestMayDeleteResultsAlone(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	nc, forbidden := connectBare(t, s, dir, bus.RoleIngest)
	for _, subject := range []string{
		"$JS.API.STREAM.MSG.DELETE." + bus.StreamTelemetry, "$JS.API.STREAM.MSG.DELETE." + bus.StreamAlerts,
		"$JS.API.DIRECT.GET." + bus.StreamTelemetry + "." + bus.SubjectIntakeCI, "$JS.API.DIRECT.GET." + bus.StreamDeliveries,
		"$JS.API.STREAM.MSG.DELETE." + bus.StreamDeliveries, "$JS.API.STREAM.PURGE." + bus.StreamDeliveries,
		"$JS.API.DIRECT.GET." + bus.StreamTelemetry, "$JS.API.DIRECT.GET." + bus.StreamAlerts,
		"$JS.API.STREAM.PURGE." + bus.StreamCI, "$JS.API.STREAM.DELETE." + bus.StreamCI, "$JS.API.STREAM.UPDATE." + bus.StreamCI,
		"$JS.API.STREAM.MSG.GET." + bus.StreamCI, "$JS.API.CONSUMER.CREATE." + bus.StreamCI + ".x",
	} {
		forbidden("publish to "+subject, func() error { return nc.Publish(subject, []byte(`{"seq":1}`)) })
	}
	forbidden("subscribe to results", func() error { _, err := nc.SubscribeSync("ci.>"); return err })

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
		t.Fatalf("%v %v", msgs, err)
	}
	if err := c.Delete(t.Context(), bus.StreamCI, seq); err != nil {
		t.Fatal(err)
	}
	if msgs, err := c.Read(t.Context(), bus.StreamCI, 1, 10); err != nil || len(msgs) != 0 {
		t.Fatalf("%v %v", msgs, err)
	}
}

// TestAlertsOfOthersComeByIngest: it writes them into the log, nobody else
// does, and to make alerts of them it may not.
func TestAlertsOfOthersComeByIngest(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	p, err := bus.NewPublisher(connect(t, bus.Config{Name: "i", Role: bus.RoleIngest, Server: s}), 1)
	if err != nil {
		t.Fatal(err)
	}
	seq, err := p.Publish(t.Context(), &nats.Msg{Subject: bus.SubjectIntakeAlerts, Data: []byte("[]")})
	if err != nil || seq != 1 {
		t.Fatalf("stored at %d: %v", seq, err)
	}
	for role, subject := range map[bus.Role]string{
		bus.RoleIngest: "alerts.web.threshold.error", bus.RoleDetector: bus.SubjectIntakeAlerts,
		bus.RoleGateway: bus.SubjectIntakeAlerts, bus.RoleDashboard: bus.SubjectIntakeAlerts,
	} {
		nc, forbidden := connectBare(t, s, dir, role)
		forbidden(string(role)+" publishes to "+subject, func() error { return nc.Publish(subject, []byte("[]")) })
	}
}

// TestDashboardMayOnlyLook tries on the wire what a read-only
// credential must not do.
func TestDashboardMayOnlyLook(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	nc, forbidden := connectBare(t, s, dir, bus.RoleDashboard)
	for _, subject := range []string{"telemetry.web.log", "alerts.web.ci.error", "live.alerts.web.ci.error", "intake.ci", "notices.llm", "live.notices.llm", "query.events"} {
		forbidden("publish to "+subject, func() error { return nc.Publish(subject, []byte("x")) })
	}
	for _, subject := range []string{"telemetry.>", "alerts.>", "intake.>", "notices.>", "live.>", "_INBOX_detector.>", "_INBOX_gateway.>", ">", "$JS.>"} {
		forbidden("subscribe to "+subject, func() error { _, err := nc.SubscribeSync(subject); return err })
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{bus.StreamAlerts, bus.StreamTelemetry, bus.StreamNotices} {
		forbidden("create a consumer on "+stream, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			_, err := js.CreateOrUpdateConsumer(ctx, stream, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
			return err
		})
	}
	forbidden("read telemetry directly", func() error {
		return nc.PublishRequest("$JS.API.DIRECT.GET."+bus.StreamTelemetry, nc.NewInbox(), []byte(`{"seq":1}`))
	})

	live, err := nc.SubscribeSync(bus.AllLiveAlerts)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
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
		t.Fatalf("live alert: %v, %v", m, err)
	}
	ask, err := json.Marshal(map[string]uint64{"seq": seq})
	if err != nil {
		t.Fatal(err)
	}
	m, err = nc.Request("$JS.API.DIRECT.GET."+bus.StreamAlerts, ask, 5*time.Second)
	if err != nil || string(m.Data) != `{"id":"a"}` {
		t.Fatalf("direct get: %v, %v", m, err)
	}
}

// TestDashboardHearsNotices checks that a dashboard receives notices on the live subject only.
func TestDashboardHearsNotices(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	nc, forbidden := connectBare(t, s, dir, bus.RoleDashboard)
	forbidden("read notices directly", func() error {
		return nc.PublishRequest("$JS.API.DIRECT.GET."+bus.StreamNotices, nc.NewInbox(), []byte(`{"seq":1}`))
	})
	live, err := nc.SubscribeSync(bus.AllLiveNotices)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
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
		t.Fatalf("live notice: %v, %v", m, err)
	}
}

// TestGatewaysSilence: they write, read and follow what is silenced; nobody else
// does any of it, and a gateway can't take the bucket away.
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
			t.Fatalf("%v, %v", v, err)
		}
	}
	if msgs, err := g.Read(t.Context(), bus.StreamSilences, 1, 10); err != nil || len(msgs) != 2 || msgs[0].Subject != "$KV.silences.silences" {
		t.Fatalf("%v, %v", msgs, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var followed []string
	err = bustest.Follow(ctx, g, bus.FollowConfig{Stream: bus.StreamSilences, Logger: quiet()}, func(m bus.Message) error {
		if followed = append(followed, string(m.Data)); len(followed) == 2 {
			cancel()
		}
		return nil
	})
	if want := "new silences,new acks"; err != nil || strings.Join(followed, ",") != want {
		t.Errorf("followed %v, %v", followed, err)
	}
	cancel()
	for _, role := range []bus.Role{bus.RoleIngest, bus.RoleDetector, bus.RoleDashboard} {
		nc, forbidden := connectBare(t, s, dir, role)
		const get = "$JS.API.DIRECT.GET." + bus.StreamSilences
		for _, subject := range []string{"$KV.silences.silences", get, "$JS.API.CONSUMER.CREATE." + bus.StreamSilences + ".x"} {
			forbidden(string(role)+" publishes to "+subject, func() error { return nc.Publish(subject, []byte(`{"seq":1}`)) })
		}
		const acks = get + ".$KV.silences.acks"
		if role != bus.RoleDashboard {
			forbidden(string(role)+" reads what is acknowledged", func() error { return nc.Publish(acks, nil) })
			continue
		}
		if m, err := nc.Request(acks, nil, 5*time.Second); err != nil || string(m.Data) != "new acks" {
			t.Errorf("a dashboard does not see what is acknowledged: %v, %v", m, err)
		}
	}
	nc, forbidden := connectBare(t, s, dir, bus.RoleGateway)
	for _, what := range []string{"PURGE", "DELETE", "UPDATE", "MSG.DELETE"} {
		subject := "$JS.API.STREAM." + what + "." + bus.StreamSilences
		forbidden("a gateway publishes to "+subject, func() error { return nc.Publish(subject, []byte(`{"seq":1}`)) })
	}
}

// TestEveryServiceCanDoItsWork walks through what the services ask of the bus,
// with their own credentials.
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
		t.Fatalf("cursor: %v, %v", v, err)
	}
	if err := gateway.Check(t.Context(), bus.StreamAlerts); err != nil {
		t.Fatal(err)
	}
	if msgs, err := gateway.Read(t.Context(), bus.StreamAlerts, 1, 10); err != nil || len(msgs) != 0 {
		t.Fatalf("alerts, read by a hook: %v, %v", msgs, err)
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
		t.Fatalf("snapshot: %d bytes, %v", len(got), err)
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
	// A query, asked by a gateway and answered by the detector.
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
		t.Fatalf("query: %v, %v", m, err)
	}
}

func TestWebsocketAsksTheGuard(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	seed, err := os.ReadFile(dir.Credential(string(bus.RoleDashboard)))
	if err != nil || !strings.HasPrefix(string(seed), "SU") {
		t.Fatalf("seed: %v", err)
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
			t.Errorf("origin %s: %s", origin, resp.Status)
		}
	}
}

// TestDashboardsLeaveRoom: of the connections that a server takes, those of the
// dashboards are some.
func TestDashboardsLeaveRoom(t *testing.T) {
	account, err := bustest.Cluster(t, 1).Node(0).LookupAccount(bus.AccountDashboards)
	if err != nil {
		t.Fatal(err)
	}
	if got := account.MaxActiveConnections(); got != bus.MaxDashboards {
		t.Errorf("dashboards may have %d connections", got)
	}
}
