package investigator

import (
	"testing"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// A list that can't learn in time what is stored shows what the index has.
func TestListOfASlowBus(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	rig.Provision(bus.Layout{})
	rig.Ready()
	proxy := bustest.NewProxy(t, rig.URL())
	cfg := rig.Config(bus.RoleInvestigator)
	cfg.Name, cfg.Role, cfg.URL, cfg.Logger = "test", bus.RoleInvestigator, proxy.URL(), bustest.Quiet()
	c, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	bustest.Eventually(t, "the bus answers", c.Connected)
	x := newIndex(journal.New(c, bustest.Quiet()), bustest.Quiet(), nil)
	proxy.Silence()
	t.Cleanup(proxy.Restore)
	if err := x.await(t.Context()); err != nil {
		t.Errorf("await on a bus that does not answer = %v, want nil", err)
	}
}
