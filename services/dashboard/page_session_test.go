package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestPageSession: a browser gets the URL and a key of the bus, by which it can subscribe.
func TestPageSession(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.Browser.URL = func() string { return "ws://127.0.0.1:7443" }
	d := start(t, cfg)
	a := d.get(t, pathSession)
	var s struct {
		Version string
		Bus     *struct{ URL, Seed, JWT string }
		Desk    bool
	}
	a.json(t, &s)
	if s.Bus == nil {
		t.Fatalf("bus = null in %s, want one", a.body)
	}
	checkEqual(t, "version", s.Version, "v1")
	checkEqual(t, "bus.url", s.Bus.URL, "ws://127.0.0.1:7443")
	a.checkHeader(t, pathSession, "Cache-Control", "no-store")
	if !s.Desk {
		t.Error("desk = false, want true")
	}
	key, err := nkeys.FromSeed([]byte(s.Bus.Seed))
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(b.server.URL(), nats.Nkey(public, key.Sign))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.SubscribeSync(bus.AllLiveAlerts); err != nil {
		t.Errorf("subscribe to the live alerts: %v, want no error", err)
	}
	if err := nc.Flush(); err != nil {
		t.Errorf("flush: %v, want no error", err)
	}
}

// TestNoWebsocket: without a websocket or its key, a browser gets no access to the bus.
func TestNoWebsocket(t *testing.T) {
	b := newBus(t)
	for name, browser := range map[string]Browser{
		"none":        {},
		"turned off":  {URL: func() string { return "" }, Key: KeyIn(b.dir)},
		"not running": {URL: announcedURL(b.dir), Key: KeyIn(b.dir)}, // the rig has none
		"no key":      {URL: func() string { return "ws://127.0.0.1:1" }, Key: func() (Key, error) { return Key{}, errors.New("gone") }},
		"no file":     {URL: func() string { return "ws://127.0.0.1:1" }, Key: fileKey("")},
		"nonsense":    {URL: func() string { return "ws://127.0.0.1:1;x" }, Key: KeyIn(b.dir)},
	} {
		cfg := b.config()
		cfg.Browser = browser
		d := start(t, cfg)
		a := d.get(t, pathSession)
		checkContains(t, name+": session", a.body, `"bus":null`)
		checkLacks(t, name+": session", a.body, "SU")
		d.stop()
	}
}

// TestBrowserURL: a browser gets a URL by which it can reach the websocket, or none.
func TestBrowserURL(t *testing.T) {
	const here, there = "127.0.0.1:50000", "192.0.2.1:50000"
	for _, tt := range []struct {
		url            string
		onAllAddresses bool
		host, from     string
		want           string
	}{
		{"ws://127.0.0.1:7443", false, "localhost:7480", here, "ws://127.0.0.1:7443"},
		{"ws://127.0.0.1:7443", false, "[::1]", "[::1]:50000", "ws://127.0.0.1:7443"},
		{"ws://127.0.0.1:7443", false, "127.0.0.1", "[::ffff:127.0.0.1]:50000", "ws://127.0.0.1:7443"},
		{"ws://127.0.0.1:7443", false, "localhost:7480", there, ""},
		{"ws://127.0.0.1:7443", false, "box.example:7480", there, ""},
		{"ws://127.0.0.1:7443", false, "box.example", here, ""}, // a proxy
		{"ws://localhost:7443", false, "box.example", there, ""},
		{"ws://[::1]:7443", false, "box.example", there, ""},
		{"ws://127.0.0.1:7443", false, "localhost", "", ""},
		{"ws://192.0.2.9:7443", false, "192.0.2.9:7480", there, "ws://192.0.2.9:7443"},
		{"ws://127.0.0.1:7443", true, "box.example:7480", there, "ws://box.example:7443"},
		{"ws://127.0.0.1:7443", true, "box.example", there, "ws://box.example:7443"},
		{"ws://127.0.0.1:7443", true, "[fd00::1]:7480", there, "ws://[fd00::1]:7443"},
		{"ws://127.0.0.1:7443", true, "[fd00::1]", there, "ws://[fd00::1]:7443"},
		{"wss://nats.example", false, "box.example", there, "wss://nats.example"},
		{"wss://nats.example/path?x", false, "box.example", there, "wss://nats.example"},
		{"", false, "box.example", there, ""},
		{"ws://a b", false, "box.example", there, ""},
		{"ws://127.0.0.1:1", true, "box; script-src *", there, ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.RemoteAddr = tt.host, tt.from
		if got := (Browser{URL: func() string { return tt.url }, OnAllAddresses: tt.onAllAddresses}).url(r); got != tt.want {
			t.Errorf("url of %s for a request from %s to %s = %q, want %q", tt.url, tt.from, tt.host, got, tt.want)
		}
	}
}

// TestKeyFiles: a file has a seed, or a JWT and a seed. Errors do not quote it.
func TestKeyFiles(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	const jwt = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJYIn0.c2lnbmF0dXJl"
	creds := "-----BEGIN NATS USER JWT-----\n" + jwt + "\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n"
	for name, tt := range map[string]struct{ text, jwt, err string }{
		"seed":     {text: string(seed) + "\n"},
		"creds":    {text: creds, jwt: jwt},
		"nonsense": {text: "nonsense", err: "read the key of the dashboard"},
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := fileKey(file)()
		if tt.err != "" {
			checkContains(t, name+": error", fmt.Sprint(err), tt.err)
			checkLacks(t, name+": error", fmt.Sprint(err), tt.text)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v, want no error", name, err)
		}
		if want := (Key{Seed: string(seed), JWT: tt.jwt}); key != want {
			t.Errorf("%s: key = %+v, want %+v", name, key, want)
		}
	}
	if _, err := fileKey("/no/such/file")(); err == nil {
		t.Error("the key of a missing file has no error, want one")
	}
}

// TestKeysWithTooManyPermissions: on an external bus, browsers get a key only if it has no more
// permissions than the role dashboard.
func TestKeysWithTooManyPermissions(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	rig.Provision(bus.Layout{})
	open := bustest.Serve(t, "", &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	admin, err := bus.Connect(t.Context(), bus.Config{Name: "p", Role: bus.RoleProvisioner, URL: open.URL(), Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	eventually(t, "open bus", admin.Connected)
	if err := bus.Provision(t.Context(), admin, bus.Layout{}, discard()); err != nil {
		t.Fatal(err)
	}
	run := func(join bus.Config, key string) *running {
		t.Helper()
		return start(t, Config{
			Bus: join, NoActions: "not needed here",
			Browser: Browser{URL: func() string { return "wss://nats.example" }, Key: fileKey(key), Check: true},
		})
	}
	own := run(rig.Config(bus.RoleDashboard), rig.Creds(bus.RoleDashboard))
	own.awaitReady(t)
	checkContains(t, "session with the key of the role dashboard", own.get(t, pathSession).body, `"seed":"SU`)
	for _, role := range []bus.Role{bus.RoleGateway, bus.RoleDetector, bus.RoleIngest, bus.RoleProvisioner} {
		d := run(rig.Config(role), rig.Creds(role))
		eventually(t, "reason why the role "+string(role)+" is refused", func() bool {
			return strings.Contains(d.get(t, pathReady).body, "TOCSIN_NATS_CREDS")
		})
		checkContains(t, "session with the key of the role "+string(role), d.get(t, pathSession).body, `"bus":null`)
	}
	unrestricted := run(bus.Config{URL: open.URL(), Logger: discard()}, rig.Creds(bus.RoleDashboard))
	unrestricted.awaitReady(t)
	checkContains(t, "session with a key on a bus without permissions", unrestricted.get(t, pathSession).body, `"bus":null`)
}
