package ingest

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// TestHealthOnTheBus checks that a health query on the bus returns the state of ingest,
// also after the bus was restored.
func TestHealthOnTheBus(t *testing.T) {
	b := bustest.Start(t)
	dir := b.Dir
	url, _ := start(t, Config{Bus: bus.Config{Dir: dir}, Version: "1.2.3"})
	bustest.Eventually(t, "write", func() bool {
		status, _, _ := send(t, "POST", url+"/v1/events", "["+logEvent+","+logEvent+"]")
		return status == 200
	})
	desk, err := bus.Connect(t.Context(), bus.Config{Name: "desk", Role: bus.RoleGateway, Dir: dir, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer desk.Close()
	ask := func() (h query.Health) {
		bustest.Eventually(t, "answer", func() bool {
			all, err := presence.Collect(t.Context(), desk, 200*time.Millisecond)
			if err != nil || len(all) != 1 {
				return false
			}
			h = all[0]
			return h.OK
		})
		return h
	}
	first := ask()
	if i := first.Ingest; first.Service != "ingest" || first.Version != "1.2.3" || i == nil || i.Pressure != "normal" || i.Circuit != "closed" || i.Accepted != 2 {
		t.Errorf("got %+v %+v, want a healthy ingest 1.2.3 with 2 accepted events", first, i)
	}
	b.Restart()
	if again := ask(); again.ID != first.ID || again.Ingest.Accepted != 2 {
		t.Errorf("after a restart of the bus: got %+v %+v, want id %s and 2 accepted events", again, again.Ingest, first.ID)
	}
}
