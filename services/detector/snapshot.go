package detector

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// snapshotName is the object name of the only partition's snapshot, and the prefix of
// the names of several.
const snapshotName = "fold"

// snapshotPosition is up to where a snapshot contains the telemetry.
type snapshotPosition struct {
	// Telemetry is the last folded sequence of the stream TELEMETRY that was created at
	// Created.
	Telemetry uint64    `json:"telemetry"`
	Created   time.Time `json:"created"`
	// Alerts is a lower bound: every alert raised by later telemetry has a higher
	// sequence in the stream ALERTS that was created at AlertsCreated. It holds for all
	// owners of the partition, because an owner publishes only under its lease.
	Alerts        uint64    `json:"alerts"`
	AlertsCreated time.Time `json:"alerts_created"`
}

const (
	// loadTimeout bounds reading a snapshot, and with it how long shutdown may wait for
	// that. A snapshot of 32 MiB takes a fraction of a second.
	loadTimeout = 5 * time.Second
	// requestTimeout bounds one request to a stream. A stream of a cluster that has no
	// leader does not answer, so the request is repeated instead.
	requestTimeout = time.Second
	// loadRetry is the pause before unreadable snapshots are read once more: one may be
	// in the middle of a replacement, and a replica may lag.
	loadRetry = 500 * time.Millisecond
	// metaPosition is the key of the position (JSON) in the object's metadata.
	metaPosition = "position"
)

// errUnusable is returned if snapshots exist but none can be used.
var errUnusable = errors.New("the snapshot is damaged")

// snapshotStore keeps the two newest snapshots of a partition as two objects. Replacing
// an object is not atomic: if the bucket's leader changes in the middle, its content can
// be missing, and then the other object is used. An owner that lost its lease and writes
// late replaces only one of the two, and the newer one wins.
type snapshotStore struct {
	c     *bus.Session
	names [2]string
	next  *int // index of the object to replace next
}

func newSnapshotStore(c *bus.Session, partition, total int) snapshotStore {
	name := snapshotName
	if total > 1 {
		name = fmt.Sprintf("%s-%d-of-%d", snapshotName, partition, total)
	}
	return snapshotStore{c: c, names: [2]string{name, name + ".other"}, next: new(int)}
}

// candidate is a snapshot that may be readable.
type candidate struct {
	index int
	info  *jetstream.ObjectInfo
	// position is from the metadata. known is false for snapshots of older versions,
	// which have none there.
	position snapshotPosition
	known    bool
}

// load passes the newest usable snapshot to restore and returns its position, or the
// zero position if there is no snapshot. Its error is errUnusable if reading again would
// not help.
func (s snapshotStore) load(ctx context.Context, restore func(state []byte) error) (snapshotPosition, error) {
	store, err := request(ctx, func(ctx context.Context) (jetstream.ObjectStore, error) {
		return s.c.JS.ObjectStore(ctx, bus.BucketDetector)
	})
	if err != nil {
		return snapshotPosition{}, fmt.Errorf("open the snapshots: %w", err)
	}
	var before []string
	for {
		candidates, err := s.candidates(ctx, store)
		if err != nil {
			return snapshotPosition{}, err
		}
		var unusable error
		var ids []string
		for _, c := range candidates {
			position, err := s.read(ctx, store, c, restore)
			if err == nil {
				*s.next = 1 - c.index
				return position, nil
			}
			if !errors.Is(err, errUnusable) {
				return snapshotPosition{}, err
			}
			unusable = errors.Join(unusable, err)
			ids = append(ids, c.info.NUID)
		}
		if unusable == nil || slices.Equal(before, ids) {
			return snapshotPosition{}, unusable
		}
		before = ids
		select {
		case <-time.After(loadRetry):
		case <-ctx.Done():
			return snapshotPosition{}, ctx.Err()
		}
	}
}

// candidates returns the existing snapshots, newest first.
func (s snapshotStore) candidates(ctx context.Context, store jetstream.ObjectStore) ([]candidate, error) {
	var list []candidate
	for index, name := range s.names {
		info, err := request(ctx, func(ctx context.Context) (*jetstream.ObjectInfo, error) { return store.GetInfo(ctx, name) })
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up the snapshot %s: %w", name, err)
		}
		c := candidate{index: index, info: info}
		c.known = json.Unmarshal([]byte(info.Metadata[metaPosition]), &c.position) == nil
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b candidate) int {
		if a.known && b.known && a.position.Created.Equal(b.position.Created) {
			return cmp.Compare(b.position.Telemetry, a.position.Telemetry)
		}
		return b.info.ModTime.Compare(a.info.ModTime)
	})
	return list, nil
}

// read reads one snapshot. Its error is errUnusable if the snapshot is incomplete or
// restore refuses it.
func (s snapshotStore) read(ctx context.Context, store jetstream.ObjectStore, c candidate, restore func(state []byte) error) (snapshotPosition, error) {
	// The client would wait for missing content until its deadline.
	switch n, err := s.chunks(ctx, c.info.NUID); {
	case err != nil:
		return snapshotPosition{}, err
	case n != uint64(c.info.Chunks):
		return snapshotPosition{}, fmt.Errorf("%w: it has %d of %d chunks", errUnusable, n, c.info.Chunks)
	}
	// The client does not stop at a cancellation but waits for the deadline, so reading
	// has a deadline of its own.
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	data, err := store.GetBytes(reading, s.names[c.index])
	if errors.Is(err, jetstream.ErrDigestMismatch) || errors.Is(err, jetstream.ErrBadObjectMeta) {
		return snapshotPosition{}, fmt.Errorf("%w: %w", errUnusable, err)
	}
	if err != nil {
		return snapshotPosition{}, fmt.Errorf("read the snapshot: %w", err)
	}
	header, state, found := bytes.Cut(data, []byte("\n"))
	var position snapshotPosition
	if err := json.Unmarshal(header, &position); err != nil || !found {
		return snapshotPosition{}, fmt.Errorf("%w: its first line is not a position", errUnusable)
	}
	if err := restore(state); err != nil {
		return snapshotPosition{}, fmt.Errorf("%w: %w", errUnusable, err)
	}
	return position, nil
}

// The stream behind the object store, and the subjects of an object's chunks.
const (
	snapshotStream = "OBJ_" + bus.BucketDetector
	chunkPrefix    = "$O." + bus.BucketDetector + ".C."
)

// chunks returns the number of stored chunks of an object.
func (s snapshotStore) chunks(ctx context.Context, id string) (uint64, error) {
	counts, err := s.countChunks(ctx, id)
	return counts[id], err
}

// countChunks counts the stored chunks of one object, or of all for an empty id, by the
// id of their content.
func (s snapshotStore) countChunks(ctx context.Context, id string) (map[string]uint64, error) {
	info, err := request(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		stream, err := s.c.JS.Stream(ctx, snapshotStream)
		if err != nil {
			return nil, err
		}
		return stream.Info(ctx, jetstream.WithSubjectFilter(chunkPrefix+cmp.Or(id, ">")))
	})
	if err != nil {
		return nil, fmt.Errorf("count the chunks of snapshots: %w", err)
	}
	counts := map[string]uint64{}
	for subject, n := range info.State.Subjects {
		counts[strings.TrimPrefix(subject, chunkPrefix)] = n
	}
	return counts, nil
}

// save replaces the older of the two snapshots.
func (s snapshotStore) save(ctx context.Context, position snapshotPosition, state []byte) error {
	store, err := request(ctx, func(ctx context.Context) (jetstream.ObjectStore, error) {
		return s.c.JS.ObjectStore(ctx, bus.BucketDetector)
	})
	if err != nil {
		return fmt.Errorf("open the snapshots: %w", err)
	}
	header, err := json.Marshal(position)
	if err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	data := make([]byte, 0, len(header)+1+len(state))
	data = append(append(append(data, header...), '\n'), state...)
	meta := jetstream.ObjectMeta{Name: s.names[*s.next], Metadata: map[string]string{metaPosition: string(header)}}
	if _, err := store.Put(ctx, meta, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	*s.next = 1 - *s.next
	return nil
}

// sweep removes content that belongs to no object: a process leaves it behind that ends
// during a save, as do two that save one object at once. A save in progress looks the
// same, so sweep removes only what the sweep before found as well (before). It returns
// what it found.
func (s snapshotStore) sweep(ctx context.Context, before map[string]bool) (map[string]bool, error) {
	store, err := s.c.JS.ObjectStore(ctx, bus.BucketDetector)
	if err != nil {
		return nil, fmt.Errorf("open the snapshots: %w", err)
	}
	counts, err := s.countChunks(ctx, "")
	if err != nil {
		return nil, err
	}
	objects, err := store.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, fmt.Errorf("list the snapshots: %w", err)
	}
	for _, o := range objects {
		delete(counts, o.NUID)
	}
	found := map[string]bool{}
	for id := range counts {
		if !before[id] {
			found[id] = true
			continue
		}
		stream, err := s.c.JS.Stream(ctx, snapshotStream)
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(chunkPrefix+id))
		}
		if err != nil {
			return nil, fmt.Errorf("remove the rest of an unfinished snapshot: %w", err)
		}
	}
	return found, nil
}

// request bounds one request by requestTimeout.
func request[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return do(ctx)
}
