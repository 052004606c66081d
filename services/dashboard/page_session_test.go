package dashboard

import (
	"errors"
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

// TestSession: a browser is told how to join the bus by itself, and the key opens
// what it should.
func TestSession(t *testing.T) {
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
	if s.Version != "v1" || s.Bus == nil || s.Bus.URL != "ws://127.0.0.1:7443" || !s.Desk || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%+v %v", s, a.header)
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
	if _, err := nc.SubscribeSync(bus.AllLiveAlerts); err != nil || nc.Flush() != nil {
		t.Error(err)
	}
}

// TestNoWebsocket: without a websocket, or without its key, a browser is told
// nothing of the bus.
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
		if a := d.get(t, pathSession); !strings.Contains(a.body, `"bus":null`) || strings.Contains(a.body, "SU") {
			t.Errorf("%s: %s", name, a.body)
		}
		d.stop()
	}
}

// TestBrowserURL: a browser is sent to a name by which it can reach the websocket.
func TestBrowserURL(t *testing.T) {
	const here, there = "127.0.0.1:50000", "192.0.2.1:50000"
	for _, tt := range []struct {
		at       string
		anywhere bool
		host     string
		from     string
		want     string
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
		if got := (Browser{URL: func() string { return tt.at }, OnAllAddresses: tt.anywhere}).url(r); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

// TestKeyFiles: a file with a seed, or with a JWT and one.
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
	for name, tt := range map[string]struct{ text, jwt, fails string }{
		"seed":     {text: string(seed) + "\n"},
		"creds":    {text: creds, jwt: jwt},
		"nonsense": {text: "nonsense", fails: "read the key of the dashboard"},
	} {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := fileKey(file)()
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) || strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || key.Seed != string(seed) || key.JWT != tt.jwt {
			t.Errorf("%s: %+v %v", name, key, err)
		}
	}
	if _, err := fileKey("/no/such/file")(); err == nil {
		t.Error("a file that is not there has a key")
	}
}

// TestWideKeys: of an external bus, browsers get the dashboard's key, and never one
// that may do more, whatever somebody has set.
func TestWideKeys(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	rig.Provision(bus.Layout{})
	open := bustest.Serve(t, "", &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	admin, err := bus.Connect(t.Context(), bus.Config{Name: "p", Role: bus.RoleProvisioner, URL: open.URL(), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	eventually(t, "open bus", admin.Connected)
	if err := bus.Provision(t.Context(), admin, bus.Layout{}, quiet()); err != nil {
		t.Fatal(err)
	}
	run := func(join bus.Config, key string) *running {
		t.Helper()
		return start(t, Config{
			Bus: join, NoActions: "not needed here",
			Browser: Browser{URL: func() string { return "wss://nats.example" }, Key: fileKey(key), Check: true},
		})
	}
	checkPermissions := run(rig.Config(bus.RoleDashboard), rig.Creds(bus.RoleDashboard))
	checkPermissions.awaitReady(t)
	if a := checkPermissions.get(t, pathSession); !strings.Contains(a.body, `"seed":"SU`) {
		t.Errorf("the dashboard's own: %s", a.body)
	}
	for _, role := range []bus.Role{bus.RoleGateway, bus.RoleDetector, bus.RoleIngest, bus.RoleProvisioner} {
		d := run(rig.Config(role), rig.Creds(role))
		eventually(t, "reason why "+string(role)+" is no dashboard", func() bool {
			return strings.Contains(d.get(t, pathReady).body, "TOCSIN_NATS_CREDS")
		})
		if a := d.get(t, pathSession); !strings.Contains(a.body, `"bus":null`) {
			t.Errorf("%s: %s", role, a.body)
		}
	}
	wide := run(bus.Config{URL: open.URL(), Logger: quiet()}, rig.Creds(bus.RoleDashboard))
	wide.awaitReady(t)
	if a := wide.get(t, pathSession); !strings.Contains(a.body, `"bus":null`) {
		t.Errorf("one that may do anything: %s", a.body)
	}
}
