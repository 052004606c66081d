package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// memory is what the hooks of one agent's session remember from one call to
// the next. The bus forgets it with the cursors, 30 days after it was written.
type memory struct {
	// Client is for people who look into the bucket.
	Client string `json:"client"`
	// Prompt is the newest alert at the time of the last prompt.
	Prompt inbox.Position `json:"prompt"`
	// Held says that the agent was held back and has not stopped since.
	Held bool `json:"held,omitempty"`
	// Waiter is who waits to wake the session; an earlier one gives up, and each
	// does once the session goes on.
	Waiter string `json:"waiter,omitempty"`
}

// memoryKey is the key of a session, whose id may hold anything.
func memoryKey(client, session string) string {
	return "session." + inbox.BucketKey(client+" "+session)
}

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

// changeMemory changes what is remembered of a session. Two of its hooks may run
// at once, as those at a stop do: each changes what it means, and nothing that the
// other wrote. A session without an id has no memory.
func changeMemory(ctx context.Context, c *bus.Conn, client, session string, change func(*memory)) error {
	if session == "" {
		return nil
	}
	kv, err := c.JS.KeyValue(ctx, bus.BucketGateways)
	if err != nil {
		return fmt.Errorf("open the sessions: %w", err)
	}
	for {
		err := tryChange(ctx, kv, memoryKey(client, session), func(m *memory) {
			change(m)
			m.Client = inbox.DisplayName(client)
		})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !bus.Conflict(err) {
			return fmt.Errorf("save the session: %w", err)
		}
	}
}

// tryChange writes unless somebody else wrote in between: then its error is
// a bus.Conflict.
func tryChange(ctx context.Context, kv jetstream.KeyValue, key string, change func(*memory)) error {
	var m memory
	var revision uint64 // 0 where there is nothing yet
	entry, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return err
	default:
		revision = entry.Revision()
		if json.Unmarshal(entry.Value(), &m) != nil {
			m = memory{} // of another version: as if never seen
		}
	}
	change(&m)
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if revision == 0 {
		_, err = kv.Create(ctx, key, value)
	} else {
		_, err = kv.Update(ctx, key, value, revision)
	}
	return err
}
