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
	// ClaimTimeout bounds one try to claim, for which whoever asked waits.
	ClaimTimeout = time.Second
	// FirstLookback is how far back the alerts begin of a client that was never seen.
	FirstLookback = 10 * time.Minute
	// maxClientName keeps the bucket from being filled by long names.
	maxClientName = 200
)

// Position is a place in the stream ALERTS: the sequence of an alert, in the
// stream that was made at Created.
type Position struct {
	Seq     uint64    `json:"seq"`
	Created time.Time `json:"created"`
}

// Beyond says whether p is further on than q. A place in another stream than
// before always is: the old one is gone.
func (p Position) Beyond(q Position) bool {
	return !p.Created.Equal(q.Created) || p.Seq > q.Seq
}

// storedPosition is what is stored of a client.
type storedPosition struct {
	// Client is for people who look into the bucket: at most maxClientName characters of
	// its name.
	Client string `json:"client"`
	Position
}

// BucketKey is the key in the bucket of a client, whose name may hold anything. Others
// who keep something of clients there put a word and a point before it.
func BucketKey(client string) string {
	sum := sha256.Sum256([]byte(client))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// DisplayName is a client's name as it stands in the bucket, for people.
func DisplayName(client string) string { return sanitize.Cut(sanitize.Visible(client), maxClientName) }

func openBucket(ctx context.Context, c *bus.Conn) (jetstream.KeyValue, error) {
	kv, err := c.JS.KeyValue(ctx, bus.BucketGateways)
	if err != nil {
		return nil, fmt.Errorf("open the cursors: %w", err)
	}
	return kv, nil
}

// LoadPosition reads up to where a client has been told. found says whether it was ever
// seen; a cursor of another version is as good as none.
func LoadPosition(ctx context.Context, c *bus.Conn, client string) (at Position, found bool, err error) {
	kv, err := openBucket(ctx, c)
	if err != nil {
		return Position{}, false, err
	}
	entry, err := kv.Get(ctx, BucketKey(client))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Position{}, false, nil
	}
	if err != nil {
		return Position{}, false, fmt.Errorf("read the cursor: %w", err)
	}
	var stored storedPosition
	if err := json.Unmarshal(entry.Value(), &stored); err != nil {
		return Position{}, false, nil //nolint:nilerr // of another version: as if never seen
	}
	return stored.Position, true, nil
}

// Claim moves a client's cursor on to at, never back, and returns where it was
// before: who moved it there has told all up to it. Two readers of one client
// never get the same stretch. Where it fails the cursor may have been moved, or
// not.
func Claim(ctx context.Context, c *bus.Conn, client string, at Position) (before Position, err error) {
	kv, err := openBucket(ctx, c)
	if err != nil {
		return Position{}, err
	}
	value, err := json.Marshal(storedPosition{Client: DisplayName(client), Position: at})
	if err != nil {
		return Position{}, fmt.Errorf("encode the cursor: %w", err)
	}
	key := BucketKey(client)
	for {
		before, err := tryClaim(ctx, kv, key, value, at)
		if err == nil || ctx.Err() != nil || !bus.Conflict(err) {
			return before, err
		}
	}
}

// tryClaim writes the cursor unless the stored one is as far. Its error is
// a bus.Conflict when somebody else wrote in between.
func tryClaim(ctx context.Context, kv jetstream.KeyValue, key string, value []byte, at Position) (before Position, err error) {
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		_, err = kv.Create(ctx, key, value)
		return Position{}, wrapSave(err)
	}
	if err != nil {
		return Position{}, wrapSave(err)
	}
	var stored storedPosition
	if err := json.Unmarshal(entry.Value(), &stored); err == nil && !at.Beyond(stored.Position) {
		return stored.Position, nil
	}
	_, err = kv.Update(ctx, key, value, entry.Revision())
	return stored.Position, wrapSave(err)
}

func wrapSave(err error) error {
	if err != nil {
		return fmt.Errorf("save the cursor: %w", err)
	}
	return nil
}
