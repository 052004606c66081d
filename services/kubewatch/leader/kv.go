package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Bucket is a Store in a bucket whose TTL is that of the locks. Ours says which locks
// are this process's: an answer that got lost leaves one that is.
func Bucket(kv jetstream.KeyValue, ours func(value []byte) bool) Store { return bucket{kv, ours} }

type bucket struct {
	kv   jetstream.KeyValue
	ours func([]byte) bool
}

func (b bucket) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	revision, err := b.kv.Create(ctx, key, value)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return b.adopt(ctx, key, value)
	}
	if err != nil {
		return 0, fmt.Errorf("take the lock %s: %w", key, err)
	}
	return revision, nil
}

func (b bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := b.kv.Update(ctx, key, value, revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return b.adopt(ctx, key, value)
	}
	if err != nil {
		return 0, fmt.Errorf("renew the lock %s: %w", key, err)
	}
	return next, nil
}

// adopt writes over a lock that stands there in spite of the revision that we know,
// where it is ours: then we were not told that it was written.
func (b bucket) adopt(ctx context.Context, key string, value []byte) (uint64, error) {
	entry, err := b.kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound): // just now
		return 0, fmt.Errorf("lock %s: %w", key, ErrTaken)
	case err != nil:
		return 0, fmt.Errorf("read the lock %s: %w", key, err)
	case !b.ours(entry.Value()) && !bytes.Equal(entry.Value(), value):
		return 0, fmt.Errorf("lock %s: %w", key, ErrTaken)
	}
	next, err := b.kv.Update(ctx, key, value, entry.Revision())
	if err != nil {
		return 0, fmt.Errorf("renew the lock %s: %w", key, err)
	}
	return next, nil
}

func (b bucket) Delete(ctx context.Context, key string, revision uint64) error {
	if err := b.kv.Delete(ctx, key, jetstream.LastRevision(revision)); err != nil {
		return fmt.Errorf("give up the lock %s: %w", key, err)
	}
	return nil
}
