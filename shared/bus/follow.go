package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Bounds of following.
const (
	// followAhead is how many messages may be under way to a reader by default. The largest
	// have 2 MiB, most of them a few KiB.
	followAhead = 128
	// followHeartbeat is the time between two signals of the server that there is nothing new. After
	// twice that without a signal the consumer counts as gone, as with the server of a
	// cluster that it was on: the connection may be to another server.
	followHeartbeat = time.Second
	// minFirstWait is how long the first of the messages that a consumer has is awaited
	// before another consumer is made. It doubles up to maxFirstWait; from then on the
	// heartbeat decides. In a cluster the request for messages can be lost, because the
	// server of the consumer may answer before the others know that it listens.
	minFirstWait = 250 * time.Millisecond
	maxFirstWait = time.Second
	// consumerIdle is when the server forgets a consumer whose process died.
	consumerIdle = 30 * time.Second
	// followTimeout bounds one request to the server, also where the caller's deadline is
	// later. One that was lost with a server of a cluster is sent again.
	followTimeout = 2 * time.Second
	// minFollowPause and maxFollowPause bound the pause before following restarts.
	minFollowPause = 50 * time.Millisecond
	maxFollowPause = 2 * time.Second
	// deleteTimeout bounds deleting a consumer at the end.
	deleteTimeout = 500 * time.Millisecond
)

// FollowConfig selects messages of a stream, and the position from which to read.
type FollowConfig struct {
	Stream string
	// Subjects limits what is delivered; empty means all.
	Subjects []string
	// After is the position after which reading starts. Where its Created is set and the
	// stream was recreated since, reading starts at the beginning of the stream.
	After Position
	// Since, where After.Seq is 0, leaves out messages that arrived before.
	Since time.Time
	// Newest, for [Session.ReadToEnd] alone, limits reading to so many of the newest
	// messages.
	Newest int
	// Recreated is called with the beginning of a stream that was recreated, before its
	// first message. It may be nil.
	Recreated func(beginning Position)
	// Started is called each time that following starts, also after an interruption, with
	// the number of messages to come. It may be nil.
	Started func(pending uint64)
	// Ahead is how many messages may be under way; 0 means 128.
	Ahead int
	// HeadersOnly leaves the payloads out.
	HeadersOnly bool
	Logger      *slog.Logger
}

// Message is one message of a stream.
type Message struct {
	Subject string
	Header  nats.Header
	Data    []byte
	// Seq is the message's sequence in the stream, Time when the bus stored it.
	Seq  uint64
	Time time.Time
	// Pending is how many messages of the stream come after it.
	Pending uint64
	// Created is when the stream was created. [Session.Follow] and [Session.ReadToEnd] set
	// it.
	Created time.Time
}

// Position returns the position after the message. See Message.Created.
func (m Message) Position() Position { return Position{Seq: m.Seq, Created: m.Created} }

// Stamp identifies the message in its stream.
func (m Message) Stamp() Stamp { return Stamp{Seq: m.Seq, UnixNano: m.Time.UnixNano()} }

// Key returns the key of a message of a bucket's stream.
func (m Message) Key(bucket string) string { return strings.TrimPrefix(m.Subject, keyPrefix(bucket)) }

// Deleted reports whether a message of a bucket's stream marks that its key was deleted or
// purged, by a client or by the server.
func (m Message) Deleted() bool {
	op := m.Header.Get(headerOperation)
	return op == operationDelete || op == operationPurge || m.Header.Get(jetstream.MarkerReasonHeader) != ""
}

// Follow calls handle for every message of a stream after a position, in order and each
// once. It continues after lost connections, restarted servers, deleted consumers and
// recreated streams, and leaves no consumer behind.
//
// It returns the error of handle, and nil where that is [ErrStop]; the cause of ctx when
// ctx ends; or an error that wraps [ErrClosed] when the session is closed for good.
func (s *Session) Follow(ctx context.Context, cfg FollowConfig, handle func(Message) error) error {
	err := s.follow(ctx, &cfg, handle)
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// follow is Follow, and updates cfg with the position at which to continue.
func (s *Session) follow(ctx context.Context, cfg *FollowConfig, handle func(Message) error) error {
	js, err := jetstream.New(s.NC)
	if err != nil {
		return fmt.Errorf("follow %s: %w", cfg.Stream, err)
	}
	f := &follower{session: s, js: js, cfg: cfg, handle: handle, name: "follow-" + nuid.Next(), firstWait: minFirstWait}
	connected := s.NC.StatusChanged(nats.CONNECTED)
	defer s.NC.RemoveStatusListener(connected)
	pause := minFollowPause
	for {
		err := f.run(ctx)
		var failed *handleError
		if errors.As(err, &failed) {
			return failed.err
		}
		if f.progressed {
			f.progressed, f.firstWait, pause = false, minFirstWait, minFollowPause
		}
		cfg.Logger.Debug("following a stream restarts", "stream", cfg.Stream, "error", err, "pause", pause)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-s.closed:
			timer.Stop()
			return fmt.Errorf("follow %s: %w", cfg.Stream, s.Err())
		case <-connected: // maybe just now, or since the last time
			timer.Stop()
		case <-timer.C:
		}
		pause = min(2*pause, maxFollowPause)
	}
}

type follower struct {
	session *Session
	js      jetstream.JetStream
	// cfg has the position at which to continue in After and Since.
	cfg    *FollowConfig
	handle func(Message) error
	name   string
	// consumers counts those created so far. Each has its own name.
	consumers int
	// progressed is set when a message came since the last interruption.
	progressed bool
	// firstWait is how long the first message of a consumer is awaited.
	firstWait time.Duration
}

// handleError marks an error of the caller's handler, to distinguish it from those of the bus.
type handleError struct{ err error }

func (e *handleError) Error() string { return e.err.Error() }

// run follows until something interrupts it.
func (f *follower) run(ctx context.Context) error {
	ctx, stop := f.untilReconnect(ctx)
	defer stop()
	if !f.session.Connected() {
		return ErrUnreachable
	}
	if err := f.checkRecreated(ctx); err != nil {
		return err
	}
	// Not the client's ordered consumer: when its server vanishes, that one waits 10 s for
	// an answer, even over a reconnection.
	consumer, err := f.createConsumer(ctx)
	if err != nil {
		return fmt.Errorf("follow %s: %w", f.cfg.Stream, err)
	}
	defer f.deleteConsumer(consumer)
	pending := consumer.CachedInfo().NumPending
	if f.cfg.Started != nil {
		f.cfg.Started(pending)
	}
	it, err := consumer.Messages(f.ahead(), jetstream.PullHeartbeat(followHeartbeat))
	if err != nil {
		return fmt.Errorf("follow %s: %w", f.cfg.Stream, err)
	}
	defer it.Stop()
	for next := uint64(1); ; next++ {
		m, err := f.next(ctx, it, next == 1 && pending > 0)
		if err != nil {
			return fmt.Errorf("follow %s: %w", f.cfg.Stream, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("follow %s: %w", f.cfg.Stream, err)
		}
		if meta.Sequence.Consumer != next { // one was lost between the server and here
			return fmt.Errorf("follow %s: message %d came in place of %d", f.cfg.Stream, meta.Sequence.Consumer, next)
		}
		err = f.handle(Message{
			Subject: m.Subject(), Header: m.Headers(), Data: m.Data(),
			Seq: meta.Sequence.Stream, Time: meta.Timestamp, Pending: meta.NumPending, Created: f.cfg.After.Created,
		})
		if err != nil {
			return &handleError{err}
		}
		f.progressed = true
		f.cfg.After.Seq, f.cfg.Since = meta.Sequence.Stream, time.Time{}
	}
}

// next returns the next message. The first one of a consumer that has messages is awaited
// for firstWait.
func (f *follower) next(ctx context.Context, it jetstream.MessagesContext, first bool) (jetstream.Msg, error) {
	if !first || f.firstWait > maxFirstWait {
		return it.Next(jetstream.NextContext(ctx))
	}
	waiting, cancel := context.WithTimeout(ctx, f.firstWait)
	defer cancel()
	m, err := it.Next(jetstream.NextContext(waiting))
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		err = fmt.Errorf("no message came within %s", f.firstWait)
		f.firstWait *= 2
	}
	return m, err
}

// ahead bounds what is under way by a number of messages. With a bound of bytes the server
// would end each batch with a message of its own, for which the client has no room beside
// a batch that waits: with a slow handler the client would drop messages, and following
// would restart.
func (f *follower) ahead() jetstream.PullMessagesOpt {
	return jetstream.PullMaxMessages(cmp.Or(f.cfg.Ahead, followAhead))
}

// untilReconnect ends ctx when the connection was lost and opened again: the stream may
// have been recreated, and its sequences mean something else.
func (f *follower) untilReconnect(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	connected := f.session.NC.StatusChanged(nats.CONNECTED)
	var watch sync.WaitGroup
	watch.Go(func() {
		defer f.session.NC.RemoveStatusListener(connected)
		select {
		case <-connected:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); watch.Wait() }
}

// consumer returns the configuration of a consumer in memory, on one server. The position at
// which to continue is kept here.
func (f *follower) consumer() jetstream.ConsumerConfig {
	f.consumers++
	cfg := jetstream.ConsumerConfig{
		Name:           fmt.Sprintf("%s_%d", f.name, f.consumers),
		FilterSubjects: f.cfg.Subjects, HeadersOnly: f.cfg.HeadersOnly,
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		InactiveThreshold: consumerIdle, MemoryStorage: true, Replicas: 1,
	}
	switch {
	case f.cfg.After.Seq > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.cfg.After.Seq+1
	case !f.cfg.Since.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &f.cfg.Since
	}
	return cfg
}

// createConsumer creates a consumer at the position at which to continue.
func (f *follower) createConsumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	return f.js.CreateConsumer(ctx, f.cfg.Stream, f.consumer())
}

// checkRecreated detects that the stream was deleted and created again. Waiting for the old
// sequence would skip the messages of the new stream up to it.
func (f *follower) checkRecreated(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	stream, err := f.js.Stream(asking, f.cfg.Stream)
	if err != nil {
		return fmt.Errorf("follow %s: %w", f.cfg.Stream, err)
	}
	created := stream.CachedInfo().Created
	if f.cfg.After.Created.IsZero() {
		f.cfg.After.Created = created
	}
	if f.cfg.After.Created.Equal(created) {
		return nil
	}
	f.cfg.Logger.Warn("a stream was recreated; it is read from its beginning", "stream", f.cfg.Stream, "created", created)
	f.cfg.After, f.cfg.Since = f.cfg.After.InStream(created), time.Time{}
	if f.cfg.Recreated != nil {
		f.cfg.Recreated(f.cfg.After)
	}
	return nil
}

// deleteConsumer deletes the consumer, which the server would keep for consumerIdle.
func (f *follower) deleteConsumer(consumer jetstream.Consumer) {
	info := consumer.CachedInfo()
	if info == nil || !f.session.Connected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	// Best effort: the server forgets it anyway once it has been idle.
	_ = f.js.DeleteConsumer(ctx, f.cfg.Stream, info.Name)
}

// ReadToEnd is [Session.Follow] up to the end of the stream, and then returns nil. It reads
// by a consumer, so it sees everything that was acknowledged before. Where ctx ends first,
// the error wraps [ErrIncomplete] and the cause of ctx; where the bus does not answer, it
// wraps only the latter, or [ErrUnreachable].
func (s *Session) ReadToEnd(ctx context.Context, cfg FollowConfig, handle func(Message) error) error {
	st, err := s.State(ctx, cfg.Stream)
	if err != nil {
		return err
	}
	if st.Messages == 0 || st.LastTime.Before(cfg.Since) {
		return nil
	}
	if cfg.Newest > 0 {
		cfg.After.Seq = max(cfg.After.Seq, st.Last-min(st.Last, uint64(cfg.Newest)))
	}
	errEnd := errors.New("the end")
	reading, end := context.WithCancelCause(ctx)
	defer end(nil)
	started := cfg.Started
	cfg.Started = func(pending uint64) {
		if started != nil {
			started(pending)
		}
		if pending == 0 {
			end(errEnd)
		}
	}
	err = s.Follow(reading, cfg, func(m Message) error {
		if err := handle(m); err != nil {
			return err
		}
		if m.Pending == 0 {
			return ErrStop
		}
		return nil
	})
	switch {
	case err == nil, errors.Is(err, errEnd):
		return nil
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("read stream %s: %w: %w", cfg.Stream, ErrIncomplete, err)
	default:
		return err
	}
}
