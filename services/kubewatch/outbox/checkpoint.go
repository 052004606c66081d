package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Checkpoint is up to where the events of a cluster were published. The next kubewatch that
// watches the cluster resumes there.
type Checkpoint struct {
	// ClusterUID is the uid of the cluster. Another uid under the same name is another
	// cluster.
	ClusterUID string `json:"cluster_uid"`
	// Version is the resourceVersion up to which everything was published.
	Version string `json:"resource_version"`
	// Sequence is a lower bound: every message published after Version has a higher
	// sequence in the stream that was created at Stream.
	Sequence uint64    `json:"sequence"`
	Stream   time.Time `json:"stream"`
	// By is the id of the kubewatch that wrote it.
	By string `json:"by"`
}

// ErrOvertaken is returned by Save if another kubewatch has written the checkpoint since.
var ErrOvertaken = errors.New("another kubewatch has written the checkpoint of this cluster")

// ErrUnreadable is returned by OpenCheckpoint if the stored document is not a outbox.
var ErrUnreadable = errors.New("the stored document is not a checkpoint")

// checkpointTimeout bounds one request to the bucket.
const checkpointTimeout = 3 * time.Second

// CheckpointStore reads and writes the checkpoint of one cluster. It writes by
// compare-and-set and detects that another kubewatch has written in between. It is for one
// goroutine.
type CheckpointStore struct {
	doc      bus.Document
	revision uint64
	written  time.Time
}

// Written returns when the checkpoint that OpenCheckpoint read was written, zero if there was none.
func (s *CheckpointStore) Written() time.Time { return s.written }

// OpenCheckpoint reads the checkpoint, which is empty before the first Save. With ErrUnreadable it
// returns an empty one and a store that can write.
func OpenCheckpoint(ctx context.Context, doc bus.Document) (*CheckpointStore, Checkpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	entry, err := doc.Get(ctx)
	if err != nil {
		return nil, Checkpoint{}, fmt.Errorf("read the checkpoint: %w", err)
	}
	s := &CheckpointStore{doc: doc, revision: entry.Revision, written: entry.Written}
	if !entry.Exists() {
		return s, Checkpoint{}, nil
	}
	var c Checkpoint
	if err := json.Unmarshal(entry.Data, &c); err != nil {
		// Another version or a person wrote it. Its content is lost.
		return s, Checkpoint{}, fmt.Errorf("read the checkpoint: %w: %w", ErrUnreadable, err)
	}
	return s, c, nil
}

// Save writes a outbox. The error wraps ErrOvertaken if another kubewatch has written
// one since.
func (s *CheckpointStore) Save(ctx context.Context, c Checkpoint) error {
	ctx, cancel := context.WithTimeout(ctx, checkpointTimeout)
	defer cancel()
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the checkpoint: %w", err)
	}
	revision, err := s.doc.Write(ctx, data, s.revision)
	if errors.Is(err, bus.ErrConflict) {
		revision, err = s.replaceOwn(ctx, c.By, data)
	}
	if err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	s.revision = revision
	return nil
}

// replaceOwn writes over a checkpoint of our own whose acknowledgement was lost, and over
// one that was deleted.
func (s *CheckpointStore) replaceOwn(ctx context.Context, by string, data []byte) (uint64, error) {
	entry, err := s.doc.Get(ctx)
	if err != nil {
		return 0, err
	}
	var stored Checkpoint
	if entry.Exists() && (json.Unmarshal(entry.Data, &stored) != nil || stored.By != by) {
		return 0, ErrOvertaken
	}
	revision, err := s.doc.Write(ctx, data, entry.Revision)
	if errors.Is(err, bus.ErrConflict) {
		return 0, ErrOvertaken
	}
	return revision, err
}
