package investigator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// claim makes a session the owner of the request's dedup_key. own is false where an open session is;
// then the alert has joined that one.
func (s *submitter) claim(ctx context.Context, r Request, id string) (joined Answer, own bool, err error) {
	if r.DedupKey == "" {
		return Answer{}, true, nil
	}
	for range maxReservations {
		owner, err := s.reserve(ctx, r.DedupKey, id, 1)
		if err != nil || owner == "" {
			return Answer{}, err == nil, err
		}
		joined, ended, err := s.join(ctx, owner, r)
		if !ended {
			return joined, false, err
		}
		// Its worker has not freed the key yet.
		if err := s.freeEnded(ctx, r.DedupKey, owner); err != nil {
			return Answer{}, false, err
		}
	}
	return Answer{}, false, fmt.Errorf("reserve the dedup_key: %w", journal.ErrBusy)
}

// reserve makes an attempt of the session the owner of a dedup_key, or returns the session that is.
func (s *submitter) reserve(ctx context.Context, key, id string, attempt int) (owner string, err error) {
	deadline := s.now().Add(reservationWait)
	for {
		owner, ok, err := s.journal.Reserve(ctx, key, id, attempt)
		if err != nil || ok {
			return "", err
		}
		last, err := s.journal.Last(ctx, owner)
		if err != nil || last.Seq > 0 {
			return owner, err
		}
		// The other request is under way, or its process ended.
		if s.now().After(deadline) {
			return "", fmt.Errorf("reserve the dedup_key: %w", journal.ErrBusy)
		}
		if err := pause(ctx, reservationPause); err != nil {
			return "", err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// join notes the alert in an open session. ended means that the session is over, and the alert is
// not noted.
func (s *submitter) join(ctx context.Context, id string, r Request) (a Answer, ended bool, err error) {
	err = s.log.view(ctx, id, func(owner *session.Session) error { ended = owner.Ended(); return nil })
	if errors.Is(err, errNoSession) {
		return Answer{}, true, nil // deleted
	}
	if err != nil || ended {
		return Answer{}, ended, err
	}
	a = Answer{SessionID: id, Status: statusJoined}
	if stored, known, err := s.remember(ctx, r, a); err != nil || known {
		return stored, false, err
	}
	open, err := s.joins.add(ctx, id, r.Data)
	if err == nil {
		s.confirm(ctx, r)
	}
	// One that ended since can't take the alert, but an answer that is stored stays.
	return a, err == nil && !open && r.IdempotencyKey == "", err
}

// reserveAgain makes the next attempt of an ended session the owner of its dedup_key. It refuses
// where another open session has it.
func (s *submitter) reserveAgain(ctx context.Context, key, id string, attempt int) error {
	for range maxReservations {
		owner, err := s.reserve(ctx, key, id, attempt)
		if err != nil || owner == "" {
			return err
		}
		open := false
		err = s.log.view(ctx, owner, func(other *session.Session) error { open = !other.Ended(); return nil })
		if err != nil && !errors.Is(err, errNoSession) {
			return err
		}
		if open {
			return httpserve.Refuse(http.StatusConflict, "another open session has the dedup_key of this one: "+owner)
		}
		if err := s.freeEnded(ctx, key, owner); err != nil {
			return err
		}
	}
	return fmt.Errorf("reserve the dedup_key: %w", journal.ErrBusy)
}

// freeEnded frees the dedup_key of a session that has ended or was deleted. It waits a moment where
// the session may be about to start again.
func (s *submitter) freeEnded(ctx context.Context, key, id string) error {
	attempt := 0
	err := s.log.view(ctx, id, func(owner *session.Session) error {
		if owner.Ended() {
			attempt = owner.Attempt()
		}
		return nil
	})
	if errors.Is(err, errNoSession) {
		attempt = math.MaxInt
	} else if err != nil {
		return err
	}
	if attempt == 0 { // it was started again: the caller finds it open
		return nil
	}
	if err := s.journal.FreeEnded(ctx, key, id, attempt); err != nil {
		return err
	}
	owner, err := s.journal.Owner(ctx, key)
	if err != nil || owner != id {
		return err
	}
	return pause(ctx, reservationPause)
}

// freeUnlessOpen frees the dedup_key of a session whose retry failed, unless another retry made it
// pending.
func (s *submitter) freeUnlessOpen(ctx context.Context, key, id string, attempt int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeTimeout)
	defer cancel()
	open := true
	err := s.log.view(ctx, id, func(own *session.Session) error { open = !own.Ended(); return nil })
	if err == nil && !open {
		err = s.journal.Free(ctx, key, id, attempt)
	}
	if err != nil {
		s.logger.Info("a dedup_key could not be freed; the next session with it takes it over", "session", id, "error", err)
	}
}
