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
	// Data is as package silence encodes it.
	Data []byte
}

// Of is the document in a message of the bucket's stream.
func Of(m bus.Message) Document {
	return Document{Key: strings.TrimPrefix(m.Subject, prefix), Revision: m.Seq, Data: m.Data}
}

// Into puts the document into its place in a set, which stays as it is where the
// document can't be read, or has a key of another version.
func (d Document) Into(set *silence.Set) error {
	switch d.Key {
	case bus.KeySilences:
		list, err := silence.DecodeSilences(d.Data)
		if err != nil {
			return fmt.Errorf("read %s: %w", d.Key, err)
		}
		set.Silences = list
	case bus.KeyAcks:
		list, err := silence.DecodeAcks(d.Data)
		if err != nil {
			return fmt.Errorf("read %s: %w", d.Key, err)
		}
		set.Acks = list
	}
	return nil
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
