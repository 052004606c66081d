package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// saveTimeout bounds one try to save a cursor; a drain waits for it.
	saveTimeout = time.Second
	// saveRetry is the pause after a try that failed.
	saveRetry = 2 * time.Second
)

// position is a place in the stream ALERTS, which was made at Created.
type position struct {
	Seq     uint64    `json:"seq"`
	Created time.Time `json:"created"`
}

// beyond says whether p is further on than q. A place in another stream than
// before always is: the old one is gone.
func (p position) beyond(q position) bool {
	return !p.Created.Equal(q.Created) || p.Seq > q.Seq
}

// cursor is what is stored of a client.
type cursor struct {
	// Client is for people who look into the bucket.
	Client string `json:"client"`
	position
}

// cursorKey is the key of a client, whose name may hold anything.
func cursorKey(client string) string {
	sum := sha256.Sum256([]byte(client))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// loadCursor reads up to where a client has been told. found says whether it
// was ever seen.
func loadCursor(ctx context.Context, c *bus.Conn, client string) (at position, found bool, err error) {
	kv, err := c.JS.KeyValue(ctx, bus.BucketGateways)
	if err != nil {
		return position{}, false, fmt.Errorf("open the cursors: %w", err)
	}
	entry, err := kv.Get(ctx, cursorKey(client))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return position{}, false, nil
	}
	if err != nil {
		return position{}, false, fmt.Errorf("read the cursor: %w", err)
	}
	var stored cursor
	if err := json.Unmarshal(entry.Value(), &stored); err != nil {
		return position{}, false, nil //nolint:nilerr // of another version: as if never seen
	}
	return stored.position, true, nil
}

// saveCursor moves a client's cursor on, never back: another gateway of the
// same client may be further.
func saveCursor(ctx context.Context, c *bus.Conn, client string, at position) error {
	kv, err := c.JS.KeyValue(ctx, bus.BucketGateways)
	if err != nil {
		return fmt.Errorf("open the cursors: %w", err)
	}
	value, err := json.Marshal(cursor{Client: client, position: at})
	if err != nil {
		return fmt.Errorf("encode the cursor: %w", err)
	}
	key := cursorKey(client)
	for {
		err := tryCursor(ctx, kv, key, value, at)
		if err == nil || ctx.Err() != nil || !errors.Is(err, jetstream.ErrKeyExists) {
			return err
		}
	}
}

// tryCursor writes the cursor unless the stored one is as far. Its error is
// ErrKeyExists when somebody else wrote in between.
func tryCursor(ctx context.Context, kv jetstream.KeyValue, key string, value []byte, at position) error {
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		_, err = kv.Create(ctx, key, value)
		return wrapSave(err)
	}
	if err != nil {
		return wrapSave(err)
	}
	var stored cursor
	if err := json.Unmarshal(entry.Value(), &stored); err == nil && !at.beyond(stored.position) {
		return nil
	}
	_, err = kv.Update(ctx, key, value, entry.Revision())
	return wrapSave(err)
}

func wrapSave(err error) error {
	if err != nil {
		return fmt.Errorf("save the cursor: %w", err)
	}
	return nil
}

// saver saves cursors, the newest one, until it is saved.
type saver struct {
	link *link
	jobs chan saveJob
	log  *slog.Logger
}

type saveJob struct {
	at   position
	done chan<- error
}

func newSaver(l *link, log *slog.Logger) *saver {
	return &saver{link: l, jobs: make(chan saveJob), log: log}
}

// save returns once a try to save was made. Where it failed, more are made.
func (s *saver) save(ctx context.Context, at position) error {
	done := make(chan error, 1)
	select {
	case s.jobs <- saveJob{at: at, done: done}:
	case <-ctx.Done():
		return errEnded
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errEnded
	}
}

// run saves until ctx ends.
func (s *saver) run(ctx context.Context) error {
	var unsaved *position
	retry := time.NewTicker(saveRetry)
	defer retry.Stop()
	for {
		var done chan<- error
		select {
		case <-ctx.Done():
			return nil
		case job := <-s.jobs:
			unsaved, done = &job.at, job.done
		case <-retry.C:
		}
		if unsaved == nil {
			continue
		}
		err := s.try(ctx, *unsaved)
		if err == nil {
			unsaved = nil
		}
		if done != nil {
			done <- err // has room for one
		}
	}
}

func (s *saver) try(ctx context.Context, at position) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	c := s.link.conn.Load()
	if c == nil || !c.Connected() {
		return bus.ErrAway
	}
	err := saveCursor(ctx, c, s.link.client(), at)
	if err != nil {
		s.log.Warn("the cursor is not saved yet", "error", err)
	}
	return err
}
