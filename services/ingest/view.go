package ingest

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

const (
	// tidyLimit is how many stored results one look takes in: more than the
	// stream has room for, unless an operator gave it more. What is beyond is
	// seen once older ones are deleted.
	tidyLimit = 256
	// tidyTimeout bounds what tidying adds to an answer.
	tidyTimeout = 500 * time.Millisecond
	// tidyRest is the pause after a failure: a bus that does not allow it, or
	// is slow, holds up one answer in that time and not each.
	tidyRest = 10 * time.Second
)

// results is the stream of the newest results, as a bus.Conn gives it.
type results interface {
	Stored(ctx context.Context, stream string, limit int) ([]bus.Message, error)
	Delete(ctx context.Context, stream string, seq uint64) error
}

// view keeps the stream of CI results to what readers see: the newest, and of
// those that update each other the latest.
//
// A result is written first and what it updates is deleted after that, so the
// end of the process at any moment loses nothing. It can leave a double, which
// readers leave out by ci.Newest, and which the next result takes away. What is
// outdated follows from the order in the stream alone. Whoever writes at the
// same time, here or in another process, comes to the same decisions.
type view struct {
	log *slog.Logger
	// turn has room for the one who is tidying.
	turn chan struct{}
	// begun counts the looks at the stream.
	begun atomic.Uint64
	// rest is when to try again after a failure. It and known belong to the turn.
	rest time.Time
	// known is what the last look found, because decoding took most of the time
	// of a look: at most tidyLimit results without their texts.
	known map[place]ci.Result
}

// place is where a message is. The time tells it from one of a stream that has
// been made anew.
type place struct {
	seq uint64
	at  int64 // in nanoseconds since 1970
}

func newView(log *slog.Logger) *view { return &view{log: log, turn: make(chan struct{}, 1)} }

// tidy deletes what is outdated. It is called after a result was stored, and
// takes at most tidyTimeout. What it can't do is left for the next.
func (v *view) tidy(ctx context.Context, r results) {
	before := v.begun.Load()
	// Who sent the result may have gone: it is stored all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
	defer cancel()
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return // those before are not through: it is they who say why
	}
	if v.begun.Load() != before {
		return // someone has looked after our result was stored, and is through
	}
	if time.Now().Before(v.rest) {
		return
	}
	v.begun.Add(1)
	if err := v.deleteOutdated(ctx, r); err != nil {
		v.rest = time.Now().Add(tidyRest)
		v.log.Warn("outdated CI results stay in the stream until a later one is stored", "error", err, "pause", tidyRest)
	}
}

// storedResult is a result and its place in the stream.
type storedResult struct {
	ci.Result
	place
}

func (v *view) deleteOutdated(ctx context.Context, r results) error {
	msgs, err := r.Stored(ctx, bus.StreamCI, tidyLimit)
	if err != nil {
		return err
	}
	stored := v.identify(msgs)
	_, outdated := ci.Newest(stored, func(s storedResult) ci.Result { return s.Result })
	for _, s := range outdated { // oldest first: what is left is always the newest
		if err := r.Delete(ctx, bus.StreamCI, s.seq); err != nil {
			return err
		}
	}
	return nil
}

// identify says of what each result is one. What is no result is left out: it
// is not ours to delete, and the stream's limit drops it.
func (v *view) identify(msgs []bus.Message) []storedResult {
	stored := make([]storedResult, 0, len(msgs))
	known := make(map[place]ci.Result, len(msgs))
	for _, m := range msgs {
		at := place{m.Seq, m.Time.UnixNano()}
		result, ok := v.known[at]
		if !ok {
			decoded, err := ci.Decode(m.Data)
			if err != nil {
				continue
			}
			result = decoded
			result.Summary, result.Failures = "", nil
		}
		known[at] = result
		stored = append(stored, storedResult{result, at})
	}
	v.known = known
	return stored
}
