package detector

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
)

// processLease is the lease of this process: its heartbeats renew it and its partitions
// check it. It is safe for concurrent use.
type processLease struct {
	mu    sync.Mutex
	clock lease.Clock
	// changed is closed and replaced when a partition may have become held.
	changed chan struct{}
}

func newProcessLease() *processLease {
	return &processLease{clock: lease.NewClock(ownership.HoldFor), changed: make(chan struct{})}
}

// renew records that a heartbeat sent at a time was acknowledged.
func (l *processLease) renew(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clock.Renew(sent, time.Now())
	l.wake()
}

// wake wakes all waiters. The caller holds the lock.
func (l *processLease) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *processLease) epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock.Epoch()
}

// holds reports whether a partition claimed in an epoch is held. The channel is closed
// when that may have changed.
func (l *processLease) holds(epoch uint64) (bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock.Holds(epoch, time.Now()), l.changed
}

// partitionLease is the right to publish alerts, save snapshots and answer queries for a
// partition. A nil lease is always held: no other detector can own the partition. It is
// safe for concurrent use.
type partitionLease struct {
	process *processLease
	epoch   atomic.Uint64 // lease epoch of the latest claim
}

// claimed records that the partition was claimed in an epoch.
func (l *partitionLease) claimed(epoch uint64) {
	l.epoch.Store(epoch)
	l.process.mu.Lock()
	defer l.process.mu.Unlock()
	l.process.wake()
}

func (l *partitionLease) held() bool {
	if l == nil {
		return true
	}
	held, _ := l.process.holds(l.epoch.Load())
	return held
}

// wait returns nil once the partition is held, or the error of ctx.
func (l *partitionLease) wait(ctx context.Context) error {
	if l == nil {
		return nil
	}
	for {
		held, changed := l.process.holds(l.epoch.Load())
		if held {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
