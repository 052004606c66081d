package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Bounds of a session's log.
const (
	// MaxMessage bounds one message, in bytes. Servers accept 1 MiB with the headers unless
	// they are configured otherwise.
	MaxMessage = 1<<20 - 16<<10
	// pageMessages is how many messages one request reads; the bus bounds it to 16 MiB too.
	pageMessages = 512
	// appendTimeout bounds one attempt to append, appendAttempts their number: an
	// acknowledgement may be lost with a server of a cluster.
	appendTimeout  = 2 * time.Second
	appendAttempts = 3
	// awaitTimeout bounds one try of Await.
	awaitTimeout = 10 * time.Second
	// catchUpPause and maxCatchUpPause bound the pause before a replica is asked again that
	// lacks messages which the leader has; it doubles.
	catchUpPause    = 2 * time.Millisecond
	maxCatchUpPause = 100 * time.Millisecond
)

// headerAppend identifies one call of Append, so that its message is recognized where the
// acknowledgement was lost. It is not Nats-Msg-Id: with that, the server would acknowledge
// a second attempt without a check of the expected sequence.
const headerAppend = "Tocsin-Append"

// Message is one message of a session's log.
type Message struct {
	Session string
	// Data must not be changed.
	Data []byte
	// Seq is the message's sequence in the stream of all sessions; it rises within a session.
	Seq uint64
	// Time is when the bus stored it.
	Time time.Time
	// Pending is how many messages of all sessions come after it. Only [Journal.Follow] sets it.
	Pending uint64
}

// Append appends a message to a session's log, if the log still ends with the message at
// expectedLast (0 for a new session), and returns its sequence. The error wraps [ErrConflict]
// where the log has newer messages, [ErrFull] where the store has no room, [ErrTooLarge],
// [ErrSession], or an error of the bus. After an error of the bus or the end of ctx the message
// may be stored: read the log before another append.
//
// A lost acknowledgement neither stores the message twice nor counts as a conflict.
func (j *Journal) Append(ctx context.Context, session string, expectedLast uint64, data []byte) (uint64, error) {
	if err := CheckSession(session); err != nil {
		return 0, fmt.Errorf("append: %w", err)
	}
	if len(data) > MaxMessage {
		return 0, fmt.Errorf("append %d bytes to session %s: %w: a message may have %d", len(data), session, ErrTooLarge, MaxMessage)
	}
	m := nats.NewMsg(bus.InvestigationSubject(session))
	m.Data = data
	id := nuid.Next()
	m.Header.Set(headerAppend, id)
	for attempt := 1; ; attempt++ {
		seq, err := j.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(expectedLast))
		switch {
		case err == nil:
			return seq, nil
		case bus.Conflict(err):
			if attempt > 1 { // an earlier attempt may be stored, and another writer's message after it
				seq, err := j.findAppend(ctx, session, expectedLast, id)
				if seq > 0 || err != nil {
					return seq, err
				}
			}
			return 0, fmt.Errorf("append to session %s after %d: %w", session, expectedLast, ErrConflict)
		case isFull(err):
			return 0, fmt.Errorf("append to session %s: %w: %w", session, ErrFull, err)
		case ctx.Err() != nil, attempt == appendAttempts, !isLost(err):
			return 0, fmt.Errorf("append to session %s: %w", session, err)
		}
	}
}

// findAppend returns the sequence of the message of one call of Append, 0 if there is none.
func (j *Journal) findAppend(ctx context.Context, session string, after uint64, id string) (uint64, error) {
	for m, err := range j.stored(ctx, session, after) {
		if err != nil {
			return 0, fmt.Errorf("append to session %s: %w", session, err)
		}
		if m.Header.Get(headerAppend) == id {
			return m.Seq, nil
		}
	}
	return 0, nil
}

// publish sends a message once and returns its sequence.
func (j *Journal) publish(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (uint64, error) {
	if !j.bus.Connected() {
		return 0, bus.ErrUnreachable
	}
	ctx, cancel := context.WithTimeoutCause(ctx, appendTimeout, bus.ErrUnacknowledged)
	defer cancel()
	ack, err := j.bus.JS.PublishMsg(ctx, m, opts...)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return 0, err
	}
	return ack.Sequence, nil
}

// isLost reports whether a publish failed without an answer of the stream: the message may be
// stored.
func isLost(err error) bool {
	var api *jetstream.APIError
	return !errors.As(err, &api) && !errors.Is(err, nats.ErrMaxPayload) && !errors.Is(err, nats.ErrBadSubject)
}

// Error codes of JetStream for a store without room: of the account, of the server, of the
// stream.
const (
	codeStorageExceeded = 10047
	codeMemoryExceeded  = 10028
	codeInsufficient    = 10023
	codeStoreFailed     = 10077
)

// isFull reports whether the bus refused a message for want of room.
func isFull(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeStorageExceeded, codeMemoryExceeded, codeInsufficient:
		return true
	case codeStoreFailed:
		return strings.Contains(api.Description, "maximum bytes") || strings.Contains(api.Description, "no space") || strings.Contains(api.Description, "insufficient")
	default:
		return false
	}
}

// Read returns the messages of a session's log after a sequence, oldest first, none where
// there is nothing new. It has every message that was acknowledged before the call. The error
// wraps [ErrSession], or is one of the bus.
func (j *Journal) Read(ctx context.Context, session string, after uint64) ([]Message, error) {
	var all []Message
	for m, err := range j.Messages(ctx, session, after) {
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// Messages is [Journal.Read] in pages, for logs of any size. After an error it ends.
func (j *Journal) Messages(ctx context.Context, session string, after uint64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for m, err := range j.stored(ctx, session, after) {
			if !yield(j.message(m), err) {
				return
			}
		}
	}
}

// stored reads the messages of a log after a sequence up to the one that is the last now.
func (j *Journal) stored(ctx context.Context, session string, after uint64) iter.Seq2[bus.Message, error] {
	return func(yield func(bus.Message, error) bool) {
		last, err := j.Last(ctx, session)
		pause := catchUpPause
		for err == nil && after < last.Seq {
			var msgs []bus.Message
			msgs, err = j.bus.ReadSubject(ctx, bus.StreamInvestigations, bus.InvestigationSubject(session), after+1, pageMessages)
			for _, m := range msgs {
				after, pause = m.Seq, catchUpPause
				if !yield(m, nil) {
					return
				}
			}
			if err != nil || len(msgs) > 0 {
				continue
			}
			// The replica that answered lacks the newest messages, or they were deleted.
			if err = sleep(ctx, pause); err == nil {
				last, err = j.Last(ctx, session)
			}
			pause = min(2*pause, maxCatchUpPause)
		}
		if err != nil {
			yield(bus.Message{}, fmt.Errorf("read session %s: %w", session, err))
		}
	}
}

// Last returns the newest message of a session's log, and the zero Message where it has none.
func (j *Journal) Last(ctx context.Context, session string) (Message, error) {
	if err := CheckSession(session); err != nil {
		return Message{}, fmt.Errorf("read: %w", err)
	}
	m, found, err := j.bus.NewestAtLeader(ctx, bus.StreamInvestigations, bus.InvestigationSubject(session))
	if err != nil {
		return Message{}, fmt.Errorf("read session %s: %w", session, err)
	}
	if !found {
		return Message{}, nil
	}
	return j.message(m), nil
}

func (j *Journal) message(m bus.Message) Message {
	return Message{Session: strings.TrimPrefix(m.Subject, bus.InvestigationSubject("")), Data: m.Data, Seq: m.Seq, Time: m.Time}
}

// FollowConfig configures [Journal.Follow].
type FollowConfig struct {
	// After is the position after which reading starts.
	After bus.Position
	// Recreated is called with the beginning of a stream that was recreated, before its first
	// message: everything that was read before is gone. It may be nil.
	Recreated func(beginning bus.Position)
	// Started is called each time that following starts, with the number of messages to come.
	// It may be nil.
	Started func(pending uint64)
}

// Follow calls handle for every message of all sessions after a position, in the order of the
// stream, with the position after it. It returns like [bus.Session.Follow]. Sessions that were
// deleted are not seen.
func (j *Journal) Follow(ctx context.Context, cfg FollowConfig, handle func(m Message, at bus.Position) error) error {
	return j.bus.Follow(ctx, bus.FollowConfig{
		Stream: bus.StreamInvestigations, After: cfg.After, Recreated: cfg.Recreated, Started: cfg.Started, Logger: j.log,
	}, func(m bus.Message) error {
		own := j.message(m)
		if err := CheckSession(own.Session); err != nil {
			j.log.Warn("a message of no session is left out", "subject", m.Subject, "sequence", m.Seq)
			return nil //nolint:nilerr // logged: one foreign message must not end the reading
		}
		own.Pending = m.Pending
		return handle(own, m.Position())
	})
}

// State returns what the stream of all sessions holds: a follower that has handled Last has
// everything that was acknowledged before the call.
func (j *Journal) State(ctx context.Context) (bus.State, error) {
	return j.bus.State(ctx, bus.StreamInvestigations)
}

// Await calls try while the bus can be reached, until it succeeds, and logs why it waits. The error is
// that of [bus.Session.Await].
func (j *Journal) Await(ctx context.Context, log *slog.Logger, try func(context.Context) error) error {
	return j.bus.Await(ctx, bus.AwaitConfig{Timeout: awaitTimeout, Logger: log}, try)
}

// PublishChunks publishes a part of what a model says, to those who watch the session right
// now. Nothing stores it, and nothing acknowledges it.
func (j *Journal) PublishChunks(session string, data []byte) error {
	if err := CheckSession(session); err != nil {
		return fmt.Errorf("publish chunks: %w", err)
	}
	if err := j.bus.NC.Publish(bus.LiveInvestigationSubject(session), data); err != nil {
		return fmt.Errorf("publish chunks of session %s: %w", session, err)
	}
	return nil
}

// SubscribeChunks calls handle for what [Journal.PublishChunks] publishes from now on, in any
// process, until the returned function is called. Calls come one at a time; a handler that is
// too slow loses chunks.
func (j *Journal) SubscribeChunks(handle func(session string, data []byte)) (stop func() error, err error) {
	sub, err := j.bus.NC.Subscribe(bus.AllLiveInvestigations, func(m *nats.Msg) {
		session := strings.TrimPrefix(m.Subject, bus.LiveInvestigationSubject(""))
		if CheckSession(session) == nil {
			handle(session, m.Data)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to chunks: %w", err)
	}
	return sub.Unsubscribe, nil
}

// logger returns a logger with the session's id.
func (j *Journal) logger(session string) *slog.Logger { return j.log.With("session", session) }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
