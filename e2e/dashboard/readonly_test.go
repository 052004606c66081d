package dashboard

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestDashboardCredentialIsReadOnly checks that the credential that tocsin up writes
// for dashboards can neither publish, nor create a consumer, nor read telemetry, over
// TCP and over the websocket. It can read alerts.
func TestDashboardCredentialIsReadOnly(t *testing.T) {
	t.Parallel()
	sys := &e2etest.System{Bus: e2etest.Up(t)} // without an agent, which would write
	witness, err := bus.Connect(t.Context(), bus.Config{
		Name: "witness", Role: bus.RoleGateway, Dir: statedir.At(sys.Bus.StateDir), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(witness.Close)
	auth, err := nats.NkeyOptionFromSeed(statedir.At(sys.Bus.StateDir).Credential(string(bus.RoleDashboard)))
	if err != nil {
		t.Fatal(err)
	}
	for how, url := range map[string]string{"TCP": sys.Bus.NATSURL, "websocket": sys.Bus.NATSWSURL} {
		t.Run(how, func(t *testing.T) {
			page := bustest.Dial(t, url, auth)
			live, err := page.SubscribeSync(bus.AllLiveAlerts)
			if err != nil {
				t.Fatal(err)
			}
			page.MayOnlyRead()
			sys.PostCI(t, map[string]any{"status": "failure", "name": how, "commit": "abc"})
			m, err := live.NextMsg(10 * time.Second)
			if err != nil || m.Subject != "live.alerts.default.ci.error" {
				t.Fatalf("live alert: %v, %v, want Subject \"live.alerts.default.ci.error\"", m, err)
			}
			ask, err := json.Marshal(map[string]json.RawMessage{"seq": json.RawMessage(m.Header.Get("Nats-Sequence"))})
			if err != nil {
				t.Fatal(err)
			}
			stored, err := page.Request("$JS.API.DIRECT.GET."+bus.StreamAlerts, ask, 5*time.Second)
			if err != nil || string(stored.Data) != string(m.Data) {
				t.Errorf("direct get: %v, %v, want Data %v", stored, err, string(m.Data))
			}
			seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			page.RepliesAreHarmless(witness, seq)
		})
	}
}
