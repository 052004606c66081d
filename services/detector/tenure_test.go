package detector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
)

// TestTenure: who waits to speak does so while the lease holds in the epoch in which
// the partition was claimed, and no longer.
func TestTenure(t *testing.T) {
	var alone *tenure
	if err := alone.wait(t.Context()); err != nil || !alone.held() {
		t.Errorf("without others: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		held := &tenure{term: newTerm()}
		spoke := make(chan time.Time, 1)
		wait := func(ctx context.Context) { go func() { _ = held.wait(ctx); spoke <- time.Now() }() }
		silent := func(when string) {
			t.Helper()
			synctest.Wait()
			if len(spoke) > 0 || held.held() {
				t.Fatalf("%s: it speaks", when)
			}
		}
		speaks := func(when string) {
			t.Helper()
			synctest.Wait()
			if len(spoke) == 0 || !held.held() {
				t.Fatalf("%s: it does not speak", when)
			}
			<-spoke
		}
		wait(t.Context())
		silent("before a beat")
		held.term.renew(time.Now())
		silent("before it is claimed")
		held.claimed(held.term.epoch())
		speaks("claimed")
		wait(t.Context())
		speaks("still")

		time.Sleep(ownership.HoldFor)
		wait(t.Context())
		silent("after the lease")
		held.term.renew(time.Now())
		silent("in a new epoch")
		held.claimed(held.term.epoch())
		speaks("claimed again")

		time.Sleep(ownership.HoldFor)
		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx)
		silent("after the lease")
		cancel()
		<-spoke
		if held.held() {
			t.Error("held by giving up")
		}
	})
}
