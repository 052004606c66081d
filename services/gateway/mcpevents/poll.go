package mcpevents

import (
	"context"
	"time"
)

const (
	// defaultEvents and maxEvents are how many events a poll returns at most. A
	// client that asks for more gets maxEvents, and hasMore.
	defaultEvents = 50
	maxEvents     = 200
	// readBatch is how many alerts are read at once, and maxScan how many a poll
	// looks at: where few pass the filter, the rest is left to the next poll.
	readBatch = 200
	maxScan   = 2000
	// nextPoll is the pause that a client is asked for.
	nextPoll = 5 * time.Second
)

// poll answers one poll: what passes the filter after the cursor, oldest first.
func poll(ctx context.Context, s Source, p *subscription, f filter, now time.Time) (*pollResult, error) {
	state, err := s.State(ctx)
	if err != nil {
		return nil, err
	}
	at, truncated := begin(p.Cursor, state)
	r := &pollResult{ResultType: complete, Events: []occurrence{}, NextPollMs: nextPoll.Milliseconds()}
	if p.Cursor == nil {
		r.Cursor = at.Cursor()
		return r, nil
	}
	from, err := aged(ctx, s, at, state.Last, p.MaxAgeMs, now)
	if err != nil {
		return nil, err
	}
	r.Truncated = truncated || from.Seq != at.Seq
	if at, err = r.fill(ctx, s, from, f, p.events()); err != nil {
		return nil, err
	}
	r.Cursor, r.HasMore = at.Cursor(), at.Seq < state.Last
	return r, nil
}

// fill adds up to limit events after a place, and returns the place behind what
// it looked at.
func (r *pollResult) fill(ctx context.Context, s Source, at Position, f filter, limit int) (Position, error) {
	for scanned := 0; scanned < maxScan; scanned += readBatch {
		batch, err := s.Read(ctx, at.Seq, readBatch)
		if err != nil {
			return at, err
		}
		for _, a := range batch {
			if len(r.Events) == limit {
				return at, nil
			}
			r.Truncated = r.Truncated || at.skips(Position{Seq: a.At.Seq, Created: at.Created})
			at.Seq = a.At.Seq
			if a.Alert != nil && f.passes(*a.Alert) {
				r.Events = append(r.Events, occurrenceOf(*a.Alert))
			}
		}
		if len(batch) < readBatch {
			return at, nil
		}
	}
	return at, nil
}

// events is how many the client wants at most.
func (p *subscription) events() int {
	if p.MaxEvents == nil {
		return defaultEvents
	}
	return int(min(*p.MaxEvents, maxEvents))
}
