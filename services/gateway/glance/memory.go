package glance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/cursor"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// memory is what the hooks of one agent's session remember from one call to
// the next. The bus forgets it with the cursors, 30 days after it was written.
type memory struct {
	// Client is for people who look into the bucket.
	Client string `json:"client"`
	// Prompt is the newest alert at the time of the last prompt.
	Prompt cursor.Position `json:"prompt"`
	// Held says that the agent was held back and has not stopped since.
	Held bool `json:"held,omitempty"`
	// Waiter is who waits to wake the session; an earlier one gives up, and each
	// does once the session goes on.
	Waiter string `json:"waiter,omitempty"`
}

// memoryKey is the key of a session, whose id may hold anything.
func memoryKey(client, session string) string { return "session." + cursor.Key(client+" "+session) }

// loadMemory reads what is remembered of a session. found says whether there
// is anything.
func loadMemory(ctx context.Context, c *bus.Conn, client, session string) (m memory, found bool, err error) {
	if session == "" {
		return m, false, nil
	}
	kv, err := c.JS.KeyValue(ctx, bus.BucketGateways)
	if err != nil {
		return m, false, fmt.Errorf("open the sessions: %w", err)
	}
	entry, err := kv.Get(ctx, memoryKey(client, session))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("read the session: %w", err)
	}
	if err := json.Unmarshal(entry.Value(), &m); err != nil {
		return memory{}, false, nil //nolint:nilerr // of another version: as if never seen
	}
	return m, true, nil
}

// saveMemory remembers it. The hooks of a session come one after the other, so
// the last one is right. A session without an id has no memory.
func saveMemory(ctx context.Context, c *bus.Conn, client, session string, m memory) error {
	if session == "" {
		return nil
	}
	kv, err := c.JS.KeyValue(ctx, bus.BucketGateways)
	if err != nil {
		return fmt.Errorf("open the sessions: %w", err)
	}
	m.Client = client
	value, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the session: %w", err)
	}
	if _, err := kv.Put(ctx, memoryKey(client, session), value); err != nil {
		return fmt.Errorf("save the session: %w", err)
	}
	return nil
}
