package hook

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// sessionState is what the hooks of one agent session keep from one call to the next.
// It is stored beside the inbox positions, and expires 30 days after it was written.
type sessionState struct {
	// Client is for people who look into the bucket.
	Client string `json:"client"`
	// Prompt is the position of the newest alert at the last prompt.
	Prompt bus.Position `json:"prompt"`
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

func stateDocument(s *bus.Session, client, session string) bus.Document {
	return s.Document(bus.BucketGateways, stateKey(client, session))
}

// loadState reads the state of a session. found reports whether there is one; a
// document that cannot be decoded counts as none.
func loadState(ctx context.Context, s *bus.Session, client, session string) (state sessionState, found bool, err error) {
	if session == "" {
		return sessionState{}, false, nil
	}
	entry, err := stateDocument(s, client, session).Get(ctx)
	if err != nil {
		return sessionState{}, false, fmt.Errorf("read the state of the agent session: %w", err)
	}
	state, found = decodeState(entry)
	return state, found, nil
}

// decodeState returns the state in a document. found is false if there is none, or
// another version wrote it.
func decodeState(entry bus.Entry) (state sessionState, found bool) {
	if !entry.Exists() || json.Unmarshal(entry.Data, &state) != nil {
		return sessionState{}, false
	}
	return state, true
}

// updateState changes the state of a session by compare-and-set: hooks of one session
// may run at the same time, as those at a stop do, and change different fields. A
// session without an id has no state.
func updateState(ctx context.Context, s *bus.Session, client, session string, change func(*sessionState)) error {
	if session == "" {
		return nil
	}
	_, err := stateDocument(s, client, session).Update(ctx, func(old bus.Entry) ([]byte, error) {
		state, _ := decodeState(old)
		change(&state)
		state.Client = inbox.DisplayName(client)
		return json.Marshal(state)
	})
	if err != nil {
		return fmt.Errorf("save the state of the agent session: %w", err)
	}
	return nil
}
