package ingest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// receive reads the body of a request, decompresses it and calls prepare, which decodes,
// cleans and encodes. If receive returns an error, the request is refused. The caller calls
// release once the result is stored.
func receive[T any](h *handler, r *http.Request, accepted bodyFormat, prepare func(*body) (T, error)) (prepared T, release func(), err error) {
	b, err := h.readBody(r, accepted)
	if err != nil {
		return prepared, nil, err
	}
	ok := false // stays false if prepare fails or panics: the body is then released
	defer func() {
		if !ok {
			b.release()
		}
	}()
	done, err := h.startDecoding(r.Context(), accepted)
	if err != nil {
		return prepared, nil, refusePublish(err)
	}
	defer done()
	if err := h.decompress(b); err != nil {
		return prepared, nil, err
	}
	if prepared, err = prepare(b); err != nil {
		return prepared, nil, refuseBody(err)
	}
	ok = true
	return prepared, b.release, nil
}

// refuseBody returns the refusal for an error of prepare.
func refuseBody(err error) error {
	switch {
	case httpserve.AsRefusal(err) != nil:
		return err
	case errors.Is(err, decoding.ErrTooMany):
		return httpserve.Refuse(http.StatusRequestEntityTooLarge, err.Error())
	default:
		return httpserve.Refuse(http.StatusBadRequest, err.Error())
	}
}

// startDecoding waits for a slot to decode a body; done releases the slot.
func (h *handler) startDecoding(ctx context.Context, accepted bodyFormat) (done func(), err error) {
	slots := h.foreignSlots
	if accepted.isNative {
		slots = h.nativeSlots
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// publish writes to the bus, and measures how long that takes.
func (h *handler) publish(ctx context.Context, msgs ...*nats.Msg) error {
	start := time.Now()
	err := h.sink.Publish(ctx, msgs...)
	if err == nil {
		h.metrics.publishSeconds.Observe(time.Since(start).Seconds())
	}
	return err
}

// countSkipped counts items of a body that were not stored.
func (h *handler) countSkipped(r *http.Request, n int) {
	if n > 0 {
		h.metrics.leftOut.WithLabelValues(r.Pattern).Add(float64(n))
	}
}
