package detector

import (
	"context"
	"time"
)

// sweepEvery is the time after which the first partition again removes unfinished snapshots.
// It is longer than a save may take.
const sweepEvery = 5 * time.Minute

// snapshotJob is a snapshot to be saved.
type snapshotJob struct {
	position snapshotPosition
	state    []byte
	// raised is how many alerts must be stored before it may be saved.
	raised int
}

// saveSnapshots saves the snapshots that the loop sends, and returns the result of each
// on saved.
func (p *partition) saveSnapshots(ctx context.Context, snapshots <-chan snapshotJob, saved chan<- error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case job, ok := <-snapshots:
			if !ok {
				return nil
			}
			saving, cancel := context.WithTimeout(ctx, prepareTimeout)
			err := p.lease.wait(saving)
			if err == nil {
				err = p.store.save(saving, job.position, job.state)
			}
			cancel()
			select {
			case saved <- err:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// sweepSnapshots removes the rest of unfinished snapshots of all partitions.
func (p *partition) sweepSnapshots(ctx context.Context) error {
	every := time.NewTicker(sweepEvery)
	defer every.Stop()
	var found map[string]bool
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		if !p.lease.held() {
			continue
		}
		sweeping, cancel := context.WithTimeout(ctx, prepareTimeout)
		now, err := p.store.sweep(sweeping, found)
		cancel()
		if found = now; err != nil && ctx.Err() == nil {
			p.log.Debug("cannot remove the rest of unfinished snapshots", "error", err)
		}
	}
}
