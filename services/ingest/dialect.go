package ingest

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/ingest/foreign"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// dialect is which bodies one kind of sender sends.
type dialect struct {
	// media are the content types that are taken. Without any, every one is: the
	// body alone says what it is.
	media []string
	// packed says that bodies may come compressed.
	packed bool
	// ours says that the format is our own.
	ours bool
}

// found is what a body holds.
type found struct {
	events []telemetry.Event
	// checked says that the events are known to be valid.
	checked bool
	// leftOut is how many items of the body could not be made events.
	leftOut int
	// answer is what the sender is told once the events are stored, or nil for
	// how many were accepted.
	answer *reply
	// undo is called when the events could not be stored, where it is set.
	undo func()
}

// refusal is an answer as an error, for decoders that say more than a text.
type refusal struct{ reply }

func (r refusal) Error() string { return string(r.body) }

// refuseBody says what is wrong with a body that could not be decoded.
func refuseBody(err error) reply {
	var said refusal
	switch {
	case errors.As(err, &said):
		return said.reply
	case errors.Is(err, foreign.ErrTooMany):
		return refuse(http.StatusRequestEntityTooLarge, err.Error())
	default:
		return refuse(http.StatusBadRequest, err.Error())
	}
}

// decoded reads the body of a request, unpacks it, and has prepare make of it
// what is to be stored, which is all that needs the processor. The reply says why
// not, where ok is false; else release is to be called once it is stored.
func decoded[T any](h *handler, r *http.Request, d dialect, prepare func(media string, data []byte) (T, error)) (made T, release func(), refused reply, ok bool) {
	b, refused, ok := h.open(r, d)
	if !ok {
		return made, nil, refused, false
	}
	ok = false // until all is done, and when prepare ends in a bug
	defer func() {
		if !ok {
			b.release()
		}
	}()
	done, err := h.work(r.Context(), d)
	if err != nil {
		return made, nil, refusePublish(err), false
	}
	defer done()
	if refused, ok := h.unpack(b); !ok {
		return made, nil, refused, false
	}
	if made, err = prepare(b.media, b.data); err != nil {
		return made, nil, refuseBody(err), false
	}
	return made, b.release, reply{}, true
}

// takeEvents serves a sender of telemetry: it reads the body, has it decoded,
// and answers once the events are stored. Events that are not valid are left out
// and counted, unless decode says that it has checked them.
func (h *handler) takeEvents(r *http.Request, d dialect, decode func(media string, data []byte) (found, error)) reply {
	batch, release, refused, ok := decoded(h, r, d, func(media string, data []byte) (batch, error) {
		in, err := decode(media, data)
		if err != nil {
			return batch{}, err
		}
		return h.prepare(r, in)
	})
	if !ok {
		return refused
	}
	defer release()
	if len(batch.messages) > 0 {
		if err := h.publish(r.Context(), batch.messages...); err != nil {
			if batch.undo != nil {
				batch.undo()
			}
			return refusePublish(err)
		}
		h.accepted()
	}
	for kind, n := range batch.kinds {
		h.metrics.took(kind, n)
	}
	h.leftOut(r, batch.leftOut)
	if batch.answer != nil {
		return *batch.answer
	}
	return acceptedReply(batch.size)
}

// leftOut counts items of a body that became nothing.
func (h *handler) leftOut(r *http.Request, n int) {
	if n > 0 {
		h.metrics.leftOut.WithLabelValues(r.Pattern).Add(float64(n))
	}
}

// batch is what one request becomes on the bus.
type batch struct {
	found
	messages []*nats.Msg
	size     int
	kinds    map[telemetry.Kind]int
}

// prepare cleans and encodes.
func (h *handler) prepare(r *http.Request, in found) (batch, error) {
	if !in.checked {
		in.dropInvalid()
	}
	now := stamp(h.now())
	kinds := make(map[telemetry.Kind]int, len(telemetry.Kinds()))
	cleanEvents(in.events, h.masker, now)
	for i := range in.events {
		kinds[in.events[i].Kind]++
	}
	msgs, err := messages(in.events, sender(r.UserAgent(), h.masker))
	if err != nil {
		// Unreachable for valid events, as the fuzzer says; not a panic all the same.
		return batch{}, refusal{refuse(http.StatusInternalServerError, err.Error())}
	}
	size := len(in.events)
	in.events = nil // they are encoded
	return batch{in, msgs, size, kinds}, nil
}

// dropInvalid leaves out what the contract does not allow.
func (f *found) dropInvalid() {
	kept := f.events[:0]
	for i := range f.events {
		e := &f.events[i]
		if e.App == "" {
			e.App = telemetry.DefaultApp
		}
		if e.Validate() != nil {
			f.leftOut++
			continue
		}
		kept = append(kept, *e)
	}
	f.events = kept
}

func (h *handler) publish(ctx context.Context, msgs ...*nats.Msg) error {
	start := time.Now()
	err := h.sink.Publish(ctx, msgs...)
	if err == nil {
		h.metrics.publishSeconds.Observe(time.Since(start).Seconds())
	}
	return err
}
