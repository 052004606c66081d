package bus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// createKeys creates keys and variables as tocsin keys and its .env files do.
func createKeys(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, role := range externalRoles() {
		seed, public, err := bus.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, string(role)+".nk"), seed, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv(role.KeyVariable(), public)
	}
	t.Setenv("TOCSIN_ROUTES_PASSWORD", "R2E4SECRET")
	return dir
}

// TestConfiguredServers runs servers from the files in deploy/nats, provisions them, and tries
// on the wire what each role may and may not do.
func TestConfiguredServers(t *testing.T) {
	for _, c := range []struct {
		file     string
		servers  int
		tls      bool
		replicas int
	}{
		{file: "single.conf", servers: 1, replicas: 1},
		{file: "single-tls.conf", servers: 1, tls: true, replicas: 1},
		{file: "cluster.conf", servers: 3, replicas: 3},
		{file: "cluster-tls.conf", servers: 3, tls: true, replicas: 3},
	} {
		t.Run(c.file, func(t *testing.T) {
			creds := createKeys(t)
			var files bustest.Certificates
			if c.tls {
				files = bustest.TLS(t)
				files.ForServers(t)
			}
			rig := bustest.Serve(t, creds, bustest.Configured(t, filepath.Join(deployed, c.file), c.servers)...)
			rig.CA = files.CA
			rig.Provision(bus.Layout{Partitions: 4})
			for _, stream := range []string{bus.StreamAlerts, bus.StreamCI, "OBJ_" + bus.BucketDetector, "KV_" + bus.BucketOwners} {
				s, err := rig.Connect(bus.RoleDetector).JS.Stream(t.Context(), stream)
				if err != nil {
					t.Fatal(err)
				}
				if got := s.CachedInfo().Config.Replicas; got != c.replicas {
					t.Errorf("%s has %d replicas, want %d", stream, got, c.replicas)
				}
			}
			checkRoles(t, rig, func(role bus.Role) nats.Option {
				auth, err := nats.NkeyOptionFromSeed(rig.Creds(role))
				if err != nil {
					t.Fatal(err)
				}
				return auth
			})
			checkOrigins(t, rig, c.tls)
			checkProbes(t, rig)
		})
	}
}

// checkRoles tries what each role may and may not do, at each server, over TCP and
// over the websocket.
func checkRoles(t *testing.T, rig *bustest.Rig, auth func(bus.Role) nats.Option) {
	t.Helper()
	seq, witness := publishAlert(t, rig), rig.Connect(bus.RoleGateway)
	for i := range rig.Len() {
		for transport, url := range map[string]string{"TCP": rig.URLOf(i), "websocket": rig.WSURLOf(i)} {
			t.Run(fmt.Sprintf("server %d over %s", i+1, transport), func(t *testing.T) {
				dial := func(role bus.Role) *bustest.Wire {
					t.Helper()
					return bustest.Dial(t, url, append(rig.TLSOptions(), auth(role))...)
				}
				w := dial(bus.RoleDashboard)
				w.MayOnlyRead()
				checkReads(t, rig, w, seq)
				w.RepliesAreHarmless(witness, seq)
				for _, role := range externalRoles() {
					w := dial(role)
					for _, r := range refusals[role] {
						w.MayNotPublish(r.publish...)
						w.MayNotSubscribe(r.subscribe...)
					}
					w.Close()
				}
			})
		}
	}
}

// refusals lists what the roles other than the dashboard must not do.
var refusals = map[bus.Role][]struct{ publish, subscribe []string }{
	bus.RoleIngest: {{
		publish: []string{
			"alerts.web.ci.error", "live.alerts.web.ci.error", "notices.llm", "intake.noise", "query.status", "query.health",
			"$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.DELETE.ALERTS", "$JS.API.CONSUMER.CREATE.TELEMETRY.x", "$JS.API.DIRECT.GET.TELEMETRY",
			"$JS.API.STREAM.PURGE.CI", "$JS.API.STREAM.MSG.DELETE.ALERTS", "$KV.owners.0", "$KV.silences.silences", "$SRV.PING", "_INBOX_gateway.x",
		},
		subscribe: []string{"telemetry.>", "alerts.>", "query.status", "query.>", "live.>", "_INBOX.>", "_INBOX_gateway.>", ">"},
	}},
	bus.RoleDetector: {{
		publish: []string{
			"telemetry.web.log", "intake.ci", "intake.alerts", "notices.llm", "live.alerts.web.ci.error", "query.status",
			"$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.UPDATE.TELEMETRY", "$JS.API.STREAM.DELETE.TELEMETRY", "$JS.API.STREAM.PURGE.TELEMETRY",
			"$JS.API.STREAM.PURGE.KV_owners", "$JS.API.CONSUMER.CREATE.CI.x", "$KV.silences.silences", "$KV.gateways.me", "_INBOX_gateway.x",
		},
		subscribe: []string{"telemetry.>", "alerts.>", "notices.>", "query.>", "_INBOX.>", "_INBOX_gateway.>", ">"},
	}},
	bus.RoleGateway: {{
		publish: []string{
			"telemetry.web.log", "intake.ci", "intake.noise", "alerts.web.ci.error", "live.notices.llm", "query.partition.0.status",
			"$JS.API.STREAM.CREATE.X", "$JS.API.STREAM.DELETE.ALERTS", "$JS.API.STREAM.PURGE.KV_silences", "$JS.API.CONSUMER.CREATE.TELEMETRY.x",
			"$JS.API.DIRECT.GET.TELEMETRY", "$JS.API.DIRECT.GET.KV_owners.$KV.owners.0", "$KV.owners.0", "_INBOX_detector.x",
		},
		subscribe: []string{"telemetry.>", "alerts.>", "notices.>", "query.status", "query.>", "live.>", "_INBOX.>", "_INBOX_detector.>", ">"},
	}},
	bus.RoleProvisioner: {{
		publish:   []string{"telemetry.web.log", "alerts.web.ci.error", "notices.llm", "live.alerts.web.ci.error", "$KV.silences.silences", "query.noise", "_INBOX_gateway.x"},
		subscribe: []string{"telemetry.>", "alerts.>", "live.>", "query.>", "_INBOX.>", ">"},
	}},
}

// publishAlert publishes an alert as a detector does, and returns its sequence.
func publishAlert(t *testing.T, rig *bustest.Rig) uint64 {
	t.Helper()
	c := rig.Connect(bus.RoleDetector)
	defer c.Close()
	p, err := bus.NewPublisher(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	seq, err := p.Publish(t.Context(), &nats.Msg{Subject: "alerts.web.ci.error", Data: []byte(`{"id":"a"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// checkReads checks that a dashboard receives new alerts, and reads old ones by their sequence.
func checkReads(t *testing.T, rig *bustest.Rig, w *bustest.Wire, seq uint64) {
	t.Helper()
	live, err := w.SubscribeSync(bus.AllLiveAlerts)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	// In a cluster, a subscription reaches the other servers a moment later.
	var m *nats.Msg
	bustest.Eventually(t, "live alert", func() bool {
		publishAlert(t, rig)
		m, err = live.NextMsg(100 * time.Millisecond)
		return err == nil
	})
	if m.Subject != "live.alerts.web.ci.error" || m.Header.Get(jetstream.SequenceHeader) == "" {
		t.Errorf("live alert = %+v, want one on live.alerts.web.ci.error with its sequence", m)
	}
	ask, err := json.Marshal(map[string]uint64{"seq": seq})
	if err != nil {
		t.Fatal(err)
	}
	m, err = w.Request("$JS.API.DIRECT.GET."+bus.StreamAlerts, ask, 5*time.Second)
	if err != nil || string(m.Data) != `{"id":"a"}` {
		t.Errorf("direct get of message %d = %v, %v, want the alert", seq, m, err)
	}
}

// checkOrigins checks that pages of other origins may not use the websocket.
func checkOrigins(t *testing.T, rig *bustest.Rig, secure bool) {
	t.Helper()
	scheme := map[bool]string{false: "http", true: "https"}[secure]
	if url := rig.WSURLOf(0); strings.HasPrefix(url, "wss") != secure {
		t.Errorf("URL of the websocket = %s, want TLS: %t", url, secure)
	}
	for origin, want := range map[string]int{bustest.PageOrigin: http.StatusSwitchingProtocols, "https://evil.example": http.StatusForbidden, "null": http.StatusForbidden} {
		_, addr, _ := strings.Cut(rig.WSURLOf(0), "://")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+addr, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"Origin": origin, "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
			req.Header.Set(k, v)
		}
		tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: rig.TLSConfig()}
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

// checkProbes sends the request of a probe to each server.
func checkProbes(t *testing.T, rig *bustest.Rig) {
	t.Helper()
	for i := range rig.Len() {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/healthz", rig.Node(i).MonitorAddr()), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		tr := &http.Transport{DisableKeepAlives: true}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		cancel()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("server %d: status of /healthz = %d, want 200", i+1, resp.StatusCode)
		}
	}
}

// TestConfiguredServersOfAnOperator does the same with credentials files, as nsc creates them.
// Its --mem-resolver writes what this test writes as roles.conf.
func TestConfiguredServersOfAnOperator(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"single.conf", "common.conf"} {
		data, err := os.ReadFile(filepath.Join(deployed, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	creds := writeOperator(t, dir)
	rig := bustest.Serve(t, "", bustest.Configured(t, filepath.Join(dir, "single.conf"), 1)...)
	rig.CredsOf = func(role bus.Role) string { return creds[role] }
	rig.Provision(bus.Layout{})
	checkRoles(t, rig, func(role bus.Role) nats.Option { return nats.UserCredentials(creds[role]) })
}

// writeOperator writes an operator's roles.conf and a credentials file for each role.
func writeOperator(t *testing.T, dir string) map[bus.Role]string {
	t.Helper()
	pair := func(create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
		t.Helper()
		key, err := create()
		if err != nil {
			t.Fatal(err)
		}
		public, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return key, public
	}
	operatorKey, operator := pair(nkeys.CreateOperator)
	_, system := pair(nkeys.CreateAccount)
	accountKey, account := pair(nkeys.CreateAccount)
	encode := func(claims jwt.Claims, by nkeys.KeyPair) string {
		t.Helper()
		token, err := claims.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	op := jwt.NewOperatorClaims(operator)
	op.Name, op.SystemAccount = "tocsin", system
	sys := jwt.NewAccountClaims(system)
	sys.Name = "SYS"
	acc := jwt.NewAccountClaims(account)
	acc.Name = bus.AccountServices
	acc.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: 256 << 20, DiskStorage: 4 << 30, Streams: -1, Consumer: -1}
	viewersKey, viewers := pair(nkeys.CreateAccount)
	view := jwt.NewAccountClaims(viewers)
	view.Name = bus.AccountDashboards
	share := func(subject string, kind jwt.ExportType) {
		s := jwt.Subject(subject)
		export := &jwt.Export{Name: subject, Subject: s, Type: kind}
		if kind == jwt.Service {
			export.ResponseType, export.ResponseThreshold = jwt.ResponseTypeStream, bus.ReplyThreshold
		}
		acc.Exports.Add(export)
		view.Imports.Add(&jwt.Import{Name: subject, Account: account, Subject: s, LocalSubject: jwt.RenamingSubject(s), Type: kind})
	}
	dashboard := bus.RoleDashboard.Permissions()
	for _, s := range dashboard.Subscribe {
		if !strings.HasPrefix(s, "_INBOX.") {
			share(s, jwt.Stream)
		}
	}
	for _, s := range dashboard.Publish {
		share(s, jwt.Service)
	}
	conf := fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n  %s: %s\n  %s: %s\n  %s: %s\n}\n",
		encode(op, operatorKey), system, system, encode(sys, operatorKey), account, encode(acc, operatorKey), viewers, encode(view, operatorKey))
	if err := os.WriteFile(filepath.Join(dir, "roles.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	files := map[bus.Role]string{}
	for _, role := range externalRoles() {
		userKey, user := pair(nkeys.CreateUser)
		p := role.Permissions()
		claims := jwt.NewUserClaims(user)
		claims.Name = string(role)
		claims.Pub.Allow.Add(p.Publish...)
		claims.Sub.Allow.Add(p.Subscribe...)
		if p.Replies > 0 {
			claims.Resp = &jwt.ResponsePermission{MaxMsgs: p.Replies, Expires: p.ReplyWithin}
		}
		seed, err := userKey.Seed()
		if err != nil {
			t.Fatal(err)
		}
		signer := accountKey
		if role == bus.RoleDashboard {
			signer = viewersKey
		}
		content, err := jwt.FormatUserConfig(encode(claims, signer), seed)
		if err != nil {
			t.Fatal(err)
		}
		files[role] = filepath.Join(dir, string(role)+".creds")
		if err := os.WriteFile(files[role], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
