package investigator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/query"
)

const (
	// maxIndexed is how many ended sessions lists show. Beyond it those that ended first are
	// left out; they are still stored, found by their id, and deleted in time.
	maxIndexed = 100_000
	// indexWait is how long a list waits for what was acknowledged before the request.
	indexWait = 500 * time.Millisecond
	// rateWindow is the time over which the sessions count that triggers and MCP start.
	rateWindow = time.Hour
)

// index has what lists show of all sessions. It follows the journal, so it has the sessions of
// all processes. Of a session that has ended it keeps only the item; of an open one also the
// state, without its long texts. It is safe for concurrent use.
type index struct {
	journal *journal.Journal
	log     *slog.Logger
	// appended is called for every message after it was applied.
	appended func(id string, seq uint64)

	mu      sync.Mutex
	entries map[string]*indexed
	ended   int
	// unlisted has the ends of the sessions beyond maxIndexed: about 100 bytes each, of sessions
	// that take kilobytes in the store.
	unlisted map[string]time.Time
	applied  uint64
	// pending is how many messages are left of those that were stored when following started.
	pending  uint64
	atStart  uint64
	caughtUp bool
	// moved is closed, and replaced, when applied rises.
	moved chan struct{}
}

// indexed is one session. Its item is replaced, never changed.
type indexed struct {
	item *session.Item
	// state is nil once the session has ended.
	state   *session.Session
	attempt int
	// queued is the message that made the session pending last.
	queued uint64
	// cancelling is when its cancellation was requested, or zero.
	cancelling time.Time
	// alert identifies the stored alert that it investigates, or is nil.
	alert *query.InvestigatedAlert
}

func newIndex(j *journal.Journal, log *slog.Logger, appended func(id string, seq uint64)) *index {
	if appended == nil {
		appended = func(string, uint64) {}
	}
	return &index{journal: j, log: log, appended: appended, entries: map[string]*indexed{}, unlisted: map[string]time.Time{}, moved: make(chan struct{})}
}

// follow keeps the index up to date until ctx ends.
func (x *index) follow(ctx context.Context) error {
	var st bus.State
	err := x.journal.Await(ctx, x.log, func(ctx context.Context) (err error) {
		st, err = x.journal.State(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("index the sessions: %w", err)
	}
	x.mu.Lock()
	x.atStart = st.Last
	x.mu.Unlock()
	err = x.journal.Follow(ctx, journal.FollowConfig{Started: x.started, Recreated: x.recreated}, func(m journal.Message, _ bus.Position) error {
		return x.apply(ctx, m)
	})
	if err != nil {
		return fmt.Errorf("index the sessions: %w", err)
	}
	return nil
}

func (x *index) started(pending uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.caughtUp {
		return
	}
	x.pending = pending
	x.checkCaughtUp()
}

// checkCaughtUp notes that everything was applied that was stored at the start: the newest
// messages may be deleted ones, which are never seen.
func (x *index) checkCaughtUp() {
	if x.pending == 0 && !x.caughtUp {
		x.caughtUp = true
		x.advance(x.atStart)
	}
}

func (x *index) advance(seq uint64) {
	x.applied = max(x.applied, seq)
	close(x.moved)
	x.moved = make(chan struct{})
}

// recreated empties the index: the sessions are gone.
func (x *index) recreated(bus.Position) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.entries, x.unlisted, x.ended, x.applied = map[string]*indexed{}, map[string]time.Time{}, 0, 0
}

func (x *index) apply(ctx context.Context, m journal.Message) error {
	facts, err := session.Decode(m.Data)
	if err != nil {
		x.log.Warn("a message of a session can't be read, and is left out of the lists", "session", m.Session, "sequence", m.Seq, "error", err)
	}
	e := x.find(m.Session)
	switch {
	case err != nil:
	case e == nil && facts[0].Submitted != nil:
		e = x.fold(&indexed{state: &session.Session{}}, facts, m)
	case e != nil && e.state != nil:
		e = x.fold(e, facts, m)
	case slices.ContainsFunc(facts, func(f session.Fact) bool { return f.Retried != nil }):
		err = x.journal.Await(ctx, x.log, func(ctx context.Context) (err error) {
			e, err = x.reload(ctx, m)
			return err
		})
		if err != nil {
			return err
		}
	default: // a late note changes nothing of an ended session; one deleted in part is not listed
		e = nil
	}
	x.mu.Lock()
	if err == nil && e != nil {
		x.put(m.Session, e)
	}
	// Of the messages that were to come, some may be deleted meanwhile.
	x.pending = min(max(x.pending, 1)-1, m.Pending)
	x.advance(m.Seq)
	x.checkCaughtUp()
	x.mu.Unlock()
	x.appended(m.Session, m.Seq)
	return nil
}

func (x *index) find(id string) *indexed {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.entries[id]
}

// put replaces a session, and forgets those that ended first where there are too many.
func (x *index) put(id string, e *indexed) {
	if old := x.entries[id]; old != nil && old.state == nil {
		x.ended--
	}
	x.entries[id] = e
	delete(x.unlisted, id)
	if e.state == nil {
		x.ended++
	}
	if x.ended <= maxIndexed+maxIndexed/100 {
		return
	}
	all := make([]*indexed, 0, x.ended)
	for _, e := range x.entries {
		if e.state == nil {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, byEnd)
	for _, e := range all[:x.ended-maxIndexed] {
		delete(x.entries, e.item.ID)
		x.unlisted[e.item.ID] = endOf(e.item)
	}
	x.ended = maxIndexed
}

func byEnd(a, b *indexed) int {
	return cmp.Or(endOf(a.item).Compare(endOf(b.item)), cmp.Compare(a.item.ID, b.item.ID))
}

func endOf(it *session.Item) time.Time {
	if it.CompletedAt == nil {
		return time.Time{}
	}
	return time.Time(*it.CompletedAt)
}

// reload folds an ended session that a retry made pending again, up to a message.
func (x *index) reload(ctx context.Context, upTo journal.Message) (*indexed, error) {
	e := &indexed{state: &session.Session{}}
	for m, err := range x.journal.Messages(ctx, upTo.Session, 0) {
		if err != nil {
			return nil, err
		}
		if m.Seq > upTo.Seq {
			break
		}
		facts, err := session.Decode(m.Data)
		if err != nil {
			continue // it was logged when it came
		}
		state := e.state
		if e = x.fold(e, facts, m); e == nil {
			return nil, nil
		}
		e.state = state // it may have ended in between
	}
	if e.item == nil || e.state.Ended() {
		return nil, nil // deleted meanwhile
	}
	return e, nil
}

// fold applies a message. It returns nil for a session without its first message, as one that was
// deleted in part.
func (x *index) fold(e *indexed, facts []session.Fact, m journal.Message) *indexed {
	if err := e.state.Apply(withoutTexts(facts), m.Seq); err != nil {
		x.log.Warn("a message of a session does not belong to it, and is left out of the lists", "session", m.Session, "sequence", m.Seq, "error", err)
		return nil
	}
	item := session.ItemOf(e.state)
	next := &indexed{item: &item, state: e.state, attempt: e.state.Attempt(), queued: e.queued, cancelling: e.cancelling, alert: e.alert}
	for _, f := range facts {
		switch {
		case f.Submitted != nil, f.Retried != nil:
			next.queued, next.cancelling = m.Seq, time.Time{}
			next.alert = investigatedAlert(e.state.Submitted().Alert)
		case f.CancelRequested != nil && next.cancelling.IsZero():
			next.cancelling = f.Time
		}
	}
	if e.state.Ended() {
		next.state = nil
	}
	return next
}

// withoutTexts drops long texts that no item has, so that the states of open sessions stay small.
func withoutTexts(facts []session.Fact) []session.Fact {
	for i := range facts {
		switch f := &facts[i]; {
		case f.Submitted != nil:
			f.Submitted.Data = session.Text{}
		case f.Gathered != nil:
			f.Gathered.Known = nil
		case f.ModelAnswered != nil:
			f.ModelAnswered.Thinking, f.ModelAnswered.State = session.Text{}, nil
		case f.ToolAnswered != nil:
			f.ToolAnswered.Result = session.Text{}
		}
	}
	return facts
}

// await waits until the index has what was acknowledged before the call, for at most
// [indexWait]. After that, a list shows what the index has: a slow bus is no error.
func (x *index) await(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, indexWait)
	defer cancel()
	st, err := x.journal.State(waiting)
	switch {
	case err != nil && waiting.Err() != nil && ctx.Err() == nil:
		return nil
	case err != nil:
		return fmt.Errorf("list the sessions: %w", err)
	}
	x.awaitSeq(waiting, st.Last)
	return nil
}

// awaitSeq waits until a message was applied, and reports false where ctx ends before.
func (x *index) awaitSeq(ctx context.Context, seq uint64) bool {
	for {
		x.mu.Lock()
		applied, moved := x.applied, x.moved
		x.mu.Unlock()
		if applied >= seq {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-moved:
		}
	}
}

// ready reports whether the index has what was stored when it started.
func (x *index) ready() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.caughtUp
}

// awaitReady waits until the index has what was stored when it started.
func (x *index) awaitReady(ctx context.Context) error {
	for {
		x.mu.Lock()
		ready, moved := x.caughtUp, x.moved
		x.mu.Unlock()
		if ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-moved:
		}
	}
}

// size returns how many sessions lists show.
func (x *index) size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.entries)
}

// hasEnded reports whether a session is known to have ended, also where lists show it no more.
func (x *index) hasEnded(id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.entries[id]; e != nil {
		return e.state == nil
	}
	_, unlisted := x.unlisted[id]
	return unlisted
}

// has reports whether the index has a session.
func (x *index) has(id string) bool { return x.find(id) != nil }

// all returns the items that keep.
func (x *index) all(keep func(*session.Item) bool) []*session.Item {
	x.mu.Lock()
	defer x.mu.Unlock()
	items := make([]*session.Item, 0, min(len(x.entries), maxPageSize))
	for _, e := range x.entries {
		if keep == nil || keep(e.item) {
			items = append(items, e.item)
		}
	}
	return items
}

// page returns a part of what a query selects, and how many there are in all.
func (x *index) page(q listQuery) (items []*session.Item, total int) {
	items = x.all(q.keeps)
	slices.SortFunc(items, q.compare)
	total = len(items)
	from := total
	if before := q.page - 1; before <= total/q.pageSize { // the product of a larger number may not fit in an int
		from = min(before*q.pageSize, total)
	}
	return items[from:min(from+q.pageSize, total)], total
}

// queuedItem is a session that waits for a worker.
type queuedItem struct {
	*session.Item
	QueuePosition int `json:"queue_position"`
}

// open returns the sessions that run, in the order of their starts, and those that wait, in the
// order of the queue.
func (x *index) open() (active []*session.Item, queued []queuedItem) {
	x.mu.Lock()
	var waiting []*indexed
	for _, e := range x.entries {
		switch {
		case e.state == nil:
		case e.item.Status == session.StatusPending:
			waiting = append(waiting, e)
		default:
			active = append(active, e.item)
		}
	}
	x.mu.Unlock()
	slices.SortFunc(active, func(a, b *session.Item) int {
		return cmp.Or(startOf(a).Compare(startOf(b)), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(waiting, func(a, b *indexed) int { return cmp.Compare(a.queued, b.queued) })
	for i, e := range waiting {
		queued = append(queued, queuedItem{e.item, i + 1})
	}
	return active, queued
}

func startOf(it *session.Item) time.Time {
	if it.StartedAt == nil {
		return time.Time{}
	}
	return time.Time(*it.StartedAt)
}

// waiting returns how many sessions wait for a worker.
func (x *index) waiting() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for _, e := range x.entries {
		if e.state != nil && e.item.Status == session.StatusPending {
			n++
		}
	}
	return n
}

// countOpen returns how many sessions have not ended.
func (x *index) countOpen() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.entries) - x.ended
}

// startedByThemselves returns the times at which triggers and MCP submitted sessions after since,
// the oldest first.
func (x *index) startedByThemselves(since time.Time) []time.Time {
	var times []time.Time
	for _, it := range x.all(func(it *session.Item) bool { return countsForRate(it.Author) && time.Time(it.CreatedAt).After(since) }) {
		times = append(times, time.Time(it.CreatedAt))
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// lastOf reports whether a session with a dedup_key is open, and when the last one ended, zero for
// none.
func (x *index) lastOf(key string) (open bool, end time.Time) {
	for _, it := range x.all(func(it *session.Item) bool { return it.DedupKey != nil && *it.DedupKey == key }) {
		open = open || it.CompletedAt == nil
		if t := endOf(it); t.After(end) {
			end = t
		}
	}
	return open, end
}

// countsForRate reports whether the sessions of an author count for max_per_hour.
func countsForRate(author string) bool {
	return author == AuthorTrigger || strings.HasPrefix(author, AuthorMCP)
}

// due returns all attempts that have not ended, the oldest first.
func (x *index) due() []journal.Due {
	x.mu.Lock()
	defer x.mu.Unlock()
	var open []*indexed
	for _, e := range x.entries {
		if e.state != nil {
			open = append(open, e)
		}
	}
	slices.SortFunc(open, func(a, b *indexed) int { return cmp.Compare(a.queued, b.queued) })
	due := make([]journal.Due, len(open))
	for i, e := range open {
		due[i] = journal.Due{Session: e.item.ID, Attempt: e.attempt}
	}
	return due
}

// cancelledBefore returns the sessions that are still being cancelled, since before a time.
func (x *index) cancelledBefore(t time.Time) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var ids []string
	for id, e := range x.entries {
		if e.state != nil && e.item.Status == session.StatusCancelling && e.cancelling.Before(t) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// endedBefore returns at most limit sessions that ended before a time, the first that ended
// first.
func (x *index) endedBefore(t time.Time, limit int) []string {
	type end struct {
		id string
		at time.Time
	}
	var ended []end
	x.mu.Lock()
	for id, e := range x.entries {
		if e.state == nil && endOf(e.item).Before(t) {
			ended = append(ended, end{id, endOf(e.item)})
		}
	}
	for id, at := range x.unlisted {
		if at.Before(t) {
			ended = append(ended, end{id, at})
		}
	}
	x.mu.Unlock()
	slices.SortFunc(ended, func(a, b end) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	ids := make([]string, min(len(ended), limit))
	for i := range ids {
		ids[i] = ended[i].id
	}
	return ids
}

// remove forgets a session that was deleted.
func (x *index) remove(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.unlisted, id)
	if e := x.entries[id]; e != nil {
		if e.state == nil {
			x.ended--
		}
		delete(x.entries, id)
	}
}
