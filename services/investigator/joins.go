package investigator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

const (
	// keptJoins is how many alerts that join a session are kept as notes. Later ones are counted.
	keptJoins = 20
	// joinInterval is the time between two notes with such a count.
	joinInterval = 5 * time.Second
	// maxJoinNote bounds what a note shows of an alert, in bytes.
	maxJoinNote = 2000
	// maxJoined is how many sessions are remembered that count alerts. Beyond it counts are
	// written at once.
	maxJoined = 1000
	// joinTimeout bounds writing a count.
	joinTimeout = 5 * time.Second
)

// joins notes alerts in open sessions with the same dedup_key. It is safe for concurrent use.
type joins struct {
	log    *sessionLog
	now    func() time.Time
	logger *slog.Logger

	mu      sync.Mutex
	counted map[string]*joinCount
	writing sync.WaitGroup
}

// joinCount counts alerts that no note stands for yet.
type joinCount struct {
	count   int
	written time.Time
	timer   *time.Timer // set while count is above 0
}

func newJoins(log *sessionLog, now func() time.Time, logger *slog.Logger) *joins {
	return &joins{log: log, now: now, logger: logger, counted: map[string]*joinCount{}}
}

// add notes an alert in a session, and reports whether that is open: an ended one takes no alert.
func (j *joins) add(ctx context.Context, id, text string) (open bool, err error) {
	counts := false
	open, err = j.change(ctx, id, func(notes int) *session.Noted {
		if counts = notes >= keptJoins; counts {
			return nil
		}
		return &session.Noted{Joined: true, Text: "Another alert with the same dedup_key arrived: " + session.Excerpt(text, maxJoinNote, "the alert is longer")}
	})
	if err != nil || !counts {
		return open, err
	}
	j.mu.Lock()
	c := j.counted[id]
	if c == nil {
		if len(j.counted) >= maxJoined {
			j.mu.Unlock()
			return true, j.write(ctx, id, 1)
		}
		c = &joinCount{}
		j.counted[id] = c
	}
	c.count++
	wait := joinInterval - j.now().Sub(c.written)
	if c.timer == nil && wait > 0 {
		j.writing.Add(1)
		c.timer = time.AfterFunc(wait, func() { defer j.writing.Done(); j.flush(id) })
	}
	later := c.timer != nil
	j.mu.Unlock()
	if !later {
		j.flush(id)
	}
	return true, nil
}

// flush writes what a session counts.
func (j *joins) flush(id string) {
	j.mu.Lock()
	c := j.counted[id]
	if c == nil {
		j.mu.Unlock()
		return
	}
	n := c.count
	c.count, c.written, c.timer = 0, j.now(), nil
	for other, c := range j.counted { // forget those that count nothing any more
		if c.count == 0 && j.now().Sub(c.written) > joinInterval {
			delete(j.counted, other)
		}
	}
	j.mu.Unlock()
	if n == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	if err := j.write(ctx, id, n); err != nil {
		j.logger.Warn("alerts that joined a session could not be counted", "session", id, "alerts", n, "error", err)
	}
}

func (j *joins) write(ctx context.Context, id string, n int) error {
	_, err := j.change(ctx, id, func(int) *session.Noted {
		return &session.Noted{Joined: true, Text: "Further alerts with the same dedup_key arrived.", Count: n}
	})
	return err
}

// change appends a note to an open session; to others it does nothing.
func (j *joins) change(ctx context.Context, id string, note func(notes int) *session.Noted) (open bool, err error) {
	err = j.log.changeNoted(ctx, id, func(s *session.Session, notes int) ([]session.Fact, error) {
		if open = !s.Ended(); !open {
			return nil, nil
		}
		n := note(notes)
		if n == nil {
			return nil, nil
		}
		return []session.Fact{{Noted: n}}, nil
	})
	if errors.Is(err, errNoSession) {
		return false, nil
	}
	return open, err
}

// close writes the counts that are left.
func (j *joins) close() {
	j.mu.Lock()
	var ids []string
	for id, c := range j.counted {
		if c.timer != nil && c.timer.Stop() {
			j.writing.Done()
			ids = append(ids, id)
		}
	}
	j.mu.Unlock()
	for _, id := range ids {
		j.flush(id)
	}
	j.writing.Wait()
}
