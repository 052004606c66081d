package silences

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// loadTimeout bounds how long alerts wait for the silences to be read.
const loadTimeout = time.Second

// Owner owns a [Filter], and serialises what is done with it.
type Owner interface {
	// Filter calls f with the filter.
	Filter(ctx context.Context, f func(*Filter)) error
	// Apply applies documents to the filter, and to the alerts that are pending.
	Apply(ctx context.Context, documents ...silence.Record) error
}

// Watch keeps a filter in step with the bus.
type Watch struct {
	owner   Owner
	endings <-chan silence.Ack
	// unstored is the ended acknowledgement that is being stored; it outlives a
	// connection.
	unstored *silence.Ack
	log      *slog.Logger
}

// NewWatch returns the watch of a filter and its owner.
func NewWatch(owner Owner, f *Filter, log *slog.Logger) *Watch {
	return &Watch{owner: owner, endings: f.endings, log: log}
}

// Run keeps the filter in step until ctx ends. It starts when loaded is closed.
func (w *Watch) Run(ctx context.Context, c *bus.Conn, loaded <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-loaded:
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.follow(ctx, c) })
	group.Go(func() error { return w.storeEndings(ctx, c) })
	return group.Wait()
}

// Load reads the silences before the first alert is handed on. It gives up when the bus
// does not answer in time: a late alert is worse than one that should be silenced.
func (w *Watch) Load(ctx context.Context, c *bus.Conn) {
	w.filter(ctx, (*Filter).ForgetRevisions)
	reading, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	documents, err := silence.Records(reading, c)
	if err != nil {
		if ctx.Err() == nil { // else no alert is delivered
			w.log.Warn("cannot read the silences: alerts are delivered by those known before", "error", err)
		}
		return
	}
	w.apply(ctx, documents...)
	w.filter(ctx, (*Filter).DropMissing)
}

func (w *Watch) filter(ctx context.Context, f func(*Filter)) {
	w.shutdown(w.owner.Filter(ctx, f))
}

func (w *Watch) apply(ctx context.Context, documents ...silence.Record) {
	w.shutdown(w.owner.Apply(ctx, documents...))
}

// shutdown logs that the owner has ended: it needs no silences any more.
func (w *Watch) shutdown(err error) {
	if err != nil {
		w.log.Debug("cannot apply silences", "error", err)
	}
}

// follow applies each change until ctx ends.
func (w *Watch) follow(ctx context.Context, c *bus.Conn) error {
	cfg := bus.FollowConfig{Stream: bus.StreamSilences, Logger: w.log}
	cfg.Renewed = func(time.Time) (uint64, time.Time) {
		w.filter(ctx, func(f *Filter) { f.ForgetRevisions(); f.DropMissing() })
		return 0, time.Time{}
	}
	return bus.Follow(ctx, c, cfg, func(m bus.Message) error {
		w.apply(ctx, silence.RecordOf(m))
		return nil
	})
}

// storeEndings removes ended acknowledgements from the bus until ctx ends. It waits for
// a bus that is unreachable.
func (w *Watch) storeEndings(ctx context.Context, c *bus.Conn) error {
	for ctx.Err() == nil {
		if w.unstored == nil {
			select {
			case <-ctx.Done():
				return nil
			case k := <-w.endings:
				w.unstored = &k
			}
		}
		err := storeEnding(ctx, c, *w.unstored)
		if err == nil || errors.Is(err, errUnchanged) {
			w.unstored = nil
			continue
		}
		w.log.Debug("cannot store the end of an acknowledgement yet", "error", err)
		busclient.Pause(ctx)
	}
	return nil
}

// errUnchanged is returned by a change that has nothing to store.
var errUnchanged = errors.New("nothing to change")

func storeEnding(ctx context.Context, c *bus.Conn, ended silence.Ack) error {
	ctx, cancel := context.WithTimeout(ctx, busclient.RequestTimeout)
	defer cancel()
	_, err := silence.ChangeAcks(ctx, c, func(acks silence.Acks) (silence.Acks, error) {
		after, changed := acks.MarkEnded(ended)
		if !changed {
			return nil, errUnchanged
		}
		return after, nil
	})
	return err
}
