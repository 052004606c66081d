package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// maxStoredBytes bounds what one Stored returns, but for its last message.
const maxStoredBytes = 16 * mib

// Stored reads what a small stream holds now, as StoredFrom does from its first
// message on.
func (c *Conn) Stored(ctx context.Context, stream string, limit int) ([]Message, error) {
	return c.StoredFrom(ctx, stream, 1, limit)
}

// StoredFrom reads what a stream holds now from a place on, oldest first: at most
// limit messages, and no more than 16 MiB of them. It takes one round trip and
// makes no consumer. In a cluster a replica may answer, which may not have the
// newest messages yet; it never lacks an older one. It returns ErrAway, or says
// what the bus answered; a bus that does not answer is waited for until ctx ends.
func (c *Conn) StoredFrom(ctx context.Context, stream string, seq uint64, limit int) ([]Message, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	ask, err := json.Marshal(getRequest{Seq: max(seq, 1), Batch: limit, MaxBytes: maxStoredBytes})
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	answers := make(chan *nats.Msg, limit+1) // the end is a message too
	inbox := c.NC.NewInbox()
	sub, err := c.NC.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	// A failure says that the connection is gone, and the subscription with it.
	defer func() { _ = sub.Unsubscribe() }()
	var msgs []Message
	err = c.allowed(ctx, apiDirectGet+stream, func(ctx context.Context) error {
		if err := c.NC.PublishRequest(apiDirectGet+stream, inbox, ask); err != nil {
			return err
		}
		msgs, err = collect(ctx, answers)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	return msgs, nil
}

// collect takes messages up to the one that says that there are no more.
func collect(ctx context.Context, answers <-chan *nats.Msg) ([]Message, error) {
	var msgs []Message
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case m := <-answers:
			switch status := m.Header.Get("Status"); status {
			case "":
			case statusEnd, statusEmpty:
				return msgs, nil
			case statusNoResponders:
				return nil, fmt.Errorf("the bus answered %s: %w", status, nats.ErrNoResponders)
			default:
				return nil, fmt.Errorf("the bus answered %s %s", status, m.Header.Get("Description"))
			}
			stored, err := direct(m)
			if err != nil {
				return nil, err
			}
			msgs = append(msgs, stored)
		}
	}
}

// direct is the message within an answer.
func direct(m *nats.Msg) (Message, error) {
	pending, err := strconv.ParseUint(m.Header.Get(headerPending), 10, 64)
	if err != nil { // servers before 2.11 answer with one message and no end
		return Message{}, errors.New("the NATS server is too old to read many messages at once: 2.11 does")
	}
	stored, err := placed(m)
	stored.Pending = pending
	return stored, err
}

// placed is the message within an answer, with its place in the stream.
func placed(m *nats.Msg) (Message, error) {
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return Message{}, fmt.Errorf("an answer without a sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return Message{}, fmt.Errorf("an answer without a time: %w", err)
	}
	return Message{
		Subject: m.Header.Get(jetstream.SubjectHeader), Header: m.Header, Data: m.Data,
		Seq: seq, Time: at,
	}, nil
}

// Republished is the message of a stream that it has published again, as those of
// AllLiveAlerts and AllLiveNotices. Its Subject is that in the stream. What came on
// another subject than the stream's own, prefixed, is refused: a dashboard may have the
// answer to a question sent to where the others listen.
func Republished(m *nats.Msg) (Message, error) {
	stored, err := placed(m)
	if err == nil && m.Subject != livePrefix+stored.Subject {
		err = fmt.Errorf("what was stored as %s came on %s", stored.Subject, m.Subject)
	}
	if err != nil {
		return stored, fmt.Errorf("read what a stream has republished: %w", err)
	}
	return stored, nil
}

// Last reads the newest message of a stream whose subject matches, which may have
// wildcards, and says whether there is one. What comes after it is not counted. In a
// cluster a replica may answer, which may not have the newest messages yet. Its
// errors are those of Stored, and ErrDenied where the role may not read the stream.
func (c *Conn) Last(ctx context.Context, stream, subject string) (m Message, found bool, err error) {
	if err := c.usable(); err != nil {
		return m, false, err
	}
	ask, err := json.Marshal(getRequest{LastFor: subject})
	if err != nil {
		return m, false, fmt.Errorf("read the end of stream %s: %w", stream, err)
	}
	var answer *nats.Msg
	err = c.allowed(ctx, apiDirectGet+stream, func(ctx context.Context) error {
		answer, err = c.NC.RequestWithContext(ctx, apiDirectGet+stream, ask)
		return err
	})
	if err != nil {
		return m, false, fmt.Errorf("read the end of stream %s: %w", stream, err)
	}
	switch status := answer.Header.Get("Status"); status {
	case "":
		m, err = placed(answer)
		return m, err == nil, err
	case statusEmpty:
		return m, false, nil
	default:
		return m, false, fmt.Errorf("read the end of stream %s: the bus answered %s %s", stream, status, answer.Header.Get("Description"))
	}
}

// Has says whether a stream holds a message of a subject. In a cluster a replica
// may answer, which may not have the newest messages yet. Its errors are those
// of Stored.
func (c *Conn) Has(ctx context.Context, stream, subject string) (bool, error) {
	if err := c.usable(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m, err := c.request(ctx, apiDirectGet+stream+"."+subject, nil)
	if err != nil {
		return false, fmt.Errorf("look for %s in stream %s: %w", subject, stream, err)
	}
	switch status := m.Header.Get("Status"); status {
	case "":
		return true, nil
	case statusEmpty:
		return false, nil
	default:
		return false, fmt.Errorf("look for %s in stream %s: the bus answered %s %s", subject, stream, status, m.Header.Get("Description"))
	}
}

// request asks, and is told at once when the role may not.
func (c *Conn) request(ctx context.Context, subject string, ask []byte) (m *nats.Msg, err error) {
	err = c.allowed(ctx, subject, func(ctx context.Context) error {
		m, err = c.NC.RequestWithContext(ctx, subject, ask)
		return err
	})
	return m, err
}

// Delete removes one message of a stream. One that is not there any more is
// fine: another process may have been faster.
func (c *Conn) Delete(ctx context.Context, stream string, seq uint64) error {
	if err := c.usable(); err != nil {
		return err
	}
	// Overwriting its bytes on the disk would cost more and is not what is wanted.
	ask, err := json.Marshal(deleteRequest{Seq: seq, NoErase: true})
	if err != nil {
		return fmt.Errorf("delete message %d of stream %s: %w", seq, stream, err)
	}
	m, err := c.request(ctx, apiDelete+stream, ask)
	if err != nil {
		return fmt.Errorf("delete message %d of stream %s: %w", seq, stream, err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("delete message %d of stream %s: %w", seq, stream, err)
	}
	if answer.Error != nil && !gone(answer.Error) {
		return fmt.Errorf("delete message %d of stream %s: %w", seq, stream, answer.Error)
	}
	return nil
}

// gone says whether a message could not be deleted because it isn't there. The
// store says so in words only, and otherwise below the oldest message than
// between two.
func gone(e *jetstream.APIError) bool {
	return e.ErrorCode == codeSequenceNotFound ||
		strings.Contains(e.Description, storeNoMessage) ||
		strings.Contains(e.Description, storeEOF)
}
