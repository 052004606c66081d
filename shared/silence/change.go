package silence

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// errNoBucket is returned by a bus of a version without silences.
var errNoBucket = errors.New(`the bus keeps no silences yet: restart it with this version ("tocsin up")`)

// ChangeSilences changes the list of silences by compare-and-set, and returns its new
// record. change may be called several times; its error is returned as it is. A record that
// can't be read is not overwritten: it may be that of a newer version, and the error says
// what to do about it.
func ChangeSilences(ctx context.Context, s *bus.Session, change func(Silences) (Silences, error)) (Record, error) {
	return changeRecord(ctx, s, bus.KeySilences, DecodeSilences, change)
}

// ChangeAcks is [ChangeSilences] for the acknowledgements.
func ChangeAcks(ctx context.Context, s *bus.Session, change func(Acks) (Acks, error)) (Record, error) {
	return changeRecord(ctx, s, bus.KeyAcks, DecodeAcks, change)
}

func changeRecord[L interface{ Encode() ([]byte, error) }](
	ctx context.Context, s *bus.Session, key string, decode func([]byte) (L, error), change func(L) (L, error),
) (Record, error) {
	var refused error // by change, or because the record can't be read
	entry, err := s.Document(bus.BucketSilences, key).Update(ctx, func(old bus.Entry) ([]byte, error) {
		var list L
		if old.Exists() {
			var err error
			if list, err = decode(old.Data); err != nil {
				refused = unreadableError(key, err)
				return nil, refused
			}
		}
		list, refused = change(list)
		if refused != nil {
			return nil, refused
		}
		return list.Encode()
	})
	if refused != nil {
		return Record{}, refused
	}
	err = s.ExplainNoResponders(ctx, bus.StreamSilences, err)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return Record{}, errNoBucket
	case errors.Is(err, bus.ErrConflict):
		return Record{}, fmt.Errorf("the silences were changed concurrently too often: try again: %w", err)
	case err != nil:
		return Record{}, fmt.Errorf("change the silences: %w", err)
	}
	return Record{Key: key, Revision: entry.Revision, Data: entry.Data}, nil
}
