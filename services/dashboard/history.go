package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// Bounds of reading alerts of the past.
const (
	defaultAlerts = 500
	maxAlerts     = 1000
	// maxLooked is how many alerts are looked through, newest first, for those that
	// a reader wants of the past.
	maxLooked = 10_000
	// reads is how many requests read the past at once; others wait.
	reads = 16
	// historyIn bounds one request for it.
	historyIn = 10 * time.Second
)

// history reads the alerts of the past, as bus.RoleDashboard may.
type history struct {
	feed   *feed
	places chan struct{}
}

func newHistory(f *feed) *history { return &history{feed: f, places: make(chan struct{}, reads)} }

// enter waits for a place to read in; the function gives it back.
func (h *history) enter(ctx context.Context) (leave func(), err error) {
	select {
	case h.places <- struct{}{}:
		return func() { <-h.places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// conn is the connection, or why there is none.
func (h *history) conn() (*bus.Conn, error) {
	c := h.feed.conn.Load()
	if c == nil {
		return nil, bus.ErrAway
	}
	return c, nil
}

// from reads alerts from a place on, up to an end, oldest first: as many as come in
// one answer. Next is where to read on, and past the end when all is read.
func (h *history) from(ctx context.Context, seq, end uint64) (events []*fanout.Event, next uint64, err error) {
	c, err := h.conn()
	if err != nil {
		return nil, seq, err
	}
	msgs, err := readFrom(ctx, c, seq, int(min(readBatch, end-seq+1)))
	if err != nil {
		return nil, seq, err
	}
	reached := !more(msgs)
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

// back reads the alerts before a place that pass a filter, newest first: at most
// limit, of the newest look that there are.
func (h *history) back(ctx context.Context, before, first uint64, filter fanout.Filter, limit, look int) ([]*fanout.Event, error) {
	var found []*fanout.Event
	for end := before - 1; end >= max(first, 1) && len(found) < limit && look > 0; {
		size := uint64(min(readBatch, look))
		begin := max(first, end-min(end-1, size-1))
		var span []*fanout.Event
		for at := begin; at <= end; {
			events, next, err := h.from(ctx, at, end)
			if err != nil {
				return nil, err
			}
			span, at = append(span, filter.Wanted(events)...), next
		}
		slices.Reverse(span)
		found = append(found, span...)
		look -= int(end - begin + 1)
		end = begin - 1
	}
	return found[:min(len(found), limit)], nil
}

// extent is the oldest and the newest place of the stream, 0 where it is empty.
func (h *history) extent(ctx context.Context) (first, last uint64, err error) {
	c, err := h.conn()
	if err != nil {
		return 0, 0, err
	}
	newest, found, err := h.feed.newest(ctx, c)
	if err != nil || !found {
		return 0, 0, err
	}
	oldest, err := readFrom(ctx, c, 1, 1)
	if err != nil || len(oldest) == 0 {
		return 0, 0, err
	}
	return oldest[0].Seq, newest.Seq, nil
}

// storedAlert is one alert of the history.
type storedAlert struct {
	Seq   uint64          `json:"seq"`
	Alert json.RawMessage `json:"alert"`
}

// alertsReply has the alerts newest first. First and Last are the places of the
// oldest and the newest that the bus holds, 0 where it holds none.
type alertsReply struct {
	Alerts []storedAlert `json:"alerts"`
	First  uint64        `json:"first"`
	Last   uint64        `json:"last"`
}

func (h *handler) alerts(r *http.Request) (any, error) {
	limit, err := number(r, "limit", defaultAlerts, 1, maxAlerts)
	if err != nil {
		return nil, err
	}
	before := uint64(0)
	if text := r.URL.Query().Get("before"); text != "" {
		if before, err = strconv.ParseUint(text, 10, 64); err != nil || before == 0 {
			return nil, httpserve.Refuse(http.StatusBadRequest, "before must be the sequence of an alert")
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyIn)
	defer cancel()
	leave, err := h.history.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	reply := alertsReply{Alerts: []storedAlert{}}
	if reply.First, reply.Last, err = h.history.extent(ctx); err != nil || reply.Last == 0 {
		return reply, err
	}
	if before == 0 || before > reply.Last {
		before = reply.Last + 1
	}
	found, err := h.history.back(ctx, before, reply.First, fanout.Filter{}, limit, maxLooked)
	for _, e := range found {
		reply.Alerts = append(reply.Alerts, storedAlert{e.Seq, e.Data})
	}
	return reply, err
}

// number reads a parameter of a query.
func number(r *http.Request, name string, usual, least, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf("%s must be between %d and %d", name, least, most))
	}
	return n, nil
}
