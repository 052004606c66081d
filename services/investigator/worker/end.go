package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

// finish runs the hook of the end, after that of the start. Neither holds the session's place for
// long: a hook of the start that takes longer is cancelled, and after a hook of the end that fails
// the session goes to the end of the queue. Its place in the queue is the record that the hook of the
// end is still to be called, whichever process ends.
func (r *run) finish(abort context.Context) error {
	r.stop()
	if !r.started(abort) {
		r.stopStarting()
		if !r.started(abort) {
			r.log.Warn("the hook of the session's start does not end; its end does not wait for it")
		}
	}
	over := false
	done := r.turn(abort, func(ctx context.Context, _ *session.Session) error {
		// It may have been started again since it ended, by a request or an earlier try.
		messages, err := r.cfg.Journal.Read(ctx, r.id, 0)
		if err != nil {
			return fmt.Errorf("read the session: %w", err)
		}
		if over = len(messages) == 0; over {
			return nil
		}
		if err := r.become(messages); err != nil {
			return err
		}
		if over = !r.s.Ended() || r.s.Attempt() > r.claim.Attempt(); over {
			return nil
		}
		return r.cfg.Ended(ctx, r.s)
	}, r.s)
	switch {
	case over:
		return errOver
	case done:
		return nil
	}
	return r.postpone(abort)
}

// postpone returns what becomes of a session whose hook of the end failed: [errPostponed], nil where it
// failed too often, or [errDrained].
func (r *run) postpone(abort context.Context) error {
	switch {
	case abort.Err() != nil:
		return errDrained
	case r.claim.Requeued() >= maxTurns:
		r.log.Error("what follows from the session's end is left out: its hook failed too often", "turns", r.claim.Requeued())
		return nil
	}
	return errPostponed
}

// turn calls the hook of the end: until it succeeds or [hookTurn] is over, and once where the session
// was put back before. It is false where the hook failed.
func (r *run) turn(abort context.Context, hook Hook, s *session.Session) bool {
	if r.claim.Requeued() == 0 {
		ctx, cancel := context.WithTimeout(abort, hookTurn)
		defer cancel()
		return r.call(ctx, "ended", hook, s)
	}
	err := r.once(abort, hook, s)
	if err == nil {
		return true
	}
	level := slog.LevelDebug
	if r.claim.Requeued()%loggedTurns == 0 {
		level = slog.LevelWarn
	}
	r.log.Log(abort, level, "what follows from the session's end failed again; it stays in the queue", "turns", r.claim.Requeued(), "error", err)
	sleep(abort, maxPause) // no session may wait, and then it is claimed again at once
	return false
}

// once calls a hook once.
func (r *run) once(ctx context.Context, hook Hook, s *session.Session) error {
	return r.protect(func() error {
		ctx, cancel := context.WithTimeout(ctx, hookTimeout)
		defer cancel()
		return hook(ctx, s)
	})
}

// started waits for the hook of the start, and reports whether it is done.
func (r *run) started(abort context.Context) bool {
	ctx, cancel := context.WithTimeout(abort, hookTimeout)
	defer cancel()
	return finished(ctx, &r.starting)
}

// call calls a hook until it succeeds. It is false where ctx ends before.
func (r *run) call(ctx context.Context, name string, hook Hook, s *session.Session) bool {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := r.once(ctx, hook, s)
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case pause == minPause:
			r.log.Warn("what follows from the session's state failed; it is tried again", "hook", name, "error", err)
		}
		sleep(ctx, pause)
	}
}

// fail ends the session after an error of the engine. It does not use the state, whose fold may
// be what failed.
func (r *run) fail(ctx, abort context.Context, cause error) error {
	r.stop()
	text := r.mask(cause.Error())
	for {
		messages, err := r.readAll(abort)
		if err != nil {
			return err
		}
		// Claims from before its own are no reason to stop; it has none where the first fold failed.
		if r.epoch > 0 && slices.ContainsFunc(messages, func(m journal.Message) bool { return m.Seq > r.last && r.replaces(m) }) {
			return errReplaced
		}
		r.last = messages[len(messages)-1].Seq
		if hasEnd(messages[len(messages)-1]) { // an earlier try stored it
			return r.finishFailed(abort, messages, text)
		}
		data, err := session.Encode([]session.Fact{{Time: now(), Ended: &session.Ended{Status: session.StatusFailed, Error: text}}})
		if err != nil {
			return err
		}
		seq, err := r.cfg.Journal.Append(abort, r.id, r.last, data)
		switch {
		case err == nil:
			r.last = seq
		case ctx.Err() != nil:
			return errDrained
		case errors.Is(err, journal.ErrConflict):
			continue
		default:
			sleep(abort, maxPause)
			continue
		}
		r.observe([]session.Fact{{Time: now(), Ended: &session.Ended{Status: session.StatusFailed}}})
		return r.finishFailed(abort, messages, text)
	}
}

// hasEnd reports whether a message ends the session.
func hasEnd(m journal.Message) bool {
	facts, err := session.Decode(m.Data)
	return err == nil && slices.ContainsFunc(facts, func(f session.Fact) bool { return f.Ended != nil })
}

// finishFailed runs the hook of the end for a session that an error of the engine has ended.
func (r *run) finishFailed(abort context.Context, messages []journal.Message, reason string) error {
	err := r.protect(func() error {
		if err := r.load(abort); err != nil {
			return err
		}
		return r.finish(abort)
	})
	if errors.Is(err, errInternal) { // no worker can fold it
		return r.finishAbridged(abort, messages, reason)
	}
	return err
}

// finishAbridged runs the hook of the end for a session that can't be folded: for the session that
// its submission and its retries alone make, failed for the given reason.
func (r *run) finishAbridged(abort context.Context, messages []journal.Message, reason string) error {
	err := r.protect(func() error {
		s, err := abridge(messages, reason)
		if err == nil && !r.turn(abort, r.cfg.Ended, s) {
			return r.postpone(abort)
		}
		return err
	})
	switch {
	case err == nil, errors.Is(err, errPostponed), errors.Is(err, errDrained), errors.Is(err, errOver):
		return err
	}
	r.log.Error("what follows from the end of a session that can't be read is left out", "error", err)
	return errOver
}

// abridge folds the submission and the retries of a session, each attempt failed for the given
// reason. The error is [errOver] where the submission itself can't be read.
func abridge(messages []journal.Message, reason string) (*session.Session, error) {
	s, seq := &session.Session{}, uint64(0)
	apply := func(f session.Fact) error {
		seq++
		return s.Apply([]session.Fact{f}, seq)
	}
	end := session.Fact{Time: now(), Ended: &session.Ended{Status: session.StatusFailed, Error: reason}}
	for _, m := range messages {
		facts, err := session.Decode(m.Data)
		if err != nil {
			continue
		}
		for _, f := range facts {
			switch {
			case f.Submitted != nil && seq == 0:
				err = apply(f)
			case f.Retried != nil && seq > 0:
				if err = apply(end); err == nil {
					err = apply(f)
				}
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if seq == 0 {
		return nil, errOver
	}
	return s, apply(end)
}

// drain gives the session back in good order: with the outcomes that are there, and without
// waiting for those that are not.
func (r *run) drain(abort context.Context) {
	r.stop()
	end, cancel := context.WithTimeout(abort, endEffects)
	finished(end, &r.working)
	cancel()
	if r.s == nil || r.s.Ended() {
		return
	}
	err := r.protect(func() error {
		for range maxRounds {
			if r.stale {
				if err := r.load(abort); err != nil {
					return err
				}
			}
			if _, worker := r.s.Epoch(); worker != r.cfg.Name {
				return nil
			}
			taken, more := r.take()
			var facts []session.Fact
			for _, o := range taken {
				facts = append(facts, o.facts...)
			}
			if !more {
				facts = append(facts, session.Fact{Released: &session.Released{Epoch: r.epoch}})
			}
			folded, err := r.fold(facts)
			if err != nil {
				return err
			}
			stored, err := r.store(abort, folded)
			switch {
			case err != nil:
				return err
			case !stored:
				r.putBack(taken)
			case !more:
				return nil
			}
		}
		return errInternal
	})
	if err != nil {
		r.log.Warn("the session could not be given back in order; another worker takes it over", "error", err)
	}
}
