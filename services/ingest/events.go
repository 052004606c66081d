package ingest

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	typeJSON   = "application/json"
	typeNDJSON = "application/x-ndjson"
	typeText   = "text/plain"
)

// events takes one event, an array of events, or one event a line: as many as
// maxBody has room for, which is some 28,000 of the smallest. Of a batch with a
// wrong event nothing is taken.
func (h *handler) events(r *http.Request) reply {
	media, refusal, ok := contentType(r, typeJSON, typeNDJSON, typeText)
	if !ok {
		return refusal
	}
	b, refusal, ok := h.read(r)
	if !ok {
		return refusal
	}
	defer b.release()
	batch, refusal, ok := h.prepare(r, media, b.data)
	if !ok {
		return refusal
	}
	if len(batch.messages) == 0 {
		return acceptedReply(0)
	}
	if err := h.publish(r.Context(), batch.messages...); err != nil {
		return refusePublish(err)
	}
	for kind, n := range batch.kinds {
		h.metrics.events.WithLabelValues(string(kind)).Add(float64(n))
	}
	h.accepted()
	return acceptedReply(batch.size)
}

// batch is what one request becomes on the bus.
type batch struct {
	messages []*nats.Msg
	size     int
	kinds    map[telemetry.Kind]int
}

// prepare decodes, cleans and encodes: all that needs the processor.
func (h *handler) prepare(r *http.Request, media string, data []byte) (batch, reply, bool) {
	done, err := h.work(r.Context())
	if err != nil {
		return batch{}, refusePublish(err), false
	}
	defer done()
	events, err := telemetry.Decode(form(media), data)
	if err != nil {
		return batch{}, refuseEvents(err, isBatch(media, data)), false
	}
	now := stamp(h.now())
	kinds := make(map[telemetry.Kind]int, len(telemetry.Kinds()))
	cleanEvents(events, h.masker, now)
	for i := range events {
		kinds[events[i].Kind]++
	}
	msgs, err := messages(events, sender(r.UserAgent(), h.masker))
	if err != nil {
		// Unreachable for what Decode gives, as the fuzzer says; not a panic all the same.
		return batch{}, refuse(http.StatusInternalServerError, err.Error()), false
	}
	return batch{msgs, len(events), kinds}, reply{}, true
}

// isBatch says whether a body is meant to hold more than one event: all are but
// a JSON object.
func isBatch(media string, data []byte) bool {
	return media != typeJSON || bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("["))
}

func form(media string) telemetry.Form {
	switch media {
	case typeJSON:
		return telemetry.FormJSON
	case typeNDJSON:
		return telemetry.FormNDJSON
	default:
		return telemetry.FormAny
	}
}

// stamp is a time as events carry it: UTC, milliseconds.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func (h *handler) publish(ctx context.Context, msgs ...*nats.Msg) error {
	start := time.Now()
	err := h.sink.Publish(ctx, msgs...)
	if err == nil {
		h.metrics.publishSeconds.Observe(time.Since(start).Seconds())
	}
	return err
}
