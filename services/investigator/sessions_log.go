package investigator

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

const (
	// maxFolded is how many sessions are kept folded, so that a page that polls one reads only
	// what is new. The one that was used least recently is forgotten.
	maxFolded = 32
	// maxChanges is the number of times that one change of a session is decided while others
	// change it too.
	maxChanges = 50
)

// errNoSession is returned for an id that is no session's.
var errNoSession = errors.New("there is no such session")

// sessionLog reads and changes sessions in the journal. It is safe for concurrent use.
type sessionLog struct {
	journal *journal.Journal
	now     func() time.Time

	mu     sync.Mutex
	folded map[string]*list.Element
	used   *list.List // of *foldedSession, the most recently used first
}

// foldedSession is a session as far as it was read.
type foldedSession struct {
	id string

	mu    sync.Mutex
	state *session.Session
	notes int
}

func newSessionLog(j *journal.Journal, now func() time.Time) *sessionLog {
	return &sessionLog{journal: j, now: now, folded: map[string]*list.Element{}, used: list.New()}
}

// view calls f with the session as it is stored now. f must keep nothing of it. The error wraps
// [errNoSession], is that of f, or is one of the bus.
func (l *sessionLog) view(ctx context.Context, id string, f func(*session.Session) error) error {
	return l.viewNoted(ctx, id, func(s *session.Session, _ int) error { return f(s) })
}

// viewNoted is view with the number of notes about alerts that joined the session.
func (l *sessionLog) viewNoted(ctx context.Context, id string, f func(s *session.Session, notes int) error) error {
	if journal.CheckSession(id) != nil {
		return errNoSession
	}
	e := l.entry(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := l.update(ctx, e); err != nil {
		l.forget(id)
		return err
	}
	return f(e.state, e.notes)
}

// runs reports whether an attempt of a session is stored and has not ended.
func (l *sessionLog) runs(ctx context.Context, id string, attempt int) (runs bool, err error) {
	err = l.view(ctx, id, func(s *session.Session) error {
		runs = !s.Ended() && s.Attempt() == attempt
		return nil
	})
	if errors.Is(err, errNoSession) {
		err = nil
	}
	return runs, err
}

func (l *sessionLog) entry(id string) *foldedSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.folded[id]; at != nil {
		l.used.MoveToFront(at)
		return at.Value.(*foldedSession)
	}
	e := &foldedSession{id: id, state: &session.Session{}}
	l.folded[id] = l.used.PushFront(e)
	if l.used.Len() > maxFolded {
		oldest := l.used.Back()
		delete(l.folded, l.used.Remove(oldest).(*foldedSession).id)
	}
	return e
}

func (l *sessionLog) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.folded[id]; at != nil {
		l.used.Remove(at)
		delete(l.folded, id)
	}
}

// update folds what is new.
func (l *sessionLog) update(ctx context.Context, e *foldedSession) error {
	last, err := l.journal.Last(ctx, e.id)
	switch {
	case err != nil:
		return fmt.Errorf("read session %s: %w", e.id, err)
	case last.Seq == 0: // never stored, or deleted
		return errNoSession
	case last.Seq == e.state.Sequence():
		return nil
	}
	for m, err := range l.journal.Messages(ctx, e.id, e.state.Sequence()) {
		if err != nil {
			return fmt.Errorf("read session %s: %w", e.id, err)
		}
		facts, err := session.Decode(m.Data)
		if err == nil {
			err = e.state.Apply(facts, m.Seq)
		}
		if err != nil {
			return fmt.Errorf("read session %s: message %d: %w", e.id, m.Seq, err)
		}
		for _, f := range facts {
			if f.Noted != nil && f.Noted.Joined {
				e.notes++
			}
		}
	}
	return nil
}

// change appends what decide returns to a session: decide is called again where another writer
// was faster. Without facts nothing is appended. The errors are those of view and of decide.
func (l *sessionLog) change(ctx context.Context, id string, decide func(*session.Session) ([]session.Fact, error)) error {
	return l.changeNoted(ctx, id, func(s *session.Session, _ int) ([]session.Fact, error) { return decide(s) })
}

// changeNoted is change with the number of notes about alerts that joined the session.
func (l *sessionLog) changeNoted(ctx context.Context, id string, decide func(s *session.Session, notes int) ([]session.Fact, error)) error {
	for range maxChanges {
		var data []byte
		var last uint64
		err := l.viewNoted(ctx, id, func(s *session.Session, notes int) error {
			facts, err := decide(s, notes)
			if err != nil || len(facts) == 0 {
				return err
			}
			now := l.now()
			for i := range facts {
				facts[i].Time = now
			}
			last = s.Sequence()
			data, err = session.Encode(facts)
			return err
		})
		if err != nil || data == nil {
			return err
		}
		_, err = l.journal.Append(ctx, id, last, data)
		if !errors.Is(err, journal.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("change session %s: %w", id, journal.ErrBusy)
}
