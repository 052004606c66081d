package silence

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// maxRecords is more than the bucket holds: another version may add some.
const maxRecords = 8

// Record is one of the two lists as it is stored on the bus.
type Record struct {
	// Key is bus.KeySilences or bus.KeyAcks. Other keys are those of another version.
	Key string
	// Revision is higher for what was written later, as long as the bucket is not
	// recreated.
	Revision uint64
	// Data is the encoded list. It is empty where the key was deleted or purged.
	Data    []byte
	Deleted bool
}

// RecordOf returns the record in a message of the bucket's stream.
func RecordOf(m bus.Message) Record {
	return Record{Key: m.Key(bus.BucketSilences), Revision: m.Seq, Data: m.Data, Deleted: m.Deleted()}
}

// Apply replaces the list in a set. The set stays as it is where the record can't be read,
// or has a key of another version. A deleted record empties its list.
func (r Record) Apply(set *Set) error {
	switch {
	case r.Key == bus.KeySilences && r.Deleted:
		set.Silences = nil
	case r.Key == bus.KeySilences:
		list, err := DecodeSilences(r.Data)
		if err != nil {
			return unreadableError(r.Key, err)
		}
		set.Silences = list
	case r.Key == bus.KeyAcks && r.Deleted:
		set.Acks = nil
	case r.Key == bus.KeyAcks:
		list, err := DecodeAcks(r.Data)
		if err != nil {
			return unreadableError(r.Key, err)
		}
		set.Acks = list
	}
	return nil
}

// unreadableError returns an error with the two ways to get past a record that can't be read.
func unreadableError(key string, err error) error {
	return fmt.Errorf("another version has written a record that this one can't read: use that version here too, or delete the record with the command line tool of NATS: nats kv del %s %s: %w",
		bus.BucketSilences, key, err)
}

// Read reads what is suppressed now, in one round trip. A missing bucket or a record that
// can't be read suppresses nothing: an alert too many is better than one too few.
func Read(ctx context.Context, s *bus.Session) (Set, error) {
	var set Set
	records, err := Records(ctx, s)
	if err != nil {
		return set, err
	}
	for _, r := range records {
		_ = r.Apply(&set) // a record of another version; a gateway logs it
	}
	return set, nil
}

// Records reads the records that exist, in one round trip. A missing bucket has none.
func Records(ctx context.Context, s *bus.Session) ([]Record, error) {
	msgs, err := s.Read(ctx, bus.StreamSilences, 1, maxRecords)
	err = s.ExplainNoResponders(ctx, bus.StreamSilences, err)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the silences: %w", err)
	}
	records := make([]Record, 0, len(msgs))
	for _, m := range msgs {
		records = append(records, RecordOf(m))
	}
	return records, nil
}
