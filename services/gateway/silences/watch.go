package silences

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// loadTimeout bounds how long alerts wait for the silences to be read.
const loadTimeout = time.Second

// Owner owns a [Filter] and serializes access to it.
type Owner interface {
	// Filter calls f with the filter.
	Filter(ctx context.Context, f func(*Filter)) error
	// Apply applies records to the filter, and to the alerts that are pending.
	Apply(ctx context.Context, records ...silence.Record) error
}

// Watch keeps a filter in step with the bus.
type Watch struct {
	owner     Owner
	endedAcks <-chan silence.Ack
	// unstoredAck is the ended acknowledgement that is being stored; it outlives a
	// connection.
	unstoredAck *silence.Ack
	log         *slog.Logger
}

// NewWatch returns the watch of a filter and its owner.
func NewWatch(owner Owner, f *Filter, log *slog.Logger) *Watch {
	return &Watch{owner: owner, endedAcks: f.endedAcks, log: log}
}

// Run keeps the filter in step until ctx ends. It starts when loaded is closed.
func (w *Watch) Run(ctx context.Context, session *bus.Session, loaded <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-loaded:
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.follow(ctx, session) })
	group.Go(func() error { return w.storeEndedAcks(ctx, session) })
	return group.Wait()
}

// Load reads the silences before the first alert is delivered. It gives up if the bus does
// not answer in time: a late alert is worse than one that should be silenced.
func (w *Watch) Load(ctx context.Context, session *bus.Session) {
	w.filter(ctx, (*Filter).ForgetRevisions)
	reading, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	records, err := silence.Records(reading, session)
	if err != nil {
		if ctx.Err() == nil { // otherwise no alert is delivered
			w.log.Warn("cannot read the silences: alerts are filtered with the silences known before", "error", err)
		}
		return
	}
	w.apply(ctx, records...)
	w.filter(ctx, (*Filter).DropMissing)
}

func (w *Watch) filter(ctx context.Context, f func(*Filter)) {
	w.logOwnerEnded(w.owner.Filter(ctx, f))
}

func (w *Watch) apply(ctx context.Context, records ...silence.Record) {
	w.logOwnerEnded(w.owner.Apply(ctx, records...))
}

// logOwnerEnded logs the error of an owner that has ended, which needs no silences any more.
func (w *Watch) logOwnerEnded(err error) {
	if err != nil {
		w.log.Debug("cannot apply silences", "error", err)
	}
}

// follow applies each change until ctx ends.
func (w *Watch) follow(ctx context.Context, session *bus.Session) error {
	return session.Follow(ctx, bus.FollowConfig{
		Stream: bus.StreamSilences, Logger: w.log,
		Recreated: func(bus.Position) {
			w.filter(ctx, func(f *Filter) { f.ForgetRevisions(); f.DropMissing() })
		},
	}, func(m bus.Message) error {
		w.apply(ctx, silence.RecordOf(m))
		return nil
	})
}

// storeEndedAcks removes ended acknowledgements from the bus until ctx ends. It waits for
// a bus that is unreachable.
func (w *Watch) storeEndedAcks(ctx context.Context, session *bus.Session) error {
	for ctx.Err() == nil {
		if w.unstoredAck == nil {
			select {
			case <-ctx.Done():
				return nil
			case ack := <-w.endedAcks:
				w.unstoredAck = &ack
			}
		}
		err := busclient.Retry(ctx, session, busclient.RequestTimeout, w.log, "store the end of an acknowledgement", func(ctx context.Context) error {
			return storeEndedAck(ctx, session, *w.unstoredAck)
		})
		if err != nil {
			return err
		}
		w.unstoredAck = nil
	}
	return nil
}

func storeEndedAck(ctx context.Context, session *bus.Session, ended silence.Ack) error {
	_, err := silence.ChangeAcks(ctx, session, func(acks silence.Acks) (silence.Acks, error) {
		after, changed := acks.MarkEnded(ended)
		if !changed {
			return nil, bus.ErrUnchanged
		}
		return after, nil
	})
	return err
}
