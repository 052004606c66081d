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

// snapshotName is the name of the only partition's snapshot in the detector's
// bucket, and the beginning of the others'.
const snapshotName = "fold"

// position says what a snapshot stands for.
type position struct {
	// Telemetry is the last sequence that is folded in, of the stream that was
	// made at Created.
	Telemetry uint64    `json:"telemetry"`
	Created   time.Time `json:"created"`
	// Alerts is a sequence of ALERTS that every alert raised by later telemetry
	// lies above, in the stream that was made at AlertsCreated. It holds for all who
	// ever speak for the partition: none of them raises anything about telemetry
	// that another one has not yet folded in when it takes over (tenure).
	Alerts        uint64    `json:"alerts"`
	AlertsCreated time.Time `json:"alerts_created"`
}

const (
	// loadTimeout bounds the reading of a snapshot, and with that how long the end
	// of the process can wait for it. One of 32 MiB takes a fraction of a second.
	loadTimeout = 5 * time.Second
	// askTimeout bounds one question to a stream. While a stream of a cluster has no
	// leader nobody answers, so it is asked again rather than waited for.
	askTimeout = time.Second
	// loadAgain is the pause before snapshots that can't be read are looked at once
	// more: one may just be replaced, and a replica may show what is no longer so.
	loadAgain = 500 * time.Millisecond
	// metaPosition is where the object's metadata has its position, as JSON.
	metaPosition = "position"
)

// errUnusable says that there is a snapshot, and none that save wrote.
var errUnusable = errors.New("the snapshot is damaged")

// snapshots keeps those of one partition: the newest and the one before, in two
// objects. An object is replaced as a whole; but where that goes wrong half-way, as
// when the bucket's leader changes in the middle, the object store can be left with
// one whose content is missing. Then there is still the other. So it is with one
// that an ousted owner writes late: it replaces one of the two, and the newer of
// them counts.
type snapshots struct {
	c     *bus.Conn
	names [2]string
	// next is which one is written next.
	next *int
}

func newSnapshots(c *bus.Conn, partition, of int) snapshots {
	name := snapshotName
	if of > 1 {
		name = fmt.Sprintf("%s-%d-of-%d", snapshotName, partition, of)
	}
	return snapshots{c: c, names: [2]string{name, name + ".other"}, next: new(int)}
}

// candidate is a snapshot that may be read.
type candidate struct {
	slot int
	info *jetstream.ObjectInfo
	// at is what the metadata says; older versions wrote none.
	at    position
	known bool
}

// load gives restore the newest snapshot that can be read, and whose state it
// takes, and returns its position. Without any that is the zero position. Its error
// is errUnusable when reading again would not help.
func (s snapshots) load(ctx context.Context, restore func(state []byte) error) (position, error) {
	store, err := asking(ctx, func(ctx context.Context) (jetstream.ObjectStore, error) {
		return s.c.JS.ObjectStore(ctx, bus.BucketDetector)
	})
	if err != nil {
		return position{}, fmt.Errorf("open the snapshots: %w", err)
	}
	var before []string
	for {
		candidates, err := s.candidates(ctx, store)
		if err != nil {
			return position{}, err
		}
		var unusable error
		var ids []string
		for _, c := range candidates {
			at, err := s.read(ctx, store, c, restore)
			if err == nil {
				*s.next = 1 - c.slot
				return at, nil
			}
			if !errors.Is(err, errUnusable) {
				return position{}, err
			}
			unusable = errors.Join(unusable, err)
			ids = append(ids, c.info.NUID)
		}
		if unusable == nil || slices.Equal(before, ids) {
			return position{}, unusable
		}
		before = ids
		select {
		case <-time.After(loadAgain):
		case <-ctx.Done():
			return position{}, ctx.Err()
		}
	}
}

// candidates are the snapshots there are, the newest first.
func (s snapshots) candidates(ctx context.Context, store jetstream.ObjectStore) ([]candidate, error) {
	var list []candidate
	for slot, name := range s.names {
		info, err := asking(ctx, func(ctx context.Context) (*jetstream.ObjectInfo, error) { return store.GetInfo(ctx, name) })
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for the snapshot: %w", err)
		}
		c := candidate{slot: slot, info: info}
		c.known = json.Unmarshal([]byte(info.Metadata[metaPosition]), &c.at) == nil
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b candidate) int {
		if a.known && b.known && a.at.Created.Equal(b.at.Created) {
			return cmp.Compare(b.at.Telemetry, a.at.Telemetry)
		}
		return b.info.ModTime.Compare(a.info.ModTime)
	})
	return list, nil
}

// read reads one snapshot. Its error is errUnusable when it is not whole, or not
// what restore takes.
func (s snapshots) read(ctx context.Context, store jetstream.ObjectStore, c candidate, restore func(state []byte) error) (position, error) {
	// The client would wait for content that is missing until its time is up.
	switch n, err := s.chunks(ctx, c.info.NUID); {
	case err != nil:
		return position{}, err
	case n != uint64(c.info.Chunks):
		return position{}, fmt.Errorf("%w: it has %d parts of %d", errUnusable, n, c.info.Chunks)
	}
	// Cancelled, the client would go on to wait until the deadline: so reading is
	// not cancelled, and has a deadline of its own.
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	data, err := store.GetBytes(reading, s.names[c.slot])
	if errors.Is(err, jetstream.ErrDigestMismatch) || errors.Is(err, jetstream.ErrBadObjectMeta) {
		return position{}, fmt.Errorf("%w: %w", errUnusable, err)
	}
	if err != nil {
		return position{}, fmt.Errorf("read the snapshot: %w", err)
	}
	header, state, found := bytes.Cut(data, []byte("\n"))
	var at position
	if err := json.Unmarshal(header, &at); err != nil || !found {
		return position{}, fmt.Errorf("%w: its first line is no position", errUnusable)
	}
	if err := restore(state); err != nil {
		return position{}, fmt.Errorf("%w: %w", errUnusable, err)
	}
	return at, nil
}

// The stream that the object store is, and where it has an object's content.
const (
	snapshotStream = "OBJ_" + bus.BucketDetector
	chunkPrefix    = "$O." + bus.BucketDetector + ".C."
)

// chunks counts the parts of an object that there are.
func (s snapshots) chunks(ctx context.Context, id string) (uint64, error) {
	counts, err := s.contents(ctx, id)
	return counts[id], err
}

// contents counts the parts of all objects, or of one, by the ids of their content.
func (s snapshots) contents(ctx context.Context, id string) (map[string]uint64, error) {
	info, err := asking(ctx, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		stream, err := s.c.JS.Stream(ctx, snapshotStream)
		if err != nil {
			return nil, err
		}
		return stream.Info(ctx, jetstream.WithSubjectFilter(chunkPrefix+cmp.Or(id, ">")))
	})
	if err != nil {
		return nil, fmt.Errorf("look at the snapshots: %w", err)
	}
	counts := map[string]uint64{}
	for subject, n := range info.State.Subjects {
		counts[strings.TrimPrefix(subject, chunkPrefix)] = n
	}
	return counts, nil
}

// save replaces the older of the two snapshots.
func (s snapshots) save(ctx context.Context, at position, state []byte) error {
	store, err := asking(ctx, func(ctx context.Context) (jetstream.ObjectStore, error) {
		return s.c.JS.ObjectStore(ctx, bus.BucketDetector)
	})
	if err != nil {
		return fmt.Errorf("open the snapshots: %w", err)
	}
	header, err := json.Marshal(at)
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

// sweep removes content that belongs to no object, as a process leaves it that ends
// while it saves, or two that save one object at once. What is just being saved
// looks the same: so only what was so at the sweep before, which is given, is
// removed. It returns what is so now.
func (s snapshots) sweep(ctx context.Context, before map[string]bool) (map[string]bool, error) {
	store, err := s.c.JS.ObjectStore(ctx, bus.BucketDetector)
	if err != nil {
		return nil, fmt.Errorf("open the snapshots: %w", err)
	}
	counts, err := s.contents(ctx, "")
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
	now := map[string]bool{}
	for id := range counts {
		if !before[id] {
			now[id] = true
			continue
		}
		stream, err := s.c.JS.Stream(ctx, snapshotStream)
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(chunkPrefix+id))
		}
		if err != nil {
			return nil, fmt.Errorf("remove what is left of a snapshot: %w", err)
		}
	}
	return now, nil
}

// asking bounds one question.
func asking[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return ask(ctx)
}

// streamState is what the detector needs to know of a stream once.
type streamState struct {
	first, last uint64
	created     time.Time
}

func lookAt(ctx context.Context, c *bus.Conn, stream string) (streamState, error) {
	s, err := asking(ctx, func(ctx context.Context) (jetstream.Stream, error) { return c.JS.Stream(ctx, stream) })
	if err != nil {
		return streamState{}, fmt.Errorf("look at stream %s: %w", stream, err)
	}
	info := s.CachedInfo()
	return streamState{first: info.State.FirstSeq, last: info.State.LastSeq, created: info.Created}, nil
}
