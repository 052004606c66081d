package ingest

import (
	"context"
	"errors"
	"log/slog"
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
	// turnTimeout bounds how long a result waits for those before it. A turn
	// takes less than a millisecond, so it is reached by a bus that hangs: then
	// as many answers as may be under way end at this bound, and not one by one.
	turnTimeout = 5 * time.Second
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
// outdated follows from the order in the stream alone. Another process that
// writes at the same time comes to the same decisions.
//
// Within this process one result at a time is written and tidied up after: the
// stream has little room, and many updates of one result at once would push the
// others out of it before anything is deleted.
type view struct {
	log *slog.Logger
	// turn has room for the one who is writing.
	turn chan struct{}
	// rest is when to try again after a failure. It and known belong to the turn.
	rest time.Time
	// known is what the last look found, because decoding took most of the time
	// of a look: at most tidyLimit results without their texts.
	known map[place]ci.Result
}

// errCrowded says that a result is in the log and not in the view. Whoever
// sends it again does no harm: it updates itself.
var errCrowded = errors.New("too many CI results wait to be stored: try again later")

// place is where a message is. The time tells it from one of a stream that has
// been made anew.
type place struct {
	seq uint64
	at  int64 // in nanoseconds since 1970
}

func newView(log *slog.Logger) *view { return &view{log: log, turn: make(chan struct{}, 1)} }

// put waits for its turn, writes a result and deletes what it makes outdated.
// Its error is that of write, or errCrowded after turnTimeout. The result is in
// the detector's log by now, so whether its sender has gone makes no difference.
func (v *view) put(ctx context.Context, r results, write func(context.Context) error) error {
	ctx = context.WithoutCancel(ctx)
	if !v.enter(ctx) {
		return errCrowded
	}
	defer func() { <-v.turn }()
	if err := write(ctx); err != nil {
		return err
	}
	v.tidy(ctx, r)
	return nil
}

func (v *view) enter(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	select {
	case v.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// tidy deletes what is outdated. It takes at most tidyTimeout; what it can't do
// is left for the next.
func (v *view) tidy(ctx context.Context, r results) {
	if time.Now().Before(v.rest) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
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
