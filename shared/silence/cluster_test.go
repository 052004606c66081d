package silence_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// TestChangeInACluster checks that concurrent writers on all servers lose none of each other's
// changes while each server stops and restarts. A writer may read from a replica that lags,
// and tries again when an answer gets lost.
func TestChangeInACluster(t *testing.T) {
	rig := bustest.Cluster(t, 3)
	rig.Provision(bus.Layout{})
	// Each writer makes some changes while a server goes, and some while it comes
	// back: the whole is below what may be silenced at a time.
	const atOnce, each = 5, 6 * 5
	now := time.Now()
	turns := make(chan struct{}, each*rig.Len())
	defer close(turns)
	var all sync.WaitGroup
	var done, asked atomic.Int64
	for i := range rig.Len() {
		c := rig.Connect(bus.RoleGateway)
		all.Go(func() {
			for n := range each {
				<-turns
				s := silence.Silence{ID: fmt.Sprintf("%d-%d", i, n), App: fmt.Sprintf("app%d-%d", i, n), Created: now, Until: now.Add(time.Hour)}
				add := func(l silence.Silences) (silence.Silences, error) {
					if slices.ContainsFunc(l, func(have silence.Silence) bool { return have.ID == s.ID }) {
						return l, nil // the answer was lost
					}
					after, _, err := l.Add(s, now)
					return after, err
				}
				for deadline := time.Now().Add(time.Minute); ; {
					asked.Add(1)
					_, err := silence.ChangeSilences(t.Context(), c, add)
					if err == nil {
						break
					}
					if time.Now().After(deadline) {
						t.Errorf("add silence %s: %v, want success within a minute", s.ID, err)
						return
					}
				}
				done.Add(1)
			}
		})
	}
	during := func(what string, happens func()) {
		t.Helper()
		want := done.Load() + int64(atOnce*rig.Len())
		for range atOnce * rig.Len() {
			turns <- struct{}{}
		}
		happens()
		for deadline := time.Now().Add(time.Minute); done.Load() < want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d changes of %d", what, done.Load(), want)
			}
		}
	}
	for i := range rig.Len() {
		during(fmt.Sprintf("server %d goes", i+1), func() { rig.Stop(i) })
		during(fmt.Sprintf("server %d comes back", i+1), func() { rig.Start(i) })
		rig.Ready()
	}
	all.Wait()
	t.Logf("%d changes, asked for %d times", done.Load(), asked.Load())
	c := rig.Connect(bus.RoleGateway)
	var set silence.Set
	for deadline := time.Now().Add(time.Minute); len(set.Silences) < each*rig.Len(); time.Sleep(5 * time.Millisecond) {
		var err error
		if set, err = silence.Read(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d silences are stored, want %d", len(set.Silences), each*rig.Len())
		}
	}
	ids := map[string]int{}
	for _, s := range set.Silences {
		ids[s.ID]++
	}
	if len(ids) != each*rig.Len() || len(set.Silences) != len(ids) {
		t.Errorf("silences = %v, want %d different ones", ids, each*rig.Len())
	}
}
