package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

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

// Position is a place in the stream ALERTS: the sequence of an alert, and the
// creation time of the stream.
type Position struct {
	Seq     uint64    `json:"seq"`
	Created time.Time `json:"created"`
}

// Beyond reports whether p is later than q. A position in another stream than q is
// always later, because q's stream is gone.
func (p Position) Beyond(q Position) bool {
	return !p.Created.Equal(q.Created) || p.Seq > q.Seq
}

// storedPosition is the document of one client in the bucket.
type storedPosition struct {
	// Client is the client's name, for people who look into the bucket.
	Client string `json:"client"`
	Position
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

func openBucket(ctx context.Context, c *bus.Conn) (jetstream.KeyValue, error) {
	kv, err := c.JS.KeyValue(ctx, bus.BucketGateways)
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s of inbox positions: %w", bus.BucketGateways, err)
	}
	return kv, nil
}

// LoadPosition reads a client's inbox position. found reports whether there is one; a
// document that cannot be decoded counts as none.
func LoadPosition(ctx context.Context, c *bus.Conn, client string) (p Position, found bool, err error) {
	kv, err := openBucket(ctx, c)
	if err != nil {
		return Position{}, false, err
	}
	entry, err := kv.Get(ctx, BucketKey(client))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Position{}, false, nil
	}
	if err != nil {
		return Position{}, false, fmt.Errorf("read the inbox position: %w", err)
	}
	var stored storedPosition
	if err := json.Unmarshal(entry.Value(), &stored); err != nil {
		return Position{}, false, nil //nolint:nilerr // written by another version: treated as missing
	}
	return stored.Position, true, nil
}

// Claim advances a client's inbox position to p, never back, and returns the position
// before. The caller may deliver the alerts between the two; alerts up to the one
// before were claimed by another reader. Two readers of one client never claim the
// same alerts. After an error the position may or may not have been advanced.
func Claim(ctx context.Context, c *bus.Conn, client string, p Position) (before Position, err error) {
	kv, err := openBucket(ctx, c)
	if err != nil {
		return Position{}, err
	}
	value, err := json.Marshal(storedPosition{Client: DisplayName(client), Position: p})
	if err != nil {
		return Position{}, fmt.Errorf("encode the inbox position: %w", err)
	}
	key := BucketKey(client)
	for {
		before, err := tryClaim(ctx, kv, key, value, p)
		if err == nil || ctx.Err() != nil || !bus.Conflict(err) {
			return before, err
		}
	}
}

// tryClaim writes the position unless the stored one is as far. Its error satisfies
// [bus.Conflict] if another reader wrote in between.
func tryClaim(ctx context.Context, kv jetstream.KeyValue, key string, value []byte, p Position) (before Position, err error) {
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		_, err = kv.Create(ctx, key, value)
		return Position{}, wrapSave(err)
	}
	if err != nil {
		return Position{}, wrapSave(err)
	}
	var stored storedPosition
	if err := json.Unmarshal(entry.Value(), &stored); err == nil && !p.Beyond(stored.Position) {
		return stored.Position, nil
	}
	_, err = kv.Update(ctx, key, value, entry.Revision())
	return stored.Position, wrapSave(err)
}

func wrapSave(err error) error {
	if err != nil {
		return fmt.Errorf("save the inbox position: %w", err)
	}
	return nil
}
