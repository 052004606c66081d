package silences

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

const (
	// changeTries is how often a change is tried while others write too, and
	// changePause the pause between: in a cluster a replica may lag a little.
	changeTries = 10
	changePause = 20 * time.Millisecond
)

// errNoBucket says that the bus is of a version that knows no silences.
var errNoBucket = errors.New("the bus keeps no silences yet: start it anew with this version (tocsin up)")

// Change changes the silences by compare-and-set, and returns the document as it is
// then. change may be called several times, and its error is the result's. A
// document that can't be read is not written over: it may be a newer version's,
// and the error says what to do about it.
func Change(ctx context.Context, c *bus.Conn, change func(silence.Silences) (silence.Silences, error)) (Document, error) {
	return changeDocument(ctx, c, bus.KeySilences, silence.DecodeSilences, change)
}

// ChangeAcks is Change for the acknowledgements.
func ChangeAcks(ctx context.Context, c *bus.Conn, change func(silence.Acks) (silence.Acks, error)) (Document, error) {
	return changeDocument(ctx, c, bus.KeyAcks, silence.DecodeAcks, change)
}

func changeDocument[L interface{ Encode() ([]byte, error) }](
	ctx context.Context, c *bus.Conn, key string, decode func([]byte) (L, error), change func(L) (L, error),
) (Document, error) {
	kv, err := c.JS.KeyValue(ctx, bus.BucketSilences)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return Document{}, errNoBucket
	}
	if err != nil {
		return Document{}, fmt.Errorf("open the silences: %w", err)
	}
	for range changeTries {
		var d Document
		if d, err = tryChange(ctx, kv, key, decode, change); !bus.Conflict(err) {
			return d, err
		}
		select {
		case <-ctx.Done(): // the next try says so
		case <-time.After(changePause):
		}
	}
	return Document{}, fmt.Errorf("others change the silences all the time: try again: %w", err)
}

// tryChange fails with a bus.Conflict when somebody else wrote in between.
func tryChange[L interface{ Encode() ([]byte, error) }](
	ctx context.Context, kv jetstream.KeyValue, key string, decode func([]byte) (L, error), change func(L) (L, error),
) (Document, error) {
	var list L
	var revision uint64
	entry, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return Document{}, fmt.Errorf("read the silences: %w", err)
	default:
		revision = entry.Revision()
		if list, err = decode(entry.Value()); err != nil {
			return Document{}, unreadable(key, err)
		}
	}
	if list, err = change(list); err != nil {
		return Document{}, err
	}
	data, err := list.Encode()
	if err != nil {
		return Document{}, err
	}
	if revision == 0 {
		revision, err = kv.Create(ctx, key, data)
	} else {
		revision, err = kv.Update(ctx, key, data, revision)
	}
	if err != nil {
		return Document{}, fmt.Errorf("write the silences: %w", err)
	}
	return Document{Key: key, Revision: revision, Data: data}, nil
}
