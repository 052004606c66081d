package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Bounds of changing a document.
const (
	// maxUpdates is how many attempts Update makes while other processes write too.
	maxUpdates = 10
	// minUpdatePause and maxUpdatePause bound the pause between two attempts, which
	// doubles: a replica that answers a read may lag behind the leader.
	minUpdatePause = 20 * time.Millisecond
	maxUpdatePause = 200 * time.Millisecond
)

// ErrUnchanged is returned by the function given to [Document.Update] to leave the
// document as it is.
var ErrUnchanged = errors.New("nothing to change")

// Document is one key of a bucket, changed by compare-and-set alone. It is safe for
// concurrent use.
type Document struct {
	session     *Session
	bucket, key string
}

// Entry is a document as it is stored.
type Entry struct {
	// Data is nil where the document does not exist.
	Data []byte
	// Revision is what the next write must name. It is 0 where the key was never written;
	// a deleted document has one.
	Revision uint64
	// Written is when the bus stored it, zero where the document does not exist.
	Written time.Time
}

// Exists reports whether there is a document.
func (e Entry) Exists() bool { return !e.Written.IsZero() }

// Document returns the document of a key. It asks the bus nothing.
func (s *Session) Document(bucket, key string) Document { return Document{s, bucket, key} }

func (d Document) subject() string { return keyPrefix(d.bucket) + d.key }

// keyPrefix is what the subjects of a bucket's keys begin with.
func keyPrefix(bucket string) string { return "$KV." + bucket + "." }

// Get reads the document, in one round trip. It is no error when the document does not
// exist. In a cluster a replica may answer that does not have the newest revision yet.
func (d Document) Get(ctx context.Context) (Entry, error) {
	if err := d.session.checkUsable(); err != nil {
		return Entry{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := d.session.request(ctx, apiDirectGet+kvPrefix+d.bucket+"."+d.subject(), nil)
	if err != nil {
		return Entry{}, d.wrap("read", err)
	}
	switch answer.Header.Get("Status") {
	case "":
	case statusEmpty:
		return Entry{}, nil
	default:
		return Entry{}, d.wrap("read", answerError(answer))
	}
	m, err := storedMessage(answer)
	if err != nil {
		return Entry{}, d.wrap("read", err)
	}
	if m.Deleted() {
		return Entry{Revision: m.Seq}, nil
	}
	return Entry{Data: m.Data, Revision: m.Seq, Written: m.Time}, nil
}

// Update replaces the document by what change returns for its present entry, and returns
// the new one. It makes up to 10 attempts while other processes write too, so change may be
// called several times; then the error wraps [ErrConflict]. An error of change is returned
// as it is, but for [ErrUnchanged], with which the present entry is returned. After any
// other error the document may have been written.
func (d Document) Update(ctx context.Context, change func(old Entry) ([]byte, error)) (Entry, error) {
	pause := minUpdatePause
	for attempt := 1; ; attempt++ {
		old, err := d.Get(ctx)
		if err != nil {
			return Entry{}, err
		}
		data, err := change(old)
		if errors.Is(err, ErrUnchanged) {
			return old, nil
		}
		if err != nil {
			return Entry{}, err
		}
		revision, err := d.Write(ctx, data, old.Revision)
		if err == nil {
			return Entry{Data: data, Revision: revision, Written: time.Now()}, nil
		}
		if attempt == maxUpdates || !errors.Is(err, ErrConflict) {
			return Entry{}, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return Entry{}, d.wrap("write", context.Cause(ctx))
		case <-timer.C:
		}
		pause = min(2*pause, maxUpdatePause)
	}
}

// Write replaces the document if its revision is still the given one, in one attempt, and
// returns the new revision. The error wraps [ErrConflict] where it is not.
func (d Document) Write(ctx context.Context, data []byte, revision uint64) (uint64, error) {
	return d.publish(ctx, &nats.Msg{Subject: d.subject(), Data: data}, revision)
}

// Delete deletes the document if its revision is still the given one. The error wraps
// [ErrConflict] where it is not.
func (d Document) Delete(ctx context.Context, revision uint64) error {
	m := nats.NewMsg(d.subject())
	m.Header.Set(headerOperation, operationDelete)
	_, err := d.publish(ctx, m, revision)
	return err
}

func (d Document) publish(ctx context.Context, m *nats.Msg, revision uint64) (uint64, error) {
	if err := d.session.checkUsable(); err != nil {
		return 0, err
	}
	var ack *jetstream.PubAck
	err := d.session.failOnDenial(ctx, m.Subject, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		ack, err = d.session.JS.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision))
		return err
	})
	if err != nil {
		if Conflict(err) {
			err = fmt.Errorf("%w: %w", ErrConflict, err)
		}
		return 0, d.wrap("write", err)
	}
	return ack.Sequence, nil
}

func (d Document) wrap(doing string, err error) error {
	return fmt.Errorf("%s %s of bucket %s: %w", doing, d.key, d.bucket, err)
}

// Conflict reports whether a write failed because another process wrote in between. A
// stream with several replicas has another error code for it than one with a single
// replica, and each of the client's own errors covers only some of the cases.
func Conflict(err error) bool {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, ErrConflict), errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return true
	case errors.As(err, &api):
		return api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant
	}
	return false
}
