package detector

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
)

// term is the lease of this process, which its beats renew and its partitions
// look at. It is safe for concurrent use.
type term struct {
	mu    sync.Mutex
	lease ownership.Lease
	// changed is closed, and another one put in its place, when something may be
	// held that was not before.
	changed chan struct{}
}

func newTerm() *term { return &term{changed: make(chan struct{})} }

// renew notes that a beat that was sent at a time is acknowledged.
func (t *term) renew(sent time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lease.Renew(sent, time.Now())
	t.tell()
}

func (t *term) tell() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *term) epoch() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease.Epoch()
}

// holds says whether what was claimed in an epoch is held, and gives what is
// closed when that may have changed.
func (t *term) holds(epoch uint64) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease.Holds(epoch, time.Now()), t.changed
}

// tenure is the right of a partition to speak: to publish alerts, save snapshots
// and answer. Where nobody else can own the partition it is nil, which is always
// held. It is safe for concurrent use.
type tenure struct {
	term *term
	// epoch is that of the lease in which the partition was claimed last.
	epoch atomic.Uint64
}

// claimed notes that the partition is ours in an epoch.
func (t *tenure) claimed(epoch uint64) {
	t.epoch.Store(epoch)
	t.term.mu.Lock()
	defer t.term.mu.Unlock()
	t.term.tell()
}

func (t *tenure) held() bool {
	if t == nil {
		return true
	}
	held, _ := t.term.holds(t.epoch.Load())
	return held
}

// wait returns once the partition is held, or with the error of ctx.
func (t *tenure) wait(ctx context.Context) error {
	if t == nil {
		return nil
	}
	for {
		held, changed := t.term.holds(t.epoch.Load())
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
