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
// cleans and encodes: all that needs the processor. Its errors are refusals. The caller
// calls release once what was made is stored.
func receive[T any](h *handler, r *http.Request, accepted bodies, prepare func(*body) (T, error)) (made T, release func(), err error) {
	b, err := h.open(r, accepted)
	if err != nil {
		return made, nil, err
	}
	ok := false // until all is done, also if prepare panics
	defer func() {
		if !ok {
			b.release()
		}
	}()
	done, err := h.startDecoding(r.Context(), accepted)
	if err != nil {
		return made, nil, refusePublish(err)
	}
	defer done()
	if err := h.decompress(b); err != nil {
		return made, nil, err
	}
	if made, err = prepare(b); err != nil {
		return made, nil, refuseBody(err)
	}
	ok = true
	return made, b.release, nil
}

// refuseBody makes a refusal of an error of prepare.
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

// startDecoding waits until the processor has room to decode one more body; the function
// that it returns gives the room back.
func (h *handler) startDecoding(ctx context.Context, accepted bodies) (done func(), err error) {
	slots := h.foreignSlots
	if accepted.native {
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

// countLeftOut counts items of a body that became nothing.
func (h *handler) countLeftOut(r *http.Request, n int) {
	if n > 0 {
		h.metrics.leftOut.WithLabelValues(r.Pattern).Add(float64(n))
	}
}
