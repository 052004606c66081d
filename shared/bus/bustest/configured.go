package bustest

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// PageOrigin is the origin of a page that may use the websocket of [Configured].
const PageOrigin = "https://alerts.example"

// Configured reads one of the files in deploy/nats as nats-server does, for n servers. The
// environment must have the roles' public keys and TOCSIN_ROUTES_PASSWORD; see also
// [Certificates.ForServers]. Host and ports are replaced: the servers are on one machine.
func Configured(t testing.TB, file string, n int) []*server.Options {
	t.Helper()
	routes := `["nats-route://routes:` + os.Getenv("TOCSIN_ROUTES_PASSWORD") + `@nats-1:6222", "nats-route://routes:x@nats-2:6222"]`
	var all []*server.Options
	for i := range n {
		t.Setenv("TOCSIN_SERVER_NAME", fmt.Sprintf("nats-%d", i+1))
		t.Setenv("TOCSIN_SERVER_STORE", t.TempDir())
		t.Setenv("TOCSIN_SERVER_MONITOR", "127.0.0.1:8222")
		t.Setenv("TOCSIN_SERVER_ORIGINS", `["`+PageOrigin+`", "http://localhost:7480"]`)
		t.Setenv("TOCSIN_SERVER_ROUTES", routes)
		o, err := server.ProcessConfigFile(file)
		must(t, err)
		if o.Port != 4222 || o.HTTPPort != 8222 || o.HTTPHost != "127.0.0.1" || o.MaxPayload != 2<<20 || !o.JetStream ||
			o.SyncInterval != 5*time.Second || !o.NoFastProducerStall || o.JetStreamMaxStore != 4<<30 || !slices.Contains(o.Websocket.AllowedOrigins, PageOrigin) {
			t.Errorf("%s: %+v", file, o)
		}
		if n > 1 && (len(o.Routes) != 2 || o.Routes[1].Host != "nats-2:6222" || o.Cluster.Port != 6222 ||
			o.Cluster.Password == "" || o.Routes[0].User.String() != "routes:"+o.Cluster.Password) {
			t.Errorf("%s: routes %v of %+v", file, o.Routes, o.Cluster)
		}
		o.Host, o.Port, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT, server.RANDOM_PORT
		o.Websocket.Host, o.Websocket.Port = "127.0.0.1", server.RANDOM_PORT
		if n > 1 {
			o.Cluster.Host, o.Cluster.Port = "127.0.0.1", server.RANDOM_PORT
		}
		o.NoSigs, o.NoLog = true, true
		all = append(all, o)
	}
	return all
}
