package detector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
)

// TestPartitionLease checks that wait returns only while the process lease is valid and
// in the epoch in which the partition was claimed. It runs on the clock of synctest, so
// time.Sleep advances the time and does not wait.
func TestPartitionLease(t *testing.T) {
	var only *partitionLease
	if err := only.wait(t.Context()); err != nil {
		t.Errorf("nil lease: wait = %v, want nil", err)
	}
	if !only.held() {
		t.Error("nil lease: not held, want held")
	}
	synctest.Test(t, func(t *testing.T) {
		lease := &partitionLease{process: newProcessLease()}
		returned := make(chan struct{}, 1)
		wait := func(ctx context.Context) { go func() { _ = lease.wait(ctx); returned <- struct{}{} }() }
		wantBlocked := func(when string) {
			t.Helper()
			synctest.Wait()
			if len(returned) > 0 {
				t.Fatalf("%s: wait has returned, want it blocked", when)
			}
			if lease.held() {
				t.Fatalf("%s: lease is held, want not held", when)
			}
		}
		wantHeld := func(when string) {
			t.Helper()
			synctest.Wait()
			if len(returned) == 0 {
				t.Fatalf("%s: wait is blocked, want it to return", when)
			}
			if !lease.held() {
				t.Fatalf("%s: lease is not held, want held", when)
			}
			<-returned
		}
		wait(t.Context())
		wantBlocked("before a heartbeat")
		lease.process.renew(time.Now())
		wantBlocked("before the claim")
		lease.claimed(lease.process.epoch())
		wantHeld("claimed")
		wait(t.Context())
		wantHeld("still claimed")

		time.Sleep(ownership.HoldFor)
		wait(t.Context())
		wantBlocked("after the lease expired")
		lease.process.renew(time.Now())
		wantBlocked("in a new epoch")
		lease.claimed(lease.process.epoch())
		wantHeld("claimed again")

		time.Sleep(ownership.HoldFor)
		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx)
		wantBlocked("after the lease expired again")
		cancel()
		<-returned
		if lease.held() {
			t.Error("lease is held after wait was cancelled, want not held")
		}
	})
}
