package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The subjects of JetStream's own interface that this package uses. A role may use them
// on a stream when its permissions list them.
const (
	apiDirectGet = "$JS.API.DIRECT.GET."
	apiDelete    = "$JS.API.STREAM.MSG.DELETE."
	apiInfo      = "$JS.API.STREAM.INFO."
	apiCreate    = "$JS.API.STREAM.CREATE."
	apiUpdate    = "$JS.API.STREAM.UPDATE."
	apiGet       = "$JS.API.STREAM.MSG.GET."
	apiPurge     = "$JS.API.STREAM.PURGE."
)

// Values of the header Status of an answer without a message.
const (
	statusEnd   = "204"
	statusEmpty = "404"
	// statusNoResponders means that the stream is missing or allows no direct gets.
	statusNoResponders = "503"
)

const (
	// headerPending is the number of messages that follow in a stream after one of a batch.
	headerPending = "Nats-Num-Pending"
	// headerOperation marks the message of a bucket with which a key was deleted or purged.
	headerOperation = "KV-Operation"
	operationDelete = "DEL"
	operationPurge  = "PURGE"
)

// Error codes of JetStream that the client library has no names for.
const (
	codeNoPeers              = 10005
	codeInsufficientResource = 10023
	codeSequenceNotFound     = 10043
	codeReplicasNotSupported = 10074
)

// Errors of the store that have no code of their own.
const (
	storeNoMessage = "no message found"
	storeEOF       = "stream store EOF"
)

// getRequest is a direct get: of Batch messages from Seq on, or of the newest message of
// the subject LastFor. NextFor limits a batch to the subjects that match it.
type getRequest struct {
	Seq      uint64 `json:"seq,omitempty"`
	LastFor  string `json:"last_by_subj,omitempty"`
	NextFor  string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// deleteRequest deletes one message of a stream.
type deleteRequest struct {
	Seq uint64 `json:"seq"`
	// NoErase leaves the bytes of the message on the disk until they are compacted.
	NoErase bool `json:"no_erase,omitempty"`
}

// request sends a request and returns its answer, within requestTimeout, or at once an error
// that wraps ErrDenied where the role may not publish to subject.
func (s *Session) request(ctx context.Context, subject string, data []byte) (m *nats.Msg, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err = s.failOnDenial(ctx, subject, func(ctx context.Context) error {
		m, err = s.NC.RequestWithContext(ctx, subject, data)
		return err
	})
	return m, err
}

// answerError is the error in an answer to a direct get whose status is none of those
// that are expected.
func answerError(m *nats.Msg) error {
	status := m.Header.Get("Status")
	if status == statusNoResponders {
		return fmt.Errorf("the bus answered %s: %w", status, nats.ErrNoResponders)
	}
	return fmt.Errorf("the bus answered %s %s", status, m.Header.Get("Description"))
}

// batchMessage returns the message within one answer of a batch.
func batchMessage(m *nats.Msg) (Message, error) {
	pending, err := strconv.ParseUint(m.Header.Get(headerPending), 10, 64)
	if err != nil { // servers before 2.11 answer with one message and no end
		return Message{}, errors.New("the NATS server is too old to read many messages at once: 2.11 or later is required")
	}
	stored, err := storedMessage(m)
	stored.Pending = pending
	return stored, err
}

// storedMessage returns the message within an answer, with its sequence and time in the
// stream.
func storedMessage(m *nats.Msg) (Message, error) {
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

// purgeRequest deletes the messages of the subjects that match.
type purgeRequest struct {
	Subject string `json:"filter"`
}

// encode marshals a request.
func encode(request any) ([]byte, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return data, nil
}
