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

// dropCursor forgets where a client was.
func dropCursor(ctx context.Context, c *bus.Conn, client string) error {
	kv, err := c.JS.KeyValue(ctx, bus.BucketGateways)
	if err != nil {
		return fmt.Errorf("open the cursors: %w", err)
	}
	if err := kv.Delete(ctx, cursorKey(client)); err != nil {
		return fmt.Errorf("drop the cursor: %w", err)
	}
	return nil
}

// claim moves a client's cursor on to at, never back, and returns where it was
// before: who moved it there has told all up to it. Two gateways of one client
// never get the same stretch.
func claim(ctx context.Context, c *bus.Conn, client string, at position) (before position, err error) {
	kv, err := c.JS.KeyValue(ctx, bus.BucketGateways)
	if err != nil {
		return position{}, fmt.Errorf("open the cursors: %w", err)
	}
	value, err := json.Marshal(cursor{Client: client, position: at})
	if err != nil {
		return position{}, fmt.Errorf("encode the cursor: %w", err)
	}
	key := cursorKey(client)
	for {
		before, err := tryClaim(ctx, kv, key, value, at)
		if err == nil || ctx.Err() != nil || !errors.Is(err, jetstream.ErrKeyExists) {
			return before, err
		}
	}
}

// tryClaim writes the cursor unless the stored one is as far. Its error is
// ErrKeyExists when somebody else wrote in between.
func tryClaim(ctx context.Context, kv jetstream.KeyValue, key string, value []byte, at position) (before position, err error) {
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		_, err = kv.Create(ctx, key, value)
		return position{}, wrapSave(err)
	}
	if err != nil {
		return position{}, wrapSave(err)
	}
	var stored cursor
	if err := json.Unmarshal(entry.Value(), &stored); err == nil && !at.beyond(stored.position) {
		return stored.position, nil
	}
	_, err = kv.Update(ctx, key, value, entry.Revision())
	return stored.position, wrapSave(err)
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
	done chan<- saved
}

// saved is what came of a try to save, and where the cursor was before.
type saved struct {
	before position
	err    error
}

func newSaver(l *link, log *slog.Logger) *saver {
	return &saver{link: l, jobs: make(chan saveJob), log: log}
}

// save returns once a try to save was made, with where the cursor was before.
// Where it failed, more are made.
func (s *saver) save(ctx context.Context, at position) (before position, err error) {
	done := make(chan saved, 1)
	select {
	case s.jobs <- saveJob{at: at, done: done}:
	case <-ctx.Done():
		return position{}, errEnded
	}
	select {
	case got := <-done:
		return got.before, got.err
	case <-ctx.Done():
		return position{}, errEnded
	}
}

// run saves until ctx ends.
func (s *saver) run(ctx context.Context) error {
	var unsaved *position
	retry := time.NewTicker(saveRetry)
	defer retry.Stop()
	for {
		var done chan<- saved
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
		before, err := s.try(ctx, *unsaved)
		if err == nil {
			unsaved = nil
		}
		if done != nil {
			done <- saved{before, err} // has room for one
		}
	}
}

func (s *saver) try(ctx context.Context, at position) (before position, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	c := s.link.conn.Load()
	if c == nil || !c.Connected() {
		return position{}, bus.ErrAway
	}
	before, err = claim(ctx, c, s.link.client(), at)
	if err != nil {
		s.log.Warn("the cursor is not saved yet", "error", err)
	}
	return before, err
}
