package investigator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
)

// Times of the sweep.
const (
	sweepInterval     = 10 * time.Second
	retentionInterval = time.Minute
	orphanInterval    = time.Hour
	// cancelInterval is the interval between two looks for cancellations that do not end, and
	// cancelPatience the time that workers have for one.
	cancelInterval = time.Second
	cancelPatience = 3 * time.Second
)

const (
	// maxDeletions is how many sessions are deleted in one go.
	maxDeletions = 500
	// fullPercent is the share of system.retention.max_bytes from which the sessions that ended first
	// are deleted. New ones are refused at 95%.
	fullPercent = 90
	// fullDeletions is how many are deleted before the store is measured again.
	fullDeletions = 10
)

// sweeper queues what was forgotten, and deletes what is too old. One process does so at a time.
type sweeper struct {
	*backend
	log *slog.Logger
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context) error {
	sweep, retention, orphans := time.NewTicker(sweepInterval), time.NewTicker(retentionInterval), time.NewTicker(orphanInterval)
	defer sweep.Stop()
	defer retention.Stop()
	defer orphans.Stop()
	if err := s.index.awaitReady(ctx); err != nil {
		return err
	}
	s.sweep(ctx)
	s.delete(ctx)
	s.deleteOrphans(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			s.sweep(ctx)
		case <-retention.C:
			s.delete(ctx)
		case <-orphans.C:
			s.deleteOrphans(ctx)
		}
	}
}

// deleteOrphans deletes texts that no session names.
func (s *sweeper) deleteOrphans(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, retentionInterval)
	defer cancel()
	n, err := s.journal.DeleteOrphans(ctx, time.Now(), s.index.has)
	switch {
	case err != nil && ctx.Err() == nil:
		s.log.Warn("texts without a session could not be deleted", "error", err)
	case n > 0:
		s.log.Info("deleted texts that belonged to no session", "sessions", n)
	}
}

// sweep queues open sessions without a place in the queue.
func (s *sweeper) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sweepInterval)
	defer cancel()
	err := s.index.await(ctx)
	if err == nil {
		_, err = s.journal.Sweep(ctx, s.index.due)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Info("sessions could not be checked for a place in the queue", "error", err)
	}
}

// delete deletes sessions that ended too long ago, and where the store is almost full those that
// ended first.
func (s *sweeper) delete(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, retentionInterval)
	defer cancel()
	retention := s.config().System.Retention
	err := s.deleteAll(ctx, s.index.endedBefore(time.Now().Add(-time.Duration(retention.Sessions)), maxDeletions))
	for err == nil {
		var used int64
		if used, err = s.journal.Usage(ctx); err != nil || used < int64(retention.MaxBytes)/100*fullPercent {
			break
		}
		ids := s.index.endedBefore(time.Now(), fullDeletions)
		if len(ids) == 0 {
			break
		}
		err = s.deleteAll(ctx, ids)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("ended sessions could not be deleted", "error", err)
	}
}

// deleteAll deletes sessions. One that a retry made pending again since it was listed stays.
func (s *sweeper) deleteAll(ctx context.Context, ids []string) error {
	for _, id := range ids {
		ended, err := s.ended(ctx, id)
		if err != nil {
			return err
		}
		if !ended {
			continue
		}
		if err := s.journal.Delete(ctx, id); err != nil {
			return err
		}
		s.index.remove(id)
		s.backend.log.forget(id)
		s.log.Info("deleted an ended session", "session", id)
	}
	return nil
}

// ended reports whether a session has ended, with all that was acknowledged before the call. It reports
// false where the index does not have that in time: the next sweep looks again.
func (s *sweeper) ended(ctx context.Context, id string) (bool, error) {
	last, err := s.journal.Last(ctx, id)
	if err != nil {
		return false, err
	}
	waiting, cancel := context.WithTimeout(ctx, indexWait)
	defer cancel()
	return s.index.awaitSeq(waiting, last.Seq) && s.index.hasEnded(id), nil
}

// forgetDeleted removes sessions from the lists that another process deleted, until ctx ends.
func (b *backend) forgetDeleted(ctx context.Context) error {
	tick := time.NewTicker(retentionInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, id := range b.index.endedBefore(time.Now(), maxDeletions) {
			last, err := b.journal.Last(ctx, id)
			if err != nil || last.Seq > 0 {
				break // sessions are deleted in the order of their ends
			}
			b.index.remove(id)
		}
	}
}

// endCancelled ends sessions whose cancellation was requested some seconds ago, until ctx ends:
// their worker is gone, or they wait for one.
func (b *backend) endCancelled(ctx context.Context, end func(ctx context.Context, id string) error) error {
	tick := time.NewTicker(cancelInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, id := range b.index.cancelledBefore(time.Now().Add(-cancelPatience)) {
			if err := end(ctx, id); err != nil && !errors.Is(err, journal.ErrConflict) && ctx.Err() == nil {
				b.logger.Info("a cancelled session could not be ended", "session", id, "error", err)
			}
		}
	}
}
