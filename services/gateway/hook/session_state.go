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

// sessionState is what the hooks of one agent session keep from one call to the next.
// It is stored beside the inbox positions, and expires 30 days after it was written.
type sessionState struct {
	// Client is for people who look into the bucket.
	Client string `json:"client"`
	// Prompt is the position of the newest alert at the last prompt.
	Prompt inbox.Position `json:"prompt"`
	// StopBlocked is set when a stop was blocked and the agent has not stopped since.
	StopBlocked bool `json:"held,omitempty"`
	// Waiter is the id of the Wait that may wake the session. Earlier ones end, and
	// each ends once the session continues.
	Waiter string `json:"waiter,omitempty"`
}

// stateKey returns the key of a session, whose id may hold any characters.
func stateKey(client, session string) string {
	return "session." + inbox.BucketKey(client+" "+session)
}

// loadState reads the state of a session. found reports whether there is one; a
// document that cannot be decoded counts as none.
func loadState(ctx context.Context, c *bus.Conn, client, session string) (s sessionState, found bool, err error) {
	if session == "" {
		return s, false, nil
	}
	kv, err := openBucket(ctx, c)
	if err != nil {
		return s, false, err
	}
	entry, err := kv.Get(ctx, stateKey(client, session))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("read the session's state: %w", err)
	}
	if err := json.Unmarshal(entry.Value(), &s); err != nil {
		return sessionState{}, false, nil //nolint:nilerr // written by another version: treated as missing
	}
	return s, true, nil
}

// updateState changes the state of a session by compare-and-set: hooks of one session
// may run at the same time, as those at a stop do, and change different fields. A
// session without an id has no state.
func updateState(ctx context.Context, c *bus.Conn, client, session string, change func(*sessionState)) error {
	if session == "" {
		return nil
	}
	kv, err := openBucket(ctx, c)
	if err != nil {
		return err
	}
	for {
		err := tryUpdate(ctx, kv, stateKey(client, session), func(s *sessionState) {
			change(s)
			s.Client = inbox.DisplayName(client)
		})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !bus.Conflict(err) {
			return fmt.Errorf("save the session's state: %w", err)
		}
	}
}

func openBucket(ctx context.Context, c *bus.Conn) (jetstream.KeyValue, error) {
	kv, err := c.JS.KeyValue(ctx, bus.BucketGateways)
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s of session states: %w", bus.BucketGateways, err)
	}
	return kv, nil
}

// tryUpdate changes the state unless it was written in between; then its error
// satisfies [bus.Conflict].
func tryUpdate(ctx context.Context, kv jetstream.KeyValue, key string, change func(*sessionState)) error {
	var s sessionState
	var revision uint64 // 0 if there is no state yet
	entry, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return err
	default:
		revision = entry.Revision()
		if json.Unmarshal(entry.Value(), &s) != nil {
			s = sessionState{} // written by another version: treated as missing
		}
	}
	change(&s)
	value, err := json.Marshal(s)
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
