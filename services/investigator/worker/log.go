package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

// fold gives facts their time, folds them as they will be read, and returns them.
func (r *run) fold(facts []session.Fact) ([]session.Fact, error) {
	if len(facts) == 0 {
		return nil, nil
	}
	facts = slices.Clone(facts)
	for i := range facts {
		if facts[i].Time.IsZero() {
			facts[i].Time = now()
		}
		facts[i].Time = facts[i].Time.UTC().Round(0)
	}
	data, err := session.Encode(facts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errInternal, err)
	}
	if facts, err = session.Decode(data); err != nil {
		return nil, fmt.Errorf("%w: %w", errInternal, err)
	}
	r.stale = true
	if err := r.s.Assume(facts); err != nil {
		return nil, fmt.Errorf("%w: %w", errInternal, err)
	}
	return facts, nil
}

// store appends facts that were folded. It is false where others appended before: the state is
// then the stored one. It tries until ctx ends.
func (r *run) store(ctx context.Context, facts []session.Fact) (bool, error) {
	for len(facts) > 0 {
		data, n, err := encode(facts)
		if err != nil {
			return false, err
		}
		stored, err := r.append(ctx, data)
		if !stored || err != nil {
			return false, err
		}
		if facts = facts[n:]; len(facts) > 0 && r.reread { // the state lacks the others
			return false, nil
		}
	}
	r.s.Stored(r.last)
	r.stale = false
	return true, nil
}

// encode returns the message with as many of the facts as it may have, and their number.
func encode(facts []session.Fact) (data []byte, n int, err error) {
	for n = len(facts); n > 0; n /= 2 {
		if data, err = session.Encode(facts[:n]); err != nil {
			return nil, 0, fmt.Errorf("%w: %w", errInternal, err)
		}
		if len(data) <= journal.MaxMessage {
			return data, n, nil
		}
	}
	return nil, 0, fmt.Errorf("%w: a fact of %d bytes can't be stored: a message may have %d", errInternal, len(data), journal.MaxMessage)
}

// append appends one message. It is false where others appended before.
func (r *run) append(ctx context.Context, data []byte) (bool, error) {
	pause, begin := minPause, time.Now()
	for {
		seq, err := r.cfg.Journal.Append(ctx, r.id, r.last, data)
		switch {
		case err == nil:
			r.last, r.read = seq, time.Now()
			if pause > minPause {
				r.log.Info("the facts are stored", "after", time.Since(begin))
			}
			return true, nil
		case errors.Is(err, journal.ErrConflict):
			return r.conflict(ctx, data)
		case errors.Is(err, journal.ErrTooLarge), errors.Is(err, journal.ErrSession):
			return false, fmt.Errorf("%w: %w", errInternal, err)
		case ctx.Err() != nil:
			return false, errDrained
		}
		if pause == minPause {
			r.log.Warn("cannot store facts; it is tried again", "error", err)
		}
		sleep(ctx, pause)
		pause = min(2*pause, maxPause)
		// The message may be stored all the same.
		if newer, err := r.cfg.Journal.Read(ctx, r.id, r.last); err == nil && len(newer) > 0 {
			return r.conflict(ctx, data)
		}
	}
}

// conflict reads what others appended, and reports whether data is among it.
func (r *run) conflict(ctx context.Context, data []byte) (bool, error) {
	before := r.last
	messages, err := r.readAll(ctx)
	if err != nil {
		return false, err
	}
	ours := false
	for _, m := range messages {
		switch {
		case m.Seq <= before:
		case bytes.Equal(m.Data, data): // the acknowledgement was lost
			ours = true
		case r.replaces(m):
			return ours, errReplaced
		}
	}
	if !ours {
		r.cfg.Observer.Conflict()
	}
	return ours, r.become(messages)
}

// replaces reports whether a message has the claim of another worker.
func (r *run) replaces(m journal.Message) bool {
	facts, err := session.Decode(m.Data)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(facts, func(f session.Fact) bool {
		return f.Claimed != nil && f.Claimed.Worker != r.cfg.Name && f.Claimed.Epoch >= r.epoch
	})
}

// sync reads what others appended, where something was announced, the last look is long ago, or
// a new claim begins.
func (r *run) sync(ctx context.Context) error {
	r.mu.Lock()
	newest := r.newest
	r.mu.Unlock()
	if newest <= r.last && time.Since(r.read) < pollInterval {
		return nil
	}
	messages, err := r.cfg.Journal.Read(ctx, r.id, r.last)
	if err != nil {
		if ctx.Err() != nil {
			return errDrained
		}
		// Appends wait for the bus. Until then the poll comes again.
		r.log.Debug("cannot read what is new of the session", "error", err)
		r.read = time.Now()
		return nil
	}
	r.read = time.Now()
	for _, m := range messages {
		if r.replaces(m) {
			return errReplaced
		}
		r.apply(r.s, m)
		r.last, r.reread = m.Seq, true
	}
	return nil
}

// load folds the stored messages.
func (r *run) load(ctx context.Context) error {
	messages, err := r.readAll(ctx)
	if err != nil {
		return err
	}
	return r.become(messages)
}

// become replaces the state by that of all stored messages.
func (r *run) become(messages []journal.Message) error {
	s, err := foldAll(messages)
	if err != nil {
		return err
	}
	r.s, r.messages, r.stale, r.reread, r.read = s, messages, false, true, time.Now()
	r.last = messages[len(messages)-1].Seq
	return nil
}

// readAll reads the whole log. It tries until ctx ends.
func (r *run) readAll(ctx context.Context) ([]journal.Message, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		messages, err := r.cfg.Journal.Read(ctx, r.id, 0)
		switch {
		case err == nil && len(messages) > 0:
			return messages, nil
		case err == nil:
			return nil, errOver // the session was deleted
		case ctx.Err() != nil:
			return nil, errDrained
		}
		if pause == minPause {
			r.log.Warn("cannot read the session; it is tried again", "error", err)
		}
		sleep(ctx, pause)
	}
}

// foldAll folds all messages of a session.
func foldAll(messages []journal.Message) (*session.Session, error) {
	s := &session.Session{}
	for _, m := range messages {
		facts, err := session.Decode(m.Data)
		if err == nil {
			err = s.Apply(facts, m.Seq)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: message %d: %w", errInternal, m.Seq, err)
		}
	}
	return s, nil
}

// apply folds a message of another writer.
func (r *run) apply(s *session.Session, m journal.Message) {
	facts, err := session.Decode(m.Data)
	if err == nil {
		err = s.Apply(facts, m.Seq)
	}
	if err != nil {
		panic(err) // protect makes it an internal error
	}
}
