package mcpevents

import (
	"context"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

const (
	// defaultEvents and maxEvents bound the events of a poll. A client that asks for more
	// receives maxEvents, and hasMore.
	defaultEvents = 50
	maxEvents     = 200
	// readBatch is the number of alerts that are read at once, maxScan the number that a
	// poll reads. If few pass the filter, the rest is left to the next poll.
	readBatch = 200
	maxScan   = 2000
	// nextPoll is the pause that the client is asked for.
	nextPoll = 5 * time.Second
)

// poll answers one poll with the alerts that pass the filter after the cursor, oldest first.
func poll(ctx context.Context, s Source, p *subscription, f filter, now time.Time) (*pollResult, error) {
	state, err := s.State(ctx)
	if err != nil {
		return nil, err
	}
	start, truncated := startPosition(p.Cursor, state)
	r := &pollResult{ResultType: complete, Events: []occurrence{}, NextPollMs: nextPoll.Milliseconds()}
	if p.Cursor == nil {
		r.Cursor = encodeCursor(start)
		return r, nil
	}
	from, err := skipOlder(ctx, s, start, state.Last, p.MaxAgeMs, now)
	if err != nil {
		return nil, err
	}
	r.Truncated = truncated || from.Seq != start.Seq
	end, err := r.fill(ctx, s, from, f, p.limit())
	if err != nil {
		return nil, err
	}
	r.Cursor, r.HasMore = encodeCursor(end), end.Seq < state.Last
	return r, nil
}

// fill adds up to limit events after a position and returns the position that it reached.
func (r *pollResult) fill(ctx context.Context, s Source, p bus.Position, f filter, limit int) (bus.Position, error) {
	for scanned := 0; scanned < maxScan; scanned += readBatch {
		batch, err := s.Read(ctx, p.Seq, readBatch)
		if err != nil {
			return p, err
		}
		for _, a := range batch {
			if len(r.Events) == limit {
				return p, nil
			}
			next := p.At(a.Position.Seq)
			r.Truncated = r.Truncated || hasGap(p, next)
			p = next
			if a.Alert == nil || !f.passes(*a.Alert) {
				continue
			}
			switch {
			case a.Alert.EndsInvestigation():
				r.Events = append(r.Events, occurrenceOf(a.Alert.InvestigationEnd()))
			case a.Alert.Revises != "" && a.Alert.Investigation != nil: // no news
			default:
				r.Events = append(r.Events, occurrenceOf(*a.Alert))
			}
		}
		if len(batch) < readBatch {
			return p, nil
		}
	}
	return p, nil
}

// limit returns how many events the client wants at most.
func (p *subscription) limit() int {
	if p.MaxEvents == nil {
		return defaultEvents
	}
	return int(min(*p.MaxEvents, maxEvents))
}
