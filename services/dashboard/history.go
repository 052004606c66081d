package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// Bounds of reading stored alerts.
const (
	defaultAlerts = 500
	maxAlerts     = 1000
	// maxScanned is how many stored alerts are read, newest first, to find those that a
	// reader wants.
	maxScanned = 10_000
	// maxReads is how many requests read stored alerts at a time; others wait.
	maxReads = 16
	// historyTimeout bounds one request.
	historyTimeout = 10 * time.Second
)

// history reads stored alerts, as [bus.RoleDashboard] may.
type history struct {
	feed  *feed
	slots chan struct{}
}

func newHistory(f *feed) *history { return &history{feed: f, slots: make(chan struct{}, maxReads)} }

// acquire waits until fewer than maxReads requests read.
func (h *history) acquire(ctx context.Context) (release func(), err error) {
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// session returns the bus session, or why there is none.
func (h *history) session() (*bus.Session, error) {
	s := h.feed.link.Session()
	if s == nil {
		return nil, bus.ErrUnreachable
	}
	return s, nil
}

// readForwards reads one batch of alerts from a sequence up to an end, oldest first. It returns
// the next sequence to read, which is after the end when all are read.
func (h *history) readForwards(ctx context.Context, seq, end uint64) (events []*fanout.Event, next uint64, err error) {
	s, err := h.session()
	if err != nil {
		return nil, seq, err
	}
	msgs, err := readFrom(ctx, s, seq, int(min(readBatch, end-seq+1)))
	if err != nil {
		return nil, seq, err
	}
	reached := !hasMore(msgs)
	if len(msgs) > 0 {
		next = msgs[len(msgs)-1].Seq + 1
	}
	for len(msgs) > 0 && msgs[len(msgs)-1].Seq > end {
		msgs, reached = msgs[:len(msgs)-1], true
	}
	if reached {
		next = end + 1
	}
	return h.feed.events(ctx, msgs), next, context.Cause(ctx)
}

// readBackwards reads the alerts before a sequence that match a filter, newest first. It reads
// at most scan messages and returns at most limit alerts.
func (h *history) readBackwards(ctx context.Context, before, first uint64, filter fanout.Filter, limit, scan int) ([]*fanout.Event, error) {
	if before <= 1 {
		return nil, nil
	}
	s, err := h.session()
	if err != nil {
		return nil, err
	}
	var found []*fanout.Event
	r := bus.Range{
		Stream: bus.StreamAlerts, First: max(first, before-min(before-1, uint64(scan))), Last: before - 1,
		Backwards: true, Batch: readBatch, Timeout: readTimeout,
	}
	err = s.Range(ctx, r, func(m bus.Message) error {
		found = append(found, filter.Select(h.feed.events(ctx, []bus.Message{m}))...)
		if len(found) >= limit {
			return bus.ErrStop
		}
		return context.Cause(ctx)
	})
	return found, err
}

// streamBounds returns the first and the last sequence of the stream, 0 if it is empty.
func (h *history) streamBounds(ctx context.Context) (first, last uint64, err error) {
	s, err := h.session()
	if err != nil {
		return 0, 0, err
	}
	newest, found, err := h.feed.newest(ctx, s)
	if err != nil || !found {
		return 0, 0, err
	}
	oldest, err := readFrom(ctx, s, 1, 1)
	if err != nil || len(oldest) == 0 {
		return 0, 0, err
	}
	return oldest[0].Seq, newest.Seq, nil
}

// storedAlert is an alert with its sequence.
type storedAlert struct {
	Seq   uint64          `json:"seq"`
	Alert json.RawMessage `json:"alert"`
}

// alertsReply has the alerts, newest first. First and Last are the sequences that the bus
// holds, 0 if it holds none.
type alertsReply struct {
	Alerts []storedAlert `json:"alerts"`
	First  uint64        `json:"first"`
	Last   uint64        `json:"last"`
}

func (h *handler) alerts(r *http.Request) (any, error) {
	limit, err := numberParam(r, "limit", defaultAlerts, 1, maxAlerts)
	if err != nil {
		return nil, err
	}
	before := uint64(0)
	if text := r.URL.Query().Get("before"); text != "" {
		if before, err = strconv.ParseUint(text, 10, 64); err != nil || before == 0 {
			return nil, httpserve.Refuse(http.StatusBadRequest, "before must be the sequence of an alert")
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	release, err := h.history.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	reply := alertsReply{Alerts: []storedAlert{}}
	if reply.First, reply.Last, err = h.history.streamBounds(ctx); err != nil || reply.Last == 0 {
		return reply, err
	}
	if before == 0 || before > reply.Last {
		before = reply.Last + 1
	}
	found, err := h.history.readBackwards(ctx, before, reply.First, fanout.Filter{}, limit, maxScanned)
	for _, e := range found {
		reply.Alerts = append(reply.Alerts, storedAlert{e.Seq, e.Data})
	}
	return reply, err
}

// numberParam reads a query parameter within bounds.
func numberParam(r *http.Request, name string, fallback, lowest, highest int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < lowest || n > highest {
		return 0, httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf("%s must be between %d and %d", name, lowest, highest))
	}
	return n, nil
}
