// Package place keeps up to where the events of each cluster were published, so that
// whoever watches it next goes on there.
//
// It decides nothing about what was published: it writes what it is told, and sees by
// compare-and-set that another one has written meanwhile.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Place is up to where.
type Place struct {
	// ClusterUID is what the cluster says that it is. One of the same name with another
	// uid is another cluster.
	ClusterUID string `json:"cluster_uid"`
	// Version is the resourceVersion that all was published up to.
	Version string `json:"resource_version"`
	// Sequence is one that all messages have a higher one than that came after Version.
	// It belongs to the stream that was made at Stream.
	Sequence uint64    `json:"sequence"`
	Stream   time.Time `json:"stream"`
	// By is who has written it.
	By string `json:"by"`
}

// ErrOvertaken says that another one has written since.
var ErrOvertaken = errors.New("another kubewatch has written up to where this cluster was published")

// ErrUnreadable says that what stands there is no place. Who opened it can write.
var ErrUnreadable = errors.New("what stands there is nothing that this kubewatch has written")

// timeout bounds one question to the bucket.
const timeout = 3 * time.Second

// Keeper reads and writes one cluster's place. It is for one goroutine.
type Keeper struct {
	kv       jetstream.KeyValue
	key      string
	revision uint64
	written  time.Time
}

// Written is when the place that was opened was written, zero where it was not.
func (k *Keeper) Written() time.Time { return k.written }

// Open reads a place. There is none before the first write: then it is empty. It is, too,
// with ErrUnreadable, the only error that comes with a keeper.
func Open(ctx context.Context, kv jetstream.KeyValue, key string) (*Keeper, Place, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	k := &Keeper{kv: kv, key: key}
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return k, Place{}, nil
	}
	if err != nil {
		return nil, Place{}, fmt.Errorf("read up to where %s was published: %w", key, err)
	}
	k.revision, k.written = entry.Revision(), entry.Created()
	var p Place
	if err := json.Unmarshal(entry.Value(), &p); err != nil {
		// Of another version, or somebody's own. What it says is lost, as at a first start.
		return k, Place{}, fmt.Errorf("read up to where %s was published: %w: %w", key, ErrUnreadable, err)
	}
	return k, p, nil
}

// Save writes a place. Its error wraps ErrOvertaken where another one has written
// since.
func (k *Keeper) Save(ctx context.Context, p Place) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode up to where %s was published: %w", k.key, err)
	}
	revision, err := k.kv.Update(ctx, k.key, data, k.revision)
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		revision, err = k.adopt(ctx, p, data)
	}
	if err != nil {
		return fmt.Errorf("write up to where %s was published: %w", k.key, err)
	}
	k.revision = revision
	return nil
}

// adopt writes over what we have written ourselves and were not told of, and where
// nothing is any more.
func (k *Keeper) adopt(ctx context.Context, p Place, data []byte) (uint64, error) {
	entry, err := k.kv.Get(ctx, k.key)
	if errors.Is(err, jetstream.ErrKeyNotFound) { // somebody has emptied the bucket
		revision, err := k.kv.Create(ctx, k.key, data)
		if errors.Is(err, jetstream.ErrKeyExists) {
			return 0, ErrOvertaken
		}
		return revision, err
	}
	if err != nil {
		return 0, err
	}
	var there Place
	if json.Unmarshal(entry.Value(), &there) != nil || there.By != p.By {
		return 0, ErrOvertaken
	}
	revision, err := k.kv.Update(ctx, k.key, data, entry.Revision())
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return 0, ErrOvertaken
	}
	return revision, err
}
