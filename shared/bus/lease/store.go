package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Store keeps one lease, and forgets it when it is not written for its TTL.
type Store interface {
	// Acquire writes a lease that no process holds, and returns its revision. The error
	// wraps [ErrHeld] where another process holds it.
	Acquire(ctx context.Context, value []byte) (revision uint64, err error)
	// Renew writes a lease that is still at a revision, or is ours. The error wraps
	// [ErrHeld] where another process holds it, or none does.
	Renew(ctx context.Context, value []byte, revision uint64) (uint64, error)
	// Release removes a lease that is still at a revision.
	Release(ctx context.Context, revision uint64) error
}

// InBucket returns the Store of a document in a bucket that forgets documents after the TTL
// of the lease. ours reports whether a value was written by this process: when the answer
// to a write is lost, the lease is ours at a revision that is not known.
func InBucket(doc bus.Document, ours func(value []byte) bool) Store { return document{doc, ours} }

type document struct {
	bus.Document
	ours func([]byte) bool
}

func (d document) Acquire(ctx context.Context, value []byte) (uint64, error) {
	entry, err := d.Get(ctx)
	if err != nil {
		return 0, fmt.Errorf("acquire the lease: %w", err)
	}
	if entry.Exists() && !d.ours(entry.Data) {
		return 0, fmt.Errorf("acquire the lease: %w", ErrHeld)
	}
	revision, err := d.Write(ctx, value, entry.Revision)
	if errors.Is(err, bus.ErrConflict) {
		return 0, fmt.Errorf("acquire the lease: %w: %w", ErrHeld, err)
	}
	if err != nil {
		return 0, fmt.Errorf("acquire the lease: %w", err)
	}
	return revision, nil
}

func (d document) Renew(ctx context.Context, value []byte, revision uint64) (uint64, error) {
	next, err := d.Write(ctx, value, revision)
	if errors.Is(err, bus.ErrConflict) {
		var entry bus.Entry
		if entry, err = d.Get(ctx); err == nil {
			if !entry.Exists() || !d.ours(entry.Data) {
				return 0, fmt.Errorf("renew the lease: %w", ErrHeld)
			}
			next, err = d.Write(ctx, value, entry.Revision)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("renew the lease: %w", err)
	}
	return next, nil
}

func (d document) Release(ctx context.Context, revision uint64) error {
	if err := d.Delete(ctx, revision); err != nil {
		return fmt.Errorf("release the lease: %w", err)
	}
	return nil
}
