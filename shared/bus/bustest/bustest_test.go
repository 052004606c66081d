package bustest_test

import (
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRig checks the replicas of the streams, and that each server can be restarted.
func TestRig(t *testing.T) {
	for _, n := range []int{1, 3} {
		r := bustest.Cluster(t, n)
		r.Provision(bus.Layout{})
		c := r.Connect(bus.RoleDetector)
		for stream, want := range map[string]int{bus.StreamAlerts: n, bus.StreamTelemetry: 1, bus.StreamSilences: n, "OBJ_" + bus.BucketDetector: n} {
			s, err := c.JS.Stream(t.Context(), stream)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.CachedInfo().Config.Replicas; got != want {
				t.Errorf("%d servers: %s has %d replicas, want %d", n, stream, got, want)
			}
		}
		for i := range n {
			r.Restart(i)
			bustest.Eventually(t, fmt.Sprintf("stream after the restart of server %d", i+1), func() bool {
				return c.Check(t.Context(), bus.StreamAlerts) == nil
			})
		}
	}
}
