package detector

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Bounds of speaking.
const (
	// speakAhead is how many alerts may wait to be published; the loop reads no
	// more telemetry while they do.
	speakAhead = 1024
	// speakTogether is how many are under way at once.
	speakTogether = 64
	// minSpeakRetry and maxSpeakRetry bound the pause after a failed publish.
	minSpeakRetry = 50 * time.Millisecond
	maxSpeakRetry = 2 * time.Second
)

// spoken tells the loop what has been stored.
type spoken struct {
	// count is how many alerts.
	count int
	// last is the highest sequence of ALERTS that they have.
	last uint64
}

// speaker publishes alerts in the order in which they were raised, as far as they
// are about each other, and tries again until the bus has stored them. The id of an alert is its message id,
// so what was stored without our knowing is not stored twice.
type speaker struct {
	publisher *bus.Publisher
	// may returns when something may be said, or with the error of its context.
	may      func(context.Context) error
	alerts   <-chan alert.Alert
	done     chan<- spoken
	log      *slog.Logger
	failures func()
}

// run speaks until ctx ends or alerts is closed and empty.
func (s *speaker) run(ctx context.Context) error {
	for {
		batch, ok := s.take(ctx)
		if !ok {
			return nil
		}
		last, err := s.speak(ctx, batch)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		select {
		case s.done <- spoken{count: len(batch), last: last}:
		case <-ctx.Done():
			return nil
		}
	}
}

// unlessEnded is err while ctx lives. After its end what was not said is no
// failure: a replay will raise it again.
func unlessEnded(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// take waits for an alert and takes those that are waiting behind it.
func (s *speaker) take(ctx context.Context) ([]alert.Alert, bool) {
	var batch []alert.Alert
	select {
	case a, ok := <-s.alerts:
		if !ok {
			return nil, false
		}
		batch = append(batch, a)
	case <-ctx.Done():
		return nil, false
	}
	for len(batch) < speakTogether {
		select {
		case a, ok := <-s.alerts:
			if !ok {
				return batch, true
			}
			batch = append(batch, a)
		default:
			return batch, true
		}
	}
	return batch, true
}

// speak publishes a batch.
func (s *speaker) speak(ctx context.Context, batch []alert.Alert) (last uint64, err error) {
	for len(batch) > 0 {
		n := together(batch)
		if last, err = s.publish(ctx, batch[:n]); err != nil {
			return 0, err
		}
		batch = batch[n:]
	}
	return last, nil
}

// together is how many of a batch may be under way at once. Where one of them fails
// and those after it don't, it is stored after them. So what is about an alert before
// it waits until that is stored: a reader would ignore a revision of what it has not
// seen, and take for open what is over.
func together(batch []alert.Alert) int {
	for i := range batch {
		if i > 0 && (batch[i].Revises != "" || batch[i].Resolves != "") {
			return i
		}
	}
	return len(batch)
}

func (s *speaker) publish(ctx context.Context, batch []alert.Alert) (uint64, error) {
	msgs := make([]*nats.Msg, 0, len(batch))
	for _, a := range batch {
		m, err := message(a)
		if err != nil {
			return 0, err
		}
		msgs = append(msgs, m)
	}
	for delay := minSpeakRetry; ; delay = min(2*delay, maxSpeakRetry) {
		if err := s.may(ctx); err != nil {
			return 0, err
		}
		last, err := s.publisher.Publish(ctx, msgs...)
		if err == nil {
			return last, nil
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		s.failures()
		s.log.Warn("alerts wait for the bus", "alerts", len(msgs), "error", err, "again in", delay)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func message(a alert.Alert) (*nats.Msg, error) {
	data, err := a.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode alert %s: %w", a.ID, err)
	}
	m := nats.NewMsg(bus.AlertSubject(a))
	m.Header.Set(jetstream.MsgIDHeader, a.ID)
	m.Data = data
	return m, nil
}

// alreadySpoken reads the ids of the alerts above a sequence of ALERTS, up to
// the newest: a replay raises them again, and they must not be told twice.
// It is bounded by what ALERTS keeps.
func alreadySpoken(ctx context.Context, c *bus.Conn, after uint64, alerts streamState, log *slog.Logger) (map[string]struct{}, error) {
	ids := map[string]struct{}{}
	last := alerts.last
	if after >= last || alerts.first > last {
		return ids, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := bus.Follow(ctx, c, bus.FollowConfig{
		Stream: bus.StreamAlerts, Start: after + 1, HeadersOnly: true, Logger: log,
	}, func(m bus.Message) error {
		ids[m.Header.Get(jetstream.MsgIDHeader)] = struct{}{}
		if m.Seq >= last || m.Pending == 0 {
			cancel()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the alerts told so far: %w", err)
	}
	return ids, nil
}
