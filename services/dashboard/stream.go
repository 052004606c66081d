package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/services/dashboard/streamquery"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/sse"
)

// Bounds of the stream of events.
const (
	// maxReaders is how many read along at once. One more is refused.
	maxReaders = 256
	// readersRetry is when a refused one may try again, in seconds.
	readersRetry = 5
	// heartbeat is how often a reader is shown that the stream is alive.
	heartbeat = 15 * time.Second
	// writeIn is how long one write to a reader may take. Whoever takes nothing for
	// so long is gone, or as good as.
	writeIn = 30 * time.Second
	// maxWrite is how much is written at once, in bytes, but for one large alert.
	maxWrite = 64 << 10
	// aheadWait is how long a reader may know more than this dashboard, which then
	// lags behind the one that it comes from, and looks at the end of the stream within
	// checkEvery. After that its place is of a stream that was made anew.
	aheadWait = checkEvery + time.Second
	aheadLook = 20 * time.Millisecond
)

// hello begins a stream: a browser that loses it reconnects after a second.
var hello = sse.AppendComment(sse.AppendRetry(nil, time.Second), "tocsin")

// heartbeatComment shows a reader, and every proxy on the way, that the stream is alive.
var heartbeatComment = sse.AppendComment(nil, "heartbeat")

// droppedEvent tells a slow reader how many alerts were dropped.
func droppedEvent(alerts int) []byte {
	return sse.Append(nil, sse.Event{Name: "dropped", Data: fmt.Appendf(nil, `{"dropped":%d}`, alerts)})
}

// errReaderGone says that a reader takes nothing any more.
var errReaderGone = errors.New("the reader is gone")

// errSignedOut is returned when a reader may read no more.
var errSignedOut = errors.New("the reader's sign-in is over")

// stream sends alerts for as long as the reader and the dashboard are there.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) error {
	q, err := streamquery.Parse(r)
	if err != nil {
		return httpserve.Refuse(http.StatusBadRequest, err.Error())
	}
	select {
	case h.readers <- struct{}{}:
		defer func() { <-h.readers }()
	default:
		h.metrics.full.Inc()
		return httpserve.Refuse(http.StatusServiceUnavailable, fmt.Sprintf("there are %d readers, which is the most: close one", maxReaders)).Retry(readersRetry)
	}
	header := w.Header()
	header.Set("Content-Type", sse.ContentType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // a proxy must not hold it back
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	s := sender{handler: h, may: func() bool { return h.access.CheckRead(r) == nil }, query: q, request: r.Context(), out: http.NewResponseController(w), w: w, came: time.Now()}
	// It asked all it wants to ask, and may listen for days.
	if err := s.out.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	// A write that waits for a slow reader must not hold up the end for long.
	defer context.AfterFunc(ctx, func() { _ = s.out.SetWriteDeadline(time.Now().Add(lastIn)) })()
	if err := s.run(ctx); err != nil && ctx.Err() == nil {
		h.log.Debug("a reader of the alerts has ended", "error", err)
	}
	return nil
}

// sender is one stream to one reader.
type sender struct {
	*handler
	// may reports whether the reader still may read: a sign-in ends.
	may   func() bool
	query streamquery.Query
	// request ends when the reader has gone.
	request context.Context
	out     *http.ResponseController
	w       http.ResponseWriter
	came    time.Time
	buf     []byte
	// alerts are how many are in buf.
	alerts int
}

func (s *sender) run(ctx context.Context) error {
	if err := s.write(ctx, hello); err != nil {
		return err
	}
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	if err := s.awaitBegin(ctx, tick); err != nil {
		return err
	}
	place, err := s.start(ctx)
	if err != nil {
		return err
	}
	reader, err := s.join(ctx, place)
	if err != nil {
		return err
	}
	defer s.hub.Leave(reader)
	for {
		select {
		case <-ctx.Done():
			// What was told before the end is sent, whether it has been taken or not.
			return s.deliver(s.request, reader)
		case <-reader.Wake():
			err = s.deliver(s.request, reader)
		case <-tick.C:
			if !s.may() {
				return errSignedOut
			}
			err = s.write(ctx, heartbeatComment)
		}
		if err != nil {
			return err
		}
	}
}

// awaitBegin waits until it is known which alerts there are.
func (s *sender) awaitBegin(ctx context.Context, tick *time.Ticker) error {
	for {
		select {
		case <-s.hub.Begun():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if err := s.write(ctx, heartbeatComment); err != nil {
				return err
			}
		}
	}
}

// start sends what the reader wants of the past that is before its place, and
// returns that.
func (s *sender) start(ctx context.Context) (fanout.Place, error) {
	now := s.hub.Now()
	switch {
	case s.query.Resume:
		s.metrics.resumes.Inc()
		return s.resume(ctx), nil
	case s.query.Replay > 0:
		return now.Place, s.replay(ctx, now)
	default:
		// What was stored since it came, while the bus was away or not read yet.
		at := now.Place
		for _, e := range slices.Backward(now.Events) {
			if e.Time.Before(s.came) {
				break
			}
			at.Seq = e.Seq - 1
		}
		return at, nil
	}
}

// resume is the place that the reader says it is at.
func (s *sender) resume(ctx context.Context) fanout.Place {
	now := s.hub.Now()
	for until := time.Now().Add(aheadWait); s.query.Last > now.Seq && ctx.Err() == nil; now = s.hub.Now() {
		if time.Now().After(until) { // the stream was made anew: all of it is news
			return fanout.Place{Generation: now.Generation}
		}
		pause(ctx, aheadLook)
	}
	return fanout.Place{Generation: now.Generation, Seq: s.query.Last}
}

// replay sends the newest alerts that the reader wants, up to now.
func (s *sender) replay(ctx context.Context, now *fanout.Now) error {
	wanted := s.query.Filter.Wanted(now.Events)
	if lacking := s.query.Replay - len(wanted); lacking > 0 && now.From > 1 {
		older, err := s.older(ctx, now.From, lacking)
		if err != nil {
			return err
		}
		slices.Reverse(older)
		wanted = append(older, wanted...)
	}
	return s.events(ctx, wanted[max(len(wanted)-s.query.Replay, 0):])
}

// older are the newest alerts before a place that the reader wants, newest first.
func (s *sender) older(ctx context.Context, before uint64, limit int) ([]*fanout.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, historyIn)
	defer cancel()
	leave, err := s.history.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	first, _, err := s.history.extent(ctx)
	if err != nil || first == 0 {
		return nil, err
	}
	return s.history.back(ctx, before, first, s.query.Filter, limit, maxLooked)
}

// join reads along from a place. What is not kept any more is read from the bus, until
// the rest is kept.
func (s *sender) join(ctx context.Context, at fanout.Place) (*fanout.Reader, error) {
	for {
		reader, err := s.hub.Join(ctx, s.query.Filter, at)
		switch {
		case errors.Is(err, fanout.ErrRenewed):
			at = fanout.Place{Generation: s.hub.Now().Generation}
		case errors.Is(err, fanout.ErrOlder):
			if at, err = s.approach(ctx, at); err != nil {
				return nil, err
			}
		default:
			return reader, err
		}
	}
}

// approach sends the next alerts after a place, up to those that are kept.
func (s *sender) approach(ctx context.Context, at fanout.Place) (fanout.Place, error) {
	now := s.hub.Now()
	if now.Generation != at.Generation || at.Seq+1 >= now.From {
		return at, nil // Join says so, or knows now
	}
	events, next, err := s.span(ctx, at.Seq+1, now.From-1)
	if err != nil {
		return at, err
	}
	at.Seq = next - 1
	return at, s.events(ctx, s.query.Filter.Wanted(events))
}

func (s *sender) span(ctx context.Context, from, end uint64) ([]*fanout.Event, uint64, error) {
	leave, err := s.history.enter(ctx)
	if err != nil {
		return nil, from, err
	}
	defer leave()
	return s.history.from(ctx, from, end)
}

// deliver sends all that there is.
func (s *sender) deliver(ctx context.Context, reader *fanout.Reader) error {
	for {
		t, err := reader.Take(ctx)
		if err != nil {
			return err
		}
		if t.Dropped > 0 {
			s.buf = append(s.buf, droppedEvent(t.Dropped)...)
		}
		if err := s.events(ctx, t.Events); err != nil || !t.More {
			return err
		}
	}
}

// events sends alerts.
func (s *sender) events(ctx context.Context, list []*fanout.Event) error {
	for _, e := range list {
		s.buf = append(s.buf, e.Frame...)
		s.alerts++
		if len(s.buf) >= maxWrite {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
	}
	return s.flush(ctx)
}

// flush sends what was put together.
func (s *sender) flush(ctx context.Context) error {
	if len(s.buf) == 0 {
		return nil
	}
	err := s.write(ctx, s.buf)
	if err == nil {
		s.metrics.sent.Add(float64(s.alerts))
	}
	s.buf, s.alerts = s.buf[:0], 0
	if cap(s.buf) > 4*maxWrite { // after a large alert
		s.buf = nil
	}
	return err
}

// write sends a piece at once.
func (s *sender) write(ctx context.Context, piece []byte) error {
	if err := s.out.SetWriteDeadline(time.Now().Add(writeIn)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", errReaderGone, err)
	}
	if s.life.Err() != nil { // the end may have set its own before that
		_ = s.out.SetWriteDeadline(time.Now().Add(lastIn)) // as just now
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, err := s.w.Write(piece); err != nil {
		return fmt.Errorf("%w: %w", errReaderGone, err)
	}
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errReaderGone, err)
	}
	return nil
}
