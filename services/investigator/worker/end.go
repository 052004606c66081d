package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

// finish runs the hook of the end.
func (r *run) finish(abort context.Context) error {
	r.stop()
	if !finished(abort, &r.starting) {
		return errDrained
	}
	if !r.call(abort, "ended", r.cfg.Ended, r.s) {
		return errDrained
	}
	return nil
}

// call calls a hook until it succeeds. It is false where ctx ends before.
func (r *run) call(ctx context.Context, name string, hook Hook, s *session.Session) bool {
	begin := time.Now()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := r.protect(func() error {
			once, cancel := context.WithTimeout(ctx, hookTimeout)
			defer cancel()
			return hook(once, s)
		})
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case time.Since(begin) > hookPatience:
			r.log.Error("what follows from the session's state is left out", "hook", name, "error", err)
			return true
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
		if slices.ContainsFunc(messages, func(m journal.Message) bool { return m.Seq > r.last && r.replaces(m) }) {
			return errReplaced
		}
		r.last = messages[len(messages)-1].Seq
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
		err = r.protect(func() error {
			if err := r.load(abort); err != nil {
				return err
			}
			r.observe([]session.Fact{{Time: now(), Ended: &session.Ended{Status: session.StatusFailed}}})
			return r.finish(abort)
		})
		if errors.Is(err, errInternal) {
			return errOver // no worker can fold it: it leaves the queue
		}
		return err
	}
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
