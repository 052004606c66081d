package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bounds of reading by direct get.
const (
	// maxReadBytes bounds what one Read returns, but for its last message.
	maxReadBytes = 16 * mib
	// defaultBatch is Range.Batch where it is 0.
	defaultBatch = 500
	// stateTimeout bounds the question what a stream holds. A question that was lost with
	// the leader of a cluster gets no answer: the caller asks again.
	stateTimeout = 2 * time.Second
)

// State is what a stream holds. First is Last+1 where it holds nothing.
type State struct {
	// Created is when the stream was created.
	Created               time.Time
	First, Last, Messages uint64
	// Bytes is the size of its messages in the store.
	Bytes uint64
	// FirstTime and LastTime are when the oldest and the newest message arrived.
	FirstTime, LastTime time.Time
}

// End returns the position of the newest message.
func (st State) End() Position { return Position{Seq: st.Last, Created: st.Created} }

// State asks what a stream holds, within 2 s. The error wraps [jetstream.ErrStreamNotFound]
// where there is no such stream. The dashboard's role may not ask.
func (s *Session) State(ctx context.Context, stream string) (State, error) {
	if err := s.checkUsable(); err != nil {
		return State{}, err
	}
	var info *jetstream.StreamInfo
	err := s.failOnDenial(ctx, apiInfo+stream, func(ctx context.Context) error {
		found, err := s.stream(ctx, stream)
		if err == nil {
			info = found.CachedInfo()
		}
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return State{}, missingStreamError(stream)
	}
	if err != nil {
		return State{}, fmt.Errorf("check stream %s: %w", stream, err)
	}
	st := State{
		Created: info.Created, First: info.State.FirstSeq, Last: info.State.LastSeq, Messages: info.State.Msgs, Bytes: info.State.Bytes,
		FirstTime: info.State.FirstTime, LastTime: info.State.LastTime,
	}
	if st.Messages == 0 { // the server says 0 for a new stream
		st.First = st.Last + 1
	}
	return st, nil
}

// ExplainNoResponders returns why a direct get of a stream got no answer: an error that
// wraps [jetstream.ErrStreamNotFound] where there is no such stream, and otherwise
// [ErrUnreachable], as while a server starts or a stream has no leader. An err that does not
// wrap [nats.ErrNoResponders] is returned as it is.
func (s *Session) ExplainNoResponders(ctx context.Context, stream string, err error) error {
	if !errors.Is(err, nats.ErrNoResponders) {
		return err
	}
	if _, missing := s.State(ctx, stream); errors.Is(missing, jetstream.ErrStreamNotFound) {
		return missing
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// stream asks for a stream, within stateTimeout.
func (s *Session) stream(ctx context.Context, name string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	return s.JS.Stream(ctx, name)
}

// Read returns the messages of a stream from a sequence on, oldest first: at most limit
// messages, and at most 16 MiB. It takes one round trip and makes no consumer. In a
// cluster a replica may answer that does not have the newest messages yet; it never lacks
// an older one. The error wraps [context.DeadlineExceeded] when nothing arrived for 5 s: an
// answer that was lost with a server never comes.
func (s *Session) Read(ctx context.Context, stream string, from uint64, limit int) ([]Message, error) {
	return s.read(ctx, stream, getRequest{Seq: max(from, 1), Batch: limit, MaxBytes: maxReadBytes})
}

// ReadSubject is [Session.Read] of the messages whose subject matches, which may have
// wildcards. Pending counts those.
func (s *Session) ReadSubject(ctx context.Context, stream, subject string, from uint64, limit int) ([]Message, error) {
	return s.read(ctx, stream, getRequest{Seq: max(from, 1), NextFor: subject, Batch: limit, MaxBytes: maxReadBytes})
}

func (s *Session) read(ctx context.Context, stream string, get getRequest) ([]Message, error) {
	if err := s.checkUsable(); err != nil {
		return nil, err
	}
	limit := get.Batch
	request, err := encode(get)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	answers := make(chan *nats.Msg, limit+1) // the end is a message too
	inbox := s.NC.NewInbox()
	sub, err := s.NC.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	// It fails only without a connection, and then the subscription is gone as well.
	defer func() { _ = sub.Unsubscribe() }()
	var msgs []Message
	err = s.failOnDenial(ctx, apiDirectGet+stream, func(ctx context.Context) error {
		if err := s.NC.PublishRequest(apiDirectGet+stream, inbox, request); err != nil {
			return err
		}
		msgs, err = collectBatch(ctx, answers)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	return msgs, nil
}

// collectBatch receives the messages of a batch up to the answer that ends it. It gives up
// when none arrives within requestTimeout.
func collectBatch(ctx context.Context, answers <-chan *nats.Msg) ([]Message, error) {
	var msgs []Message
	idle := time.NewTimer(requestTimeout)
	defer idle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-idle.C:
			return nil, fmt.Errorf("no answer within %s: %w", requestTimeout, context.DeadlineExceeded)
		case m := <-answers:
			idle.Reset(requestTimeout)
			switch m.Header.Get("Status") {
			case "":
			case statusEnd, statusEmpty:
				return msgs, nil
			default:
				return nil, answerError(m)
			}
			stored, err := batchMessage(m)
			if err != nil {
				return nil, err
			}
			msgs = append(msgs, stored)
		}
	}
}

// Range names messages of a stream by their sequences.
type Range struct {
	Stream string
	// First and Last bound the sequences, both included. With Last 0 the range is all
	// that the stream holds when reading starts.
	First, Last uint64
	// Since leaves out messages that arrived before; a backward reading ends at one.
	Since time.Time
	// Backwards reads the newest message first.
	Backwards bool
	// Batch is how many messages one request asks for; 0 means 500.
	Batch int
	// Timeout bounds one request, 0 means as [Session.Read] does.
	Timeout time.Duration
}

// Range calls handle for every message of a range, in order. It reads by direct gets: it
// makes no consumer, and in a cluster it may miss the newest messages, see
// [Session.Read]. It ends without an error when handle returns [ErrStop]. Other errors
// are those of handle and of Read.
func (s *Session) Range(ctx context.Context, r Range, handle func(Message) error) error {
	if r.Batch == 0 {
		r.Batch = defaultBatch
	}
	if r.Last == 0 {
		st, err := s.State(ctx, r.Stream)
		if err != nil {
			return err
		}
		r.First, r.Last = max(r.First, st.First), st.Last
	}
	r.First = max(r.First, 1)
	var err error
	if r.Backwards {
		err = s.rangeBackwards(ctx, r, handle)
	} else {
		err = s.rangeForwards(ctx, r, handle)
	}
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

func (s *Session) rangeForwards(ctx context.Context, r Range, handle func(Message) error) error {
	for from := r.First; from <= r.Last; {
		msgs, err := s.readBatch(ctx, r, from)
		if err != nil {
			return err
		}
		for _, m := range msgs {
			if m.Seq > r.Last {
				return nil
			}
			from = m.Seq + 1
			if m.Time.Before(r.Since) {
				continue
			}
			if err := handle(m); err != nil {
				return err
			}
		}
		if len(msgs) == 0 || msgs[len(msgs)-1].Pending == 0 {
			return nil
		}
	}
	return nil
}

// readBatch sends one request of a range.
func (s *Session) readBatch(ctx context.Context, r Range, from uint64) ([]Message, error) {
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	return s.Read(ctx, r.Stream, from, int(min(uint64(r.Batch), r.Last-from+1)))
}

// rangeBackwards reads spans of Batch sequences, the last one first.
func (s *Session) rangeBackwards(ctx context.Context, r Range, handle func(Message) error) error {
	for last := r.Last; last >= r.First; {
		first := max(r.First, last-min(last-1, uint64(r.Batch)-1))
		var span []Message
		err := s.rangeForwards(ctx, Range{Stream: r.Stream, First: first, Last: last, Batch: r.Batch, Timeout: r.Timeout}, func(m Message) error {
			span = append(span, m)
			return nil
		})
		if err != nil {
			return err
		}
		for _, m := range slices.Backward(span) {
			if m.Time.Before(r.Since) {
				return nil
			}
			if err := handle(m); err != nil {
				return err
			}
		}
		last = first - 1
	}
	return nil
}

// Newest returns the newest message of a stream whose subject matches, which may have
// wildcards, and whether there is one. Its Pending is not set. In a cluster a replica may
// answer that does not have the newest message yet. The error wraps [ErrDenied] where the
// role may not read the stream.
func (s *Session) Newest(ctx context.Context, stream, subject string) (m Message, found bool, err error) {
	if err := s.checkUsable(); err != nil {
		return m, false, err
	}
	request, err := encode(getRequest{LastFor: subject})
	if err != nil {
		return m, false, fmt.Errorf("read the newest message of stream %s: %w", stream, err)
	}
	answer, err := s.request(ctx, apiDirectGet+stream, request)
	if err != nil {
		return m, false, fmt.Errorf("read the newest message of stream %s: %w", stream, err)
	}
	switch answer.Header.Get("Status") {
	case "":
		m, err = storedMessage(answer)
		return m, err == nil, err
	case statusEmpty:
		return m, false, nil
	default:
		return m, false, fmt.Errorf("read the newest message of stream %s: %w", stream, answerError(answer))
	}
}

// NewestAtLeader is [Session.Newest] as the leader of the stream answers: it has every
// message that was acknowledged. It costs the leader more than a direct get. While a stream
// has no leader the error wraps [ErrUnreachable] or the cause of ctx.
func (s *Session) NewestAtLeader(ctx context.Context, stream, subject string) (m Message, found bool, err error) {
	if err := s.checkUsable(); err != nil {
		return m, false, err
	}
	request, err := encode(getRequest{LastFor: subject})
	if err != nil {
		return m, false, fmt.Errorf("read the newest message of stream %s: %w", stream, err)
	}
	answer, err := s.request(ctx, apiGet+stream, request)
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if err != nil {
		return m, false, fmt.Errorf("read the newest message of stream %s: %w", stream, err)
	}
	var got struct {
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return m, false, fmt.Errorf("read the newest message of stream %s: %w", stream, err)
	}
	switch {
	case got.Error != nil && got.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return m, false, nil
	case got.Error != nil:
		return m, false, fmt.Errorf("read the newest message of stream %s: %w", stream, got.Error)
	case got.Message == nil:
		return m, false, fmt.Errorf("read the newest message of stream %s: an answer without a message", stream)
	}
	m = Message{Subject: got.Message.Subject, Data: got.Message.Data, Seq: got.Message.Seq, Time: got.Message.Time}
	if len(got.Message.Header) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(got.Message.Header); err != nil {
			return m, false, fmt.Errorf("read the newest message of stream %s: %w", stream, err)
		}
	}
	return m, true, nil
}

// Subjects returns the subjects of a stream's messages that match, which may have wildcards, and how
// many messages each has. It is for subjects that are few enough to be held in memory.
func (s *Session) Subjects(ctx context.Context, stream, matching string) (map[string]uint64, error) {
	if err := s.checkUsable(); err != nil {
		return nil, err
	}
	var info *jetstream.StreamInfo
	err := s.failOnDenial(ctx, apiInfo+stream, func(ctx context.Context) error {
		found, err := s.stream(ctx, stream)
		if err == nil {
			info, err = found.Info(ctx, jetstream.WithSubjectFilter(matching))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the subjects of stream %s: %w", stream, err)
	}
	return info.State.Subjects, nil
}

// Purge deletes all messages of a stream whose subject matches, which may have wildcards.
func (s *Session) Purge(ctx context.Context, stream, subject string) error {
	if err := s.checkUsable(); err != nil {
		return err
	}
	request, err := encode(purgeRequest{Subject: subject})
	if err != nil {
		return fmt.Errorf("purge %s of stream %s: %w", subject, stream, err)
	}
	m, err := s.request(ctx, apiPurge+stream, request)
	if err != nil {
		return fmt.Errorf("purge %s of stream %s: %w", subject, stream, err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("purge %s of stream %s: %w", subject, stream, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("purge %s of stream %s: %w", subject, stream, answer.Error)
	}
	return nil
}

// Contains reports whether a stream holds a message of a subject. In a cluster a replica
// may answer that does not have the newest message yet.
func (s *Session) Contains(ctx context.Context, stream, subject string) (bool, error) {
	if err := s.checkUsable(); err != nil {
		return false, err
	}
	m, err := s.request(ctx, apiDirectGet+stream+"."+subject, nil)
	if err != nil {
		return false, fmt.Errorf("check for %s in stream %s: %w", subject, stream, err)
	}
	switch m.Header.Get("Status") {
	case "":
		return true, nil
	case statusEmpty:
		return false, nil
	default:
		return false, fmt.Errorf("check for %s in stream %s: %w", subject, stream, answerError(m))
	}
}

// Republished returns the message of a stream within one that the stream republished, see
// AllLiveAlerts and AllLiveNotices. Its Subject is that in the stream. A message on any
// other subject than the stream's own with the prefix is refused: a dashboard may have the
// answer to a request sent to where the others listen.
func Republished(m *nats.Msg) (Message, error) {
	stored, err := storedMessage(m)
	if err == nil && m.Subject != livePrefix+stored.Subject {
		err = fmt.Errorf("a message stored as %s came on %s", stored.Subject, m.Subject)
	}
	if err != nil {
		return stored, fmt.Errorf("read a republished message: %w", err)
	}
	return stored, nil
}

// Delete deletes one message of a stream. It is no error when the message does not exist:
// another process may have deleted it.
func (s *Session) Delete(ctx context.Context, stream string, seq uint64) error {
	if err := s.checkUsable(); err != nil {
		return err
	}
	// The message holds no secret, so its bytes on the disk need not be overwritten.
	request, err := encode(deleteRequest{Seq: seq, NoErase: true})
	if err != nil {
		return fmt.Errorf("delete message %d of stream %s: %w", seq, stream, err)
	}
	m, err := s.request(ctx, apiDelete+stream, request)
	if err != nil {
		return fmt.Errorf("delete message %d of stream %s: %w", seq, stream, err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("delete message %d of stream %s: %w", seq, stream, err)
	}
	if answer.Error != nil && !notFound(answer.Error) {
		return fmt.Errorf("delete message %d of stream %s: %w", seq, stream, answer.Error)
	}
	return nil
}

// notFound reports whether a message could not be deleted because it does not exist. The
// store has no code for that, and other words below the oldest message than between two.
func notFound(e *jetstream.APIError) bool {
	return e.ErrorCode == codeSequenceNotFound ||
		strings.Contains(e.Description, storeNoMessage) || strings.Contains(e.Description, storeEOF)
}
