package detector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/detector/ownership"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// ownersTimeout bounds one request to the bucket of owners. Two of them fit into
	// ownership.HoldFor.
	ownersTimeout = 700 * time.Millisecond
	// heartbeatRetry is the pause after a heartbeat that was not stored.
	heartbeatRetry = 100 * time.Millisecond
)

// partitionManager starts and stops the partitions that this detector owns, when several
// detectors share the work. Its loop owns the ownership table.
type partitionManager struct {
	*process
	total   int
	bucket  ownersBucket
	lease   *processLease
	table   *ownership.Table
	running map[int]*runningPartition
	ended   chan *runningPartition
	// heartbeats are those that were stored.
	heartbeats chan storedHeartbeat
	// progress signals that a partition has caught up.
	progress chan struct{}
	// lastError is the last logged error of reading the bucket.
	lastError string
	// joined is set once the bucket was read. onReady is called once all partitions have
	// caught up.
	joined  bool
	onReady func()
}

type storedHeartbeat struct {
	revision uint64
	sent     time.Time
}

// runningPartition is a partition that runs here. stop shuts it down, abort ends it at
// once.
type runningPartition struct {
	partition   *partition
	stop, abort context.CancelFunc
	// release is set if its record must be cleared when it has ended.
	release bool
	err     error
}

// runPartitions works on the partitions that this detector owns until ctx ends, and then
// shuts them down and releases them.
func (d *process) runPartitions(ctx context.Context, total int, onReady func()) error {
	m := &partitionManager{
		process: d, total: total, onReady: onReady,
		bucket: ownersBucket{session: d.out, id: d.identity.ID}, lease: newProcessLease(), table: ownership.New(d.identity.ID, total),
		running: map[int]*runningPartition{}, ended: make(chan *runningPartition),
		heartbeats: make(chan storedHeartbeat, 8), progress: make(chan struct{}, 1),
	}
	// Heartbeats outlive ctx: partitions that shut down still publish, under the lease.
	alive, endHeartbeats := context.WithCancel(context.WithoutCancel(ctx))
	defer endHeartbeats()
	var sending sync.WaitGroup
	var last uint64
	leaving := make(chan struct{})
	sending.Go(func() { last = m.sendHeartbeats(alive, leaving) })
	err := m.run(ctx)
	close(leaving)
	err = errors.Join(err, m.releaseAll(alive))
	endHeartbeats()
	sending.Wait()
	if last > 0 && d.out.Connected() {
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownersTimeout)
		defer cancel()
		if err := m.bucket.remove(removing, last); err != nil {
			m.log.Info("cannot remove this detector's heartbeat; the other detectors will", "error", err)
		}
	}
	return err
}

// sendHeartbeats writes heartbeats until ctx ends and returns the revision of the last
// one. After a failure it retries sooner. When leaving is closed it
// announces that at once.
func (m *partitionManager) sendHeartbeats(ctx context.Context, leaving <-chan struct{}) (last uint64) {
	var lastError string
	isLeaving := false
	for {
		sent := time.Now()
		writing, cancel := context.WithTimeout(ctx, ownersTimeout)
		revision, err := m.bucket.writeHeartbeat(writing, isLeaving)
		cancel()
		next := ownership.HeartbeatEvery - time.Since(sent)
		if err == nil {
			lastError, last = "", revision
			m.lease.renew(sent)
			select {
			case m.heartbeats <- storedHeartbeat{revision, sent}:
			default: // the loop is busy; the next heartbeat does as well
			}
		} else if next = heartbeatRetry; ctx.Err() == nil {
			m.state.setBlocked(err)
			if text := err.Error(); text != lastError {
				lastError = text
				m.log.Warn("cannot store the heartbeat; another detector will take over the partitions", "error", err)
			}
		}
		wait := time.NewTimer(max(next, 0))
		select {
		case <-ctx.Done():
			wait.Stop()
			return last
		case <-leaving:
			isLeaving, leaving = true, nil
		case <-wait.C:
		}
		wait.Stop()
	}
}

// run applies the plans of the ownership table until ctx ends or a partition fails.
func (m *partitionManager) run(ctx context.Context) error {
	read := time.NewTicker(ownership.ReadEvery)
	defer read.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case h := <-m.heartbeats:
			m.table.RecordHeartbeat(h.revision, h.sent)
			if m.joined {
				continue
			}
			m.reconcile(ctx) // do not wait for the ticker at the start
		case r := <-m.ended:
			if err := m.finish(context.WithoutCancel(ctx), r); err != nil {
				return err
			}
		case <-m.progress:
		case <-read.C:
			m.reconcile(ctx)
		}
		m.updateHealth()
	}
}

// reconcile reads the bucket and carries out the plan.
func (m *partitionManager) reconcile(ctx context.Context) {
	reading, cancel := context.WithTimeout(ctx, ownersTimeout)
	defer cancel()
	requested := time.Now()
	view, err := m.bucket.view(reading)
	answered := time.Now()
	if err != nil {
		if text := err.Error(); ctx.Err() == nil && text != m.lastError {
			m.lastError = text
			m.log.Warn("cannot read the owners of the partitions", "error", err)
		}
		return
	}
	m.lastError = ""
	epoch := m.lease.epoch()
	plan := m.table.Plan(view, requested, answered, epoch)
	for _, n := range plan.Drop {
		m.log.Warn("another detector has taken over a partition", "partition", n)
		m.running[n].abort()
	}
	for _, n := range plan.Release {
		m.log.Info("releasing a partition for another detector", "partition", n)
		m.running[n].release = true
		m.running[n].stop()
	}
	m.claim(ctx, plan.Claim, epoch)
	for _, revision := range plan.Forget {
		if err := m.bucket.remove(reading, revision); err != nil && ctx.Err() == nil {
			m.log.Debug("cannot remove the heartbeat of a dead detector; the next read retries", "error", err)
		}
	}
	if epoch > 0 {
		m.joined = true
	}
}

// claim writes our id into records, all at once, and starts the partitions whose claim
// succeeded.
func (m *partitionManager) claim(ctx context.Context, claims []ownership.Claim, epoch uint64) {
	writing, cancel := context.WithTimeout(ctx, ownersTimeout)
	defer cancel()
	revisions := make([]uint64, len(claims))
	var group errgroup.Group
	for i, c := range claims {
		group.Go(func() error {
			revision, err := m.bucket.setOwner(writing, c.Partition, m.bucket.id, c.Revision)
			if err != nil && !errors.Is(err, bus.ErrConflict) && ctx.Err() == nil {
				m.log.Warn("cannot claim a partition; the next read retries", "partition", c.Partition, "error", err)
			}
			revisions[i] = revision
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors
	for i, c := range claims {
		if revisions[i] == 0 {
			continue
		}
		m.table.Claimed(c.Partition, revisions[i], epoch)
		if c.Takeover {
			m.metrics.takeovers.Inc()
			m.log.Warn("taking over a partition from a detector that died", "partition", c.Partition)
		}
		if r := m.running[c.Partition]; r != nil {
			r.partition.lease.claimed(epoch)
			continue
		}
		m.start(ctx, c.Partition, epoch)
	}
}

// start runs a partition.
func (m *partitionManager) start(ctx context.Context, number int, epoch uint64) {
	lease := &partitionLease{process: m.lease}
	lease.claimed(epoch)
	p := newPartition(m.process, number, m.total, lease)
	r := &runningPartition{partition: p}
	working, stop := context.WithCancel(ctx)
	abort, cancelAbort := bus.WithGrace(working, flushTimeout)
	r.stop, r.abort = stop, cancelAbort
	m.running[number] = r
	go func() {
		r.err = p.run(working, abort, func() {
			select {
			case m.progress <- struct{}{}:
			default:
			}
		})
		stop()
		cancelAbort()
		m.ended <- r // run or releaseAll receives it
	}()
}

// finish removes a partition that has ended and clears its record if it is ours to clear.
func (m *partitionManager) finish(ctx context.Context, r *runningPartition) error {
	number := r.partition.number
	if r.release {
		writing, cancel := context.WithTimeout(ctx, ownersTimeout)
		defer cancel()
		_, err := m.bucket.setOwner(writing, number, "", m.table.Revision(number))
		if err != nil && !errors.Is(err, bus.ErrConflict) {
			m.log.Warn("cannot release a partition; it is taken over once this detector counts as dead", "partition", number, "error", err)
		}
	}
	delete(m.running, number)
	m.table.RecordEnd(number)
	m.metrics.forget(number)
	return r.err
}

// releaseAll shuts down all partitions and clears their records.
func (m *partitionManager) releaseAll(ctx context.Context) (err error) {
	m.state.setJoined(false, m.total)
	m.table.Leave()
	for _, number := range slices.Sorted(maps.Keys(m.running)) {
		r := m.running[number]
		r.release = true
		r.stop()
	}
	for len(m.running) > 0 {
		err = errors.Join(err, m.finish(ctx, <-m.ended))
	}
	return err
}

func (m *partitionManager) updateHealth() {
	held, _ := m.lease.holds(m.lease.epoch())
	m.state.setJoined(m.joined && held, m.total)
	if m.state.Health().OK {
		m.onReady()
	}
}
