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
	// pruneLimit is how many stored results are read at once. The stream holds fewer by
	// default; further ones are read once older ones are deleted.
	pruneLimit = 256
	// pruneTimeout bounds what pruning adds to an answer.
	pruneTimeout = 500 * time.Millisecond
	// prunePause is the pause after a failure, so that a slow bus, or one that does not
	// allow deletion, does not delay every answer.
	prunePause = 10 * time.Second
	// writeTimeout bounds how long a result waits for those before it. A write takes less
	// than a millisecond, so only a bus that hangs reaches the bound. All waiting results
	// then fail at the same time.
	writeTimeout = 5 * time.Second
)

// resultsStream is the stream of the newest results, as [bus.Session] gives access to it.
type resultsStream interface {
	Read(ctx context.Context, stream string, from uint64, limit int) ([]bus.Message, error)
	Delete(ctx context.Context, stream string, seq uint64) error
}

// resultsView keeps the stream of CI results to what readers see: the newest results, and
// of those that update each other the latest.
//
// A result is written before those that it updates are deleted, so a crash loses nothing.
// It can leave a duplicate, which readers skip with [ci.Newest], and which the next result
// deletes. Which results are outdated follows from the order in the stream alone, so
// several processes decide the same.
//
// In one process results are written and pruned one at a time: the stream has little room,
// and many concurrent updates of one result would push others out of it before anything is
// deleted.
type resultsView struct {
	log *slog.Logger
	// writing holds one element while a result is written.
	writing chan struct{}
	// pausedUntil is when to prune again after a failure. It and known are guarded by
	// writing.
	pausedUntil time.Time
	// known is what the last read decoded, because decoding took most of its time: at most
	// pruneLimit results without their texts.
	known map[bus.Stamp]ci.Result
}

// errResultsBusy is returned when a result is in the log and not in the view. It can be
// sent again: it updates itself.
var errResultsBusy = errors.New("too many CI results wait to be stored: try again later")

func newResultsView(log *slog.Logger) *resultsView {
	return &resultsView{log: log, writing: make(chan struct{}, 1)}
}

// put waits until no other result is written, writes one and deletes those that it makes
// outdated. Its error is that of write, or errResultsBusy after writeTimeout. The result
// is in the detector's log already, so put continues when the sender is gone.
func (v *resultsView) put(ctx context.Context, stream resultsStream, write func(context.Context) error) error {
	ctx = context.WithoutCancel(ctx)
	if !v.enter(ctx) {
		return errResultsBusy
	}
	defer func() { <-v.writing }()
	if err := write(ctx); err != nil {
		return err
	}
	v.prune(ctx, stream)
	return nil
}

func (v *resultsView) enter(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	select {
	case v.writing <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// prune deletes outdated results. It takes at most pruneTimeout; what is left is for the
// next call.
func (v *resultsView) prune(ctx context.Context, stream resultsStream) {
	if time.Now().Before(v.pausedUntil) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	if err := v.deleteOutdated(ctx, stream); err != nil {
		v.pausedUntil = time.Now().Add(prunePause)
		v.log.Warn("cannot delete outdated CI results, which stay until a later one is stored", "error", err, "pause", prunePause)
	}
}

// storedResult is a result in the stream.
type storedResult struct {
	ci.Result
	seq uint64
}

func (v *resultsView) deleteOutdated(ctx context.Context, stream resultsStream) error {
	msgs, err := stream.Read(ctx, bus.StreamCI, 1, pruneLimit)
	if err != nil {
		return err
	}
	stored := v.decode(msgs)
	_, outdated := ci.Newest(stored, func(s storedResult) ci.Result { return s.Result })
	for _, s := range outdated { // oldest first, so that the newest are left
		if err := stream.Delete(ctx, bus.StreamCI, s.seq); err != nil {
			return err
		}
	}
	return nil
}

// decode decodes what is stored, without texts. Anything else than a result is left out:
// the limit of the stream drops it.
func (v *resultsView) decode(msgs []bus.Message) []storedResult {
	stored := make([]storedResult, 0, len(msgs))
	known := make(map[bus.Stamp]ci.Result, len(msgs))
	for _, m := range msgs {
		id := m.Stamp()
		result, ok := v.known[id]
		if !ok {
			decoded, err := ci.Decode(m.Data)
			if err != nil {
				continue
			}
			result = decoded
			result.Summary, result.Failures = "", nil
		}
		known[id] = result
		stored = append(stored, storedResult{result, m.Seq})
	}
	v.known = known
	return stored
}
