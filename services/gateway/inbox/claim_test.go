package inbox_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// TestClaim: of concurrent readers exactly one claims each alert, and the position never
// goes back.
func TestClaim(t *testing.T) {
	b := testrig.New(t)
	c := b.Join(t, bus.RoleGateway)
	const client, readers, last = "client a b", 4, 20
	if _, found, err := inbox.LoadPosition(t.Context(), c, client); err != nil || found {
		t.Fatalf("LoadPosition of a new client: found = %t, error = %v, want false, nil", found, err)
	}
	created := time.Unix(1, 0).UTC()
	var mu sync.Mutex
	claims := map[uint64]int{}
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for seq := uint64(1); seq <= last; seq++ {
				before, err := inbox.Claim(t.Context(), c, client, bus.Position{Seq: seq, Created: created})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				for n := before.Seq + 1; n <= seq; n++ {
					claims[n]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for n := uint64(1); n <= last; n++ {
		if claims[n] != 1 {
			t.Errorf("alert %d is claimed %d times, want once", n, claims[n])
		}
	}
	got, found, err := inbox.LoadPosition(t.Context(), c, client)
	if err != nil || !found {
		t.Fatalf("LoadPosition: found = %t, error = %v, want true, nil", found, err)
	}
	if diff := cmp.Diff(bus.Position{Seq: last, Created: created}, got); diff != "" {
		t.Errorf("position (-want +got):\n%s", diff)
	}
}
