package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// Bounds of following.
const (
	// fetchMessages is how many messages are under way to a follower. The largest have
	// 2 MiB, most of them a few KiB.
	fetchMessages = 128
	// followHeartbeat is how often the server says that there is nothing new. After
	// twice that without a word the consumer is taken for gone, as it is with the
	// server of a cluster that it was on: the connection may be to another.
	followHeartbeat = time.Second
	// consumerIdle is when the server forgets a consumer whose process died.
	consumerIdle = 30 * time.Second
	// followTimeout bounds one question to the server. One that got lost with a
	// server of a cluster is asked again.
	followTimeout = 2 * time.Second
	// minRetry and maxRetry bound the pause before following anew.
	minRetry = 50 * time.Millisecond
	maxRetry = 2 * time.Second
	// deleteTimeout bounds the clean-up of a consumer at the end.
	deleteTimeout = 500 * time.Millisecond
)

// FollowConfig says what to follow and from where.
type FollowConfig struct {
	Stream string
	// Subjects limits what is delivered; empty means all.
	Subjects []string
	// Start is the first sequence wanted. With 0, Since is the earliest arrival
	// wanted; without either, everything that the stream holds.
	Start uint64
	Since time.Time
	// Created is when the stream that Start belongs to was made. Where the
	// stream has been made anew, its sequences mean something else, and Renewed
	// says from where to go on. Zero turns the check off.
	Created time.Time
	// Renewed is called before the first message of a stream that was made anew.
	// It may be nil: then such a stream is followed from its beginning.
	Renewed func(created time.Time) (start uint64, since time.Time)
	// Began is called each time that following begins, also after an interruption,
	// with how many messages are to come. It may be nil.
	Began func(pending uint64)
	// Ahead is how many messages may be under way. Zero is 128.
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
	// Seq is its place in the stream, Time the bus's stamp of its arrival.
	Seq  uint64
	Time time.Time
	// Pending is how many messages of the stream come after it.
	Pending uint64
}

// Follow hands every message of a stream to handle, in order and each once,
// and goes on after whatever interrupts it: lost connections, restarted
// servers, deleted consumers. It returns when ctx ends, with nil, or when
// handle fails, with its error. It leaves no consumer behind.
func Follow(ctx context.Context, c *Conn, cfg FollowConfig, handle func(Message) error) error {
	js, err := jetstream.New(c.NC, jetstream.WithDefaultTimeout(followTimeout))
	if err != nil {
		return fmt.Errorf("follow %s: %w", cfg.Stream, err)
	}
	f := &follower{c: c, js: js, cfg: cfg, handle: handle, name: "follow-" + nuid.Next()}
	connected := c.NC.StatusChanged(nats.CONNECTED)
	defer c.NC.RemoveStatusListener(connected)
	delay := minRetry
	for {
		err := f.run(ctx)
		var failed *handleError
		if errors.As(err, &failed) {
			return failed.err
		}
		if f.progressed {
			f.progressed, delay = false, minRetry
		}
		cfg.Logger.Debug("follow again", "stream", cfg.Stream, "error", err, "in", delay)
		select {
		case <-ctx.Done():
			return nil
		case <-connected: // maybe just now, or since the last time
		case <-time.After(delay):
		}
		delay = min(2*delay, maxRetry)
	}
}

type follower struct {
	c      *Conn
	js     jetstream.JetStream
	cfg    FollowConfig
	handle func(Message) error
	name   string
	// tries counts consumers, each of which has a name of its own.
	tries int
	// progressed says that a message came since the last interruption.
	progressed bool
}

// handleError keeps a failure of the caller apart from those of the bus.
type handleError struct{ err error }

func (e *handleError) Error() string { return e.err.Error() }

// run follows until something interrupts it, and leaves cfg where to go on.
func (f *follower) run(ctx context.Context) error {
	ctx, stop := f.untilReconnect(ctx)
	defer stop()
	if !f.c.Connected() {
		return ErrAway
	}
	if err := f.checkRenewed(ctx); err != nil {
		return err
	}
	// Not the client's ordered consumer: where its server vanished that one waits 10 s
	// for an answer, whatever happens to the connection meanwhile.
	consumer, err := f.js.CreateConsumer(ctx, f.cfg.Stream, f.consumer())
	if err != nil {
		return fmt.Errorf("follow %s: %w", f.cfg.Stream, err)
	}
	defer f.forget(consumer)
	if f.cfg.Began != nil {
		f.cfg.Began(consumer.CachedInfo().NumPending)
	}
	it, err := consumer.Messages(f.ahead(), jetstream.PullHeartbeat(followHeartbeat))
	if err != nil {
		return fmt.Errorf("follow %s: %w", f.cfg.Stream, err)
	}
	defer it.Stop()
	for next := uint64(1); ; next++ {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("follow %s: %w", f.cfg.Stream, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("follow %s: %w", f.cfg.Stream, err)
		}
		if meta.Sequence.Consumer != next { // it was lost between the server and here
			return fmt.Errorf("follow %s: message %d came in place of %d", f.cfg.Stream, meta.Sequence.Consumer, next)
		}
		err = f.handle(Message{
			Subject: m.Subject(), Header: m.Headers(), Data: m.Data(),
			Seq: meta.Sequence.Stream, Time: meta.Timestamp, Pending: meta.NumPending,
		})
		if err != nil {
			return &handleError{err}
		}
		f.progressed = true
		f.cfg.Start, f.cfg.Since = meta.Sequence.Stream+1, time.Time{}
	}
}

// ahead bounds what is under way by a number of messages. With a bound of bytes the
// server would end each batch with a message of its own, for which the client has no
// room beside a batch that waits: where the handle is slow, the client would drop what
// comes then, and following would begin again.
func (f *follower) ahead() jetstream.PullMessagesOpt {
	return jetstream.PullMaxMessages(cmp.Or(f.cfg.Ahead, fetchMessages))
}

// untilReconnect ends ctx when the connection was lost and made again: the stream
// may be another one now, with sequences that mean something else.
func (f *follower) untilReconnect(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	connected := f.c.NC.StatusChanged(nats.CONNECTED)
	var watch sync.WaitGroup
	watch.Go(func() {
		defer f.c.NC.RemoveStatusListener(connected)
		select {
		case <-connected:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); watch.Wait() }
}

// consumer is one that the server keeps in memory, on one server, and forgets: where
// to go on is known here.
func (f *follower) consumer() jetstream.ConsumerConfig {
	f.tries++
	cfg := jetstream.ConsumerConfig{
		Name:           fmt.Sprintf("%s_%d", f.name, f.tries),
		FilterSubjects: f.cfg.Subjects, HeadersOnly: f.cfg.HeadersOnly,
		AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverAllPolicy,
		InactiveThreshold: consumerIdle, MemoryStorage: true, Replicas: 1,
	}
	switch {
	case f.cfg.Start > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.cfg.Start
	case !f.cfg.Since.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &f.cfg.Since
	}
	return cfg
}

// checkRenewed finds a stream that was deleted and made anew while we were
// away: waiting for a sequence that it will reach one day would lose alerts.
func (f *follower) checkRenewed(ctx context.Context) error {
	s, err := f.js.Stream(ctx, f.cfg.Stream)
	if err != nil {
		return fmt.Errorf("follow %s: %w", f.cfg.Stream, err)
	}
	info := s.CachedInfo()
	if f.cfg.Created.IsZero() {
		f.cfg.Created = info.Created
	}
	if info.Created.Equal(f.cfg.Created) {
		return nil
	}
	f.cfg.Logger.Warn("the stream was made anew", "stream", f.cfg.Stream, "created", info.Created)
	f.cfg.Created, f.cfg.Start, f.cfg.Since = info.Created, 0, time.Time{}
	if f.cfg.Renewed != nil {
		f.cfg.Start, f.cfg.Since = f.cfg.Renewed(info.Created)
	}
	return nil
}

// forget deletes the consumer: the server would keep it for consumerIdle.
func (f *follower) forget(consumer jetstream.Consumer) {
	info := consumer.CachedInfo()
	if info == nil || !f.c.Connected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	// Best effort: it is forgotten anyway once it has been idle.
	_ = f.js.DeleteConsumer(ctx, f.cfg.Stream, info.Name)
}
