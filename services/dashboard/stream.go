package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// Bounds of /events/stream.
const (
	// maxReaders is the maximum number of readers; more are refused.
	maxReaders = 256
	// readersRetry is how many seconds a refused reader waits before it retries.
	readersRetry = 5
	// heartbeat is the time between two comments that show readers that the stream is alive.
	heartbeat = 15 * time.Second
	// writeTimeout bounds one write to a reader, which counts as gone after it.
	writeTimeout = 30 * time.Second
	// maxWrite is how many bytes are written at once, unless one alert is larger.
	maxWrite = 64 << 10
	// aheadWait is how long a position that is ahead of this dashboard is waited for. A reader
	// that comes from another dashboard may have read more than this one, which catches up
	// within checkEvery. If it does not, the stream was recreated.
	aheadWait = checkEvery + time.Second
	aheadPoll = 20 * time.Millisecond
)

// hello starts a stream: a browser that loses it reconnects after a second.
var hello = httpserve.AppendComment(httpserve.AppendRetry(nil, time.Second), "tocsin")

// heartbeatComment keeps the connection open, through proxies, too.
var heartbeatComment = httpserve.AppendComment(nil, "heartbeat")

// droppedEvent returns the event with the number of alerts that a slow reader missed.
func droppedEvent(alerts int) []byte {
	return httpserve.AppendEvent(nil, httpserve.ServerSentEvent{Name: "dropped", Data: fmt.Appendf(nil, `{"dropped":%d}`, alerts)})
}

// errReaderGone is returned when a reader can't be written to.
var errReaderGone = errors.New("the reader is gone")

// errSignedOut is returned when the sign-in of a reader has expired.
var errSignedOut = errors.New("the reader's sign-in has expired")

// stream sends alerts until the reader leaves or the dashboard stops.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) error {
	q, err := parseStreamQuery(r)
	if err != nil {
		return httpserve.Refuse(http.StatusBadRequest, err.Error())
	}
	select {
	case h.readers <- struct{}{}:
		defer func() { <-h.readers }()
	default:
		h.metrics.full.Inc()
		return httpserve.Refuse(http.StatusServiceUnavailable, fmt.Sprintf("too many readers, the limit is %d: close one", maxReaders)).Retry(readersRetry)
	}
	header := w.Header()
	header.Set("Content-Type", httpserve.EventStreamType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // a proxy must not buffer it
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.serving, cancel)()
	s := readerStream{handler: h, mayRead: func() bool { return h.access.CheckRead(r) == nil }, query: q, request: r.Context(), controller: http.NewResponseController(w), w: w, joined: time.Now()}
	// The request is read, and the answer may take days.
	if err := s.controller.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	// A write to a slow reader must not delay the shutdown for long.
	defer context.AfterFunc(ctx, func() { _ = s.controller.SetWriteDeadline(time.Now().Add(graceTimeout)) })()
	if err := s.run(ctx); err != nil && ctx.Err() == nil {
		h.log.Debug("a reader of the alerts has left", "error", err)
	}
	return nil
}

// readerStream is the stream of alerts to one reader.
type readerStream struct {
	*handler
	// mayRead reports whether the reader may still read: a sign-in expires.
	mayRead func() bool
	query   streamQuery
	// request ends when the reader has gone.
	request    context.Context
	controller *http.ResponseController
	w          http.ResponseWriter
	joined     time.Time
	buf        []byte
	// alerts is the number of alerts in buf.
	alerts int
}

func (s *readerStream) run(ctx context.Context) error {
	if err := s.write(ctx, hello); err != nil {
		return err
	}
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	if err := s.awaitLoaded(ctx, tick); err != nil {
		return err
	}
	position, err := s.startPosition(ctx)
	if err != nil {
		return err
	}
	reader, err := s.join(ctx, position)
	if err != nil {
		return err
	}
	defer s.hub.Leave(reader)
	for {
		select {
		case <-ctx.Done():
			// Alerts that were published before the end are still sent.
			return s.deliver(s.request, reader)
		case <-reader.Wake():
			err = s.deliver(s.request, reader)
		case <-tick.C:
			if !s.mayRead() {
				return errSignedOut
			}
			err = s.write(ctx, heartbeatComment)
		}
		if err != nil {
			return err
		}
	}
}

// awaitLoaded waits until the newest alerts were read.
func (s *readerStream) awaitLoaded(ctx context.Context, tick *time.Ticker) error {
	for {
		select {
		case <-s.hub.Loaded():
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

// startPosition returns the position from which the reader follows. It first sends the alerts
// that the reader asked to have replayed.
func (s *readerStream) startPosition(ctx context.Context) (fanout.Position, error) {
	now := s.hub.Snapshot()
	switch {
	case s.query.resume:
		s.metrics.resumes.Inc()
		return s.resume(ctx), nil
	case s.query.replay > 0:
		return now.Position, s.replay(ctx, now)
	default:
		// Not simply the end: alerts that were stored after the reader joined are new to
		// it, also if the bus was unreachable meanwhile.
		position := now.Position
		for _, e := range slices.Backward(now.Events) {
			if e.Time.Before(s.joined) {
				break
			}
			position.Seq = e.Seq - 1
		}
		return position, nil
	}
}

// resume returns the position that the reader names.
func (s *readerStream) resume(ctx context.Context) fanout.Position {
	now := s.hub.Snapshot()
	for until := time.Now().Add(aheadWait); s.query.last > now.Seq && ctx.Err() == nil; now = s.hub.Snapshot() {
		if time.Now().After(until) { // the stream was recreated: all of it is new
			return fanout.Position{Generation: now.Generation}
		}
		pause(ctx, aheadPoll)
	}
	return fanout.Position{Generation: now.Generation, Seq: s.query.last}
}

// replay sends the newest alerts that the reader wants, up to a snapshot.
func (s *readerStream) replay(ctx context.Context, now *fanout.Snapshot) error {
	wanted := s.query.filter.Select(now.Events)
	if missing := s.query.replay - len(wanted); missing > 0 && now.From > 1 {
		older, err := s.readOlder(ctx, now.From, missing)
		if err != nil {
			return err
		}
		slices.Reverse(older)
		wanted = append(older, wanted...)
	}
	return s.sendEvents(ctx, wanted[max(len(wanted)-s.query.replay, 0):])
}

// readOlder reads the newest alerts before a sequence that the reader wants, newest first.
func (s *readerStream) readOlder(ctx context.Context, before uint64, limit int) ([]*fanout.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	release, err := s.history.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	first, _, err := s.history.streamBounds(ctx)
	if err != nil || first == 0 {
		return nil, err
	}
	return s.history.readBackwards(ctx, before, first, s.query.filter, limit, maxScanned)
}

// join joins the hub at a position. Alerts that the hub does not keep are first read from
// the bus.
func (s *readerStream) join(ctx context.Context, position fanout.Position) (*fanout.Reader, error) {
	for {
		reader, err := s.hub.Join(ctx, s.query.filter, position)
		switch {
		case errors.Is(err, fanout.ErrRecreated):
			position = fanout.Position{Generation: s.hub.Snapshot().Generation}
		case errors.Is(err, fanout.ErrTooOld):
			if position, err = s.sendUntilBacklog(ctx, position); err != nil {
				return nil, err
			}
		default:
			return reader, err
		}
	}
}

// sendUntilBacklog sends the next alerts after a position, up to those that the hub keeps, and
// returns the position after them.
func (s *readerStream) sendUntilBacklog(ctx context.Context, position fanout.Position) (fanout.Position, error) {
	now := s.hub.Snapshot()
	if now.Generation != position.Generation || position.Seq+1 >= now.From {
		return position, nil // Join decides
	}
	events, next, err := s.readSpan(ctx, position.Seq+1, now.From-1)
	if err != nil {
		return position, err
	}
	position.Seq = next - 1
	return position, s.sendEvents(ctx, s.query.filter.Select(events))
}

// readSpan reads the alerts from a sequence up to an end, and returns the next sequence.
func (s *readerStream) readSpan(ctx context.Context, from, end uint64) ([]*fanout.Event, uint64, error) {
	release, err := s.history.acquire(ctx)
	if err != nil {
		return nil, from, err
	}
	defer release()
	return s.history.readForwards(ctx, from, end)
}

// deliver sends everything that the reader can take.
func (s *readerStream) deliver(ctx context.Context, reader *fanout.Reader) error {
	for {
		batch, err := reader.Take(ctx)
		if err != nil {
			return err
		}
		if batch.Dropped > 0 {
			s.buf = append(s.buf, droppedEvent(batch.Dropped)...)
		}
		if err := s.sendEvents(ctx, batch.Events); err != nil || !batch.More {
			return err
		}
	}
}

// sendEvents sends alerts.
func (s *readerStream) sendEvents(ctx context.Context, list []*fanout.Event) error {
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

// flush writes the buffer.
func (s *readerStream) flush(ctx context.Context) error {
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

// write writes and flushes bytes.
func (s *readerStream) write(ctx context.Context, data []byte) error {
	if err := s.controller.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", errReaderGone, err)
	}
	if s.serving.Err() != nil { // the shutdown may have set its deadline before
		_ = s.controller.SetWriteDeadline(time.Now().Add(graceTimeout)) // the same connection as above
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, err := s.w.Write(data); err != nil {
		return fmt.Errorf("%w: %w", errReaderGone, err)
	}
	if err := s.controller.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errReaderGone, err)
	}
	return nil
}
