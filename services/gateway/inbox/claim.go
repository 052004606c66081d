package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// ClaimTimeout bounds one attempt to claim, for which the caller's client waits.
	ClaimTimeout = time.Second
	// FirstLookback is how far back the alerts of a new client begin.
	FirstLookback = 10 * time.Minute
	// maxClientName bounds the client's name in the stored document, in characters.
	maxClientName = 200
)

// storedPosition is the document of one client in the bucket.
type storedPosition struct {
	// Client is the client's name, for people who look into the bucket.
	Client string `json:"client"`
	bus.Position
}

// BucketKey returns the key of a client in [bus.BucketGateways]. The name may hold
// any characters. Other documents about the client have the same key after a prefix
// that ends with a dot.
func BucketKey(client string) string {
	sum := sha256.Sum256([]byte(client))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// DisplayName returns a client's name as it is stored for people: visible characters,
// of bounded length.
func DisplayName(client string) string { return sanitize.Cut(sanitize.Visible(client), maxClientName) }

func document(s *bus.Session, client string) bus.Document {
	return s.Document(bus.BucketGateways, BucketKey(client))
}

// LoadPosition reads a client's inbox position. found reports whether there is one; a
// document that cannot be decoded counts as none.
func LoadPosition(ctx context.Context, s *bus.Session, client string) (p bus.Position, found bool, err error) {
	entry, err := document(s, client).Get(ctx)
	if err != nil {
		return bus.Position{}, false, fmt.Errorf("read the inbox position: %w", err)
	}
	p, found = decodePosition(entry)
	return p, found, nil
}

// decodePosition returns the position in a document. found is false if there is none, or
// another version wrote it.
func decodePosition(entry bus.Entry) (p bus.Position, found bool) {
	var stored storedPosition
	if !entry.Exists() || json.Unmarshal(entry.Data, &stored) != nil {
		return bus.Position{}, false
	}
	return stored.Position, true
}

// Claim advances a client's inbox position to p, never back, and returns the position
// before. The caller may deliver the alerts between the two; alerts up to the one
// before were claimed by another reader. Two readers of one client never claim the
// same alerts. After an error the position may or may not have been advanced.
func Claim(ctx context.Context, s *bus.Session, client string, p bus.Position) (before bus.Position, err error) {
	_, err = document(s, client).Update(ctx, func(old bus.Entry) ([]byte, error) {
		var found bool
		if before, found = decodePosition(old); found && !p.After(before) {
			return nil, bus.ErrUnchanged
		}
		return json.Marshal(storedPosition{Client: DisplayName(client), Position: p})
	})
	if err != nil {
		return bus.Position{}, fmt.Errorf("save the inbox position: %w", err)
	}
	return before, nil
}
