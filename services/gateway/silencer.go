package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

const (
	// firstRead bounds how long alerts wait for what is silenced to be read.
	firstRead = time.Second
	// changeTries is how often a change is tried while others write too, and
	// changePause the pause between: in a cluster a replica may lag a little.
	changeTries = 10
	changePause = 20 * time.Millisecond
)

// silencesPrefix is what the subjects of the bucket's keys begin with.
const silencesPrefix = "$KV." + bus.BucketSilences + "."

// errNoBucket says that the bus is of a version that knows no silences.
var errNoBucket = errors.New("the bus keeps no silences yet: start it anew with this version (tocsin up)")

// readSilences reads what is held back at this moment, in one round trip. A
// bucket that is missing holds nothing back, and neither does a document that
// can't be read: alerts are worth more than silence.
func readSilences(ctx context.Context, c *bus.Conn) (silence.Set, error) {
	var set silence.Set
	documents, err := readDocuments(ctx, c)
	if err != nil {
		return set, err
	}
	for _, d := range documents {
		_ = decodeInto(&set, d.key, d.data) // another version's; a gateway says so
	}
	return set, nil
}

func readDocuments(ctx context.Context, c *bus.Conn) ([]document, error) {
	msgs, err := c.Stored(ctx, bus.StreamSilences, maxDocuments)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is silenced: %w", err)
	}
	documents := make([]document, 0, len(msgs))
	for _, m := range msgs {
		documents = append(documents, documentOf(m))
	}
	return documents, nil
}

// maxDocuments is more than the bucket has: another version may add some.
const maxDocuments = 8

func documentOf(m bus.Message) document {
	return document{key: strings.TrimPrefix(m.Subject, silencesPrefix), revision: m.Seq, data: m.Data}
}

// silencer keeps what a session holds back in step with the bus.
type silencer struct {
	session *session
	// over are acknowledgements that have ended, to be written down.
	over chan silence.Ack
	// unwritten is what write is about; it outlives a connection.
	unwritten *silence.Ack
	log       *slog.Logger
}

func newSilencer(s *session, log *slog.Logger) *silencer {
	over := make(chan silence.Ack, maxEnding)
	s.hush.over = over
	return &silencer{session: s, over: over, log: log}
}

// run keeps in step, once the first read is over, until ctx ends.
func (s *silencer) run(ctx context.Context, c *bus.Conn, loaded <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-loaded:
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.follow(ctx, c) })
	group.Go(func() error { return s.write(ctx, c) })
	return group.Wait()
}

// load reads what is held back, before the first alert is handed on. A bus that
// does not answer in time is not waited for: alerts are worth more than silence.
func (s *silencer) load(ctx context.Context, c *bus.Conn) {
	s.tell(ctx, func(own *session, _ time.Time) { own.hush.doubt() })
	reading, cancel := context.WithTimeout(ctx, firstRead)
	defer cancel()
	documents, err := readDocuments(reading, c)
	if err != nil {
		s.log.Warn("alerts are told without a new look at what is silenced", "because", err)
		return
	}
	s.tell(ctx, func(own *session, now time.Time) {
		own.learn(now, documents...)
		own.hush.complete()
	})
}

// tell does something in the session's loop. A session that is about to end has
// no need of it.
func (s *silencer) tell(ctx context.Context, f func(*session, time.Time)) {
	if err := s.session.do(ctx, f); err != nil {
		s.log.Debug("too late to be silenced", "because", err)
	}
}

// follow hands over each change until ctx ends.
func (s *silencer) follow(ctx context.Context, c *bus.Conn) error {
	cfg := bus.FollowConfig{Stream: bus.StreamSilences, Logger: s.log}
	cfg.Renewed = func(time.Time) (uint64, time.Time) {
		s.tell(ctx, func(own *session, _ time.Time) { own.hush.doubt(); own.hush.complete() })
		return 0, time.Time{}
	}
	return bus.Follow(ctx, c, cfg, func(m bus.Message) error {
		s.tell(ctx, func(own *session, now time.Time) { own.learn(now, documentOf(m)) })
		return nil
	})
}

// write writes down which acknowledgements have ended, until ctx ends. A bus that is
// away is waited for.
func (s *silencer) write(ctx context.Context, c *bus.Conn) error {
	for ctx.Err() == nil {
		if s.unwritten == nil {
			select {
			case <-ctx.Done():
				return nil
			case k := <-s.over:
				s.unwritten = &k
			}
		}
		err := s.end(ctx, c, *s.unwritten)
		if err == nil || errors.Is(err, errUnchanged) {
			s.unwritten = nil
			continue
		}
		s.log.Debug("the end of an acknowledgement is not written yet", "error", err)
		pause(ctx, saveRetry)
	}
	return nil
}

func (s *silencer) end(ctx context.Context, c *bus.Conn, over silence.Ack) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	_, err := changeAcks(ctx, c, func(l silence.Acks) (silence.Acks, error) {
		after, changed := l.Ended(over)
		if !changed {
			return nil, errUnchanged
		}
		return after, nil
	})
	return err
}

// errUnchanged is what a change answers with that has nothing to write.
var errUnchanged = errors.New("nothing to change")

func changeSilences(ctx context.Context, c *bus.Conn, change func(silence.Silences) (silence.Silences, error)) (document, error) {
	return changeDocument(ctx, c, bus.KeySilences, silence.DecodeSilences, change)
}

func changeAcks(ctx context.Context, c *bus.Conn, change func(silence.Acks) (silence.Acks, error)) (document, error) {
	return changeDocument(ctx, c, bus.KeyAcks, silence.DecodeAcks, change)
}

// changeDocument changes a document by compare-and-set and returns it as it is
// then. change may be called several times, and its error is the result's. A
// document that can't be read is not written over: it may be a newer version's.
func changeDocument[L interface{ Encode() ([]byte, error) }](
	ctx context.Context, c *bus.Conn, key string, decode func([]byte) (L, error), change func(L) (L, error),
) (document, error) {
	kv, err := c.JS.KeyValue(ctx, bus.BucketSilences)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return document{}, errNoBucket
	}
	if err != nil {
		return document{}, fmt.Errorf("open the silences: %w", err)
	}
	for range changeTries {
		var d document
		if d, err = tryChange(ctx, kv, key, decode, change); !errors.Is(err, jetstream.ErrKeyExists) {
			return d, err
		}
		pause(ctx, changePause)
	}
	return document{}, fmt.Errorf("others change the silences all the time: try again: %w", err)
}

// tryChange fails with ErrKeyExists when somebody else wrote in between.
func tryChange[L interface{ Encode() ([]byte, error) }](
	ctx context.Context, kv jetstream.KeyValue, key string, decode func([]byte) (L, error), change func(L) (L, error),
) (document, error) {
	var list L
	var revision uint64
	entry, err := kv.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return document{}, fmt.Errorf("read the silences: %w", err)
	default:
		revision = entry.Revision()
		if list, err = decode(entry.Value()); err != nil {
			return document{}, fmt.Errorf("another version has written what this one can't read: %w", err)
		}
	}
	if list, err = change(list); err != nil {
		return document{}, err
	}
	data, err := list.Encode()
	if err != nil {
		return document{}, err
	}
	if revision == 0 {
		revision, err = kv.Create(ctx, key, data)
	} else {
		revision, err = kv.Update(ctx, key, data, revision)
	}
	if err != nil {
		return document{}, fmt.Errorf("write the silences: %w", err)
	}
	return document{key: key, revision: revision, data: data}, nil
}
