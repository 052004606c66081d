package detector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// snapshotName is the one object in the detector's bucket. The object store
// replaces it as a whole, however large it is, so a crash leaves the old one.
const snapshotName = "fold"

// position says what a snapshot stands for.
type position struct {
	// Telemetry is the last sequence that is folded in, of the stream that was
	// made at Created.
	Telemetry uint64    `json:"telemetry"`
	Created   time.Time `json:"created"`
	// Alerts is a sequence of ALERTS that every alert raised by later telemetry
	// lies above, in the stream that was made at AlertsCreated.
	Alerts        uint64    `json:"alerts"`
	AlertsCreated time.Time `json:"alerts_created"`
}

// loadTimeout bounds the reading of a snapshot, and with that how long the end
// of the process can wait for it. One of 32 MiB takes a fraction of a second.
const loadTimeout = 5 * time.Second

// errUnusable says that the snapshot is not what saveSnapshot wrote.
var errUnusable = errors.New("the snapshot is damaged")

// loadSnapshot reads the newest snapshot. Without one it returns nil state. Its
// error is errUnusable when reading again would not help.
func loadSnapshot(ctx context.Context, c *bus.Conn) (position, []byte, error) {
	store, err := c.JS.ObjectStore(ctx, bus.BucketDetector)
	if err != nil {
		return position{}, nil, fmt.Errorf("open the snapshots: %w", err)
	}
	// Cancelled, the client would go on to wait until the deadline: so reading is
	// not cancelled, and has a deadline of its own.
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	data, err := store.GetBytes(reading, snapshotName)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return position{}, nil, nil
	}
	if errors.Is(err, jetstream.ErrDigestMismatch) || errors.Is(err, jetstream.ErrBadObjectMeta) {
		return position{}, nil, fmt.Errorf("%w: %w", errUnusable, err)
	}
	if err != nil {
		return position{}, nil, fmt.Errorf("read the snapshot: %w", err)
	}
	header, state, found := bytes.Cut(data, []byte("\n"))
	var at position
	if err := json.Unmarshal(header, &at); err != nil || !found {
		return position{}, nil, fmt.Errorf("%w: its first line is no position", errUnusable)
	}
	return at, state, nil
}

// saveSnapshot replaces the snapshot.
func saveSnapshot(ctx context.Context, c *bus.Conn, at position, state []byte) error {
	store, err := c.JS.ObjectStore(ctx, bus.BucketDetector)
	if err != nil {
		return fmt.Errorf("open the snapshots: %w", err)
	}
	header, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	data := make([]byte, 0, len(header)+1+len(state))
	data = append(append(append(data, header...), '\n'), state...)
	if _, err := store.PutBytes(ctx, snapshotName, data); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

// streamState is what the detector needs to know of a stream once.
type streamState struct {
	first, last uint64
	created     time.Time
}

func lookAt(ctx context.Context, c *bus.Conn, stream string) (streamState, error) {
	s, err := c.JS.Stream(ctx, stream)
	if err != nil {
		return streamState{}, fmt.Errorf("look at stream %s: %w", stream, err)
	}
	info := s.CachedInfo()
	return streamState{first: info.State.FirstSeq, last: info.State.LastSeq, created: info.Created}, nil
}
