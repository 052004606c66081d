// Package silences reads and changes what is silenced and acknowledged: two
// documents in a bucket of the bus, for all clients alike.
//
// It decides how they are changed by several at once. Which alerts they hold back
// is package silence's, and who obeys when is up to the reader: a gateway follows
// the documents, a hook reads them once.
package silences

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// prefix is what the subjects of the bucket's keys begin with.
const prefix = "$KV." + bus.BucketSilences + "."

// maxDocuments is more than the bucket has: another version may add some.
const maxDocuments = 8

// Document is one of the two, as it is on the bus.
type Document struct {
	// Key says which: bus.KeySilences or bus.KeyAcks. Others are of another
	// version.
	Key string
	// Revision is higher for what was written later, as long as the bucket is the
	// same.
	Revision uint64
	// Data is as package silence encodes it, and nothing where the key was deleted
	// or purged.
	Data []byte
	// Gone says that it was: there is nothing in it.
	Gone bool
}

// Of is the document in a message of the bucket's stream.
func Of(m bus.Message) Document {
	return Document{Key: strings.TrimPrefix(m.Subject, prefix), Revision: m.Seq, Data: m.Data, Gone: gone(m.Header)}
}

// gone says whether a message of a bucket marks that its key was deleted or
// purged, by a client or by the bus itself.
func gone(h nats.Header) bool {
	const operation = "KV-Operation"
	op := h.Get(operation)
	return op == "DEL" || op == "PURGE" || h.Get(jetstream.MarkerReasonHeader) != ""
}

// Into puts the document into its place in a set, which stays as it is where the
// document can't be read, or has a key of another version. One that is gone holds
// nothing back.
func (d Document) Into(set *silence.Set) error {
	switch {
	case d.Key == bus.KeySilences && d.Gone:
		set.Silences = nil
	case d.Key == bus.KeySilences:
		list, err := silence.DecodeSilences(d.Data)
		if err != nil {
			return unreadable(d.Key, err)
		}
		set.Silences = list
	case d.Key == bus.KeyAcks && d.Gone:
		set.Acks = nil
	case d.Key == bus.KeyAcks:
		list, err := silence.DecodeAcks(d.Data)
		if err != nil {
			return unreadable(d.Key, err)
		}
		set.Acks = list
	}
	return nil
}

// unreadable says what is wrong with a document, and the two ways out of it.
func unreadable(key string, err error) error {
	return fmt.Errorf("another version has written what this one can't read: use that version here too, or drop what it has written, with the nats command line tool: nats kv del %s %s: %w",
		bus.BucketSilences, key, err)
}

// Read reads what is held back at this moment, in one round trip. A bucket that
// is missing holds nothing back, and neither does a document that can't be read:
// alerts are worth more than silence.
func Read(ctx context.Context, c *bus.Conn) (silence.Set, error) {
	var set silence.Set
	documents, err := Documents(ctx, c)
	if err != nil {
		return set, err
	}
	for _, d := range documents {
		_ = d.Into(&set) // another version's; a gateway says so
	}
	return set, nil
}

// Documents reads those that there are, in one round trip. A bucket that is
// missing has none.
func Documents(ctx context.Context, c *bus.Conn) ([]Document, error) {
	msgs, err := c.Stored(ctx, bus.StreamSilences, maxDocuments)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is silenced: %w", err)
	}
	documents := make([]Document, 0, len(msgs))
	for _, m := range msgs {
		documents = append(documents, Of(m))
	}
	return documents, nil
}
