package ingest

import (
	"net/http"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// decodedEvents are the events of a body.
type decodedEvents struct {
	events []telemetry.Event
	// isValid is set if the events are known to be valid. Otherwise invalid ones are dropped.
	isValid bool
	// skipped is how many items of the body became no event.
	skipped int
	// answer is the answer once the events are stored. If it is nil, the answer is how many
	// were accepted.
	answer *httpserve.Answer
	// undo is called when the events could not be stored. It may be nil.
	undo func()
}

// receiveEvents decodes, cleans and stores the events of a request. It answers once they
// are stored.
func (h *handler) receiveEvents(r *http.Request, s *sender) (httpserve.Answer, error) {
	batch, release, err := receive(h, r, s.bodies, func(b *body) (eventBatch, error) {
		decoded, err := s.events(r, b)
		if err != nil {
			return eventBatch{}, err
		}
		return h.prepareEvents(r, decoded)
	})
	if err != nil {
		return httpserve.Answer{}, err
	}
	defer release()
	if len(batch.messages) > 0 {
		if err := h.publish(r.Context(), batch.messages...); err != nil {
			if batch.undo != nil {
				batch.undo()
			}
			return httpserve.Answer{}, refusePublish(err)
		}
		h.accepted()
	}
	for kind, n := range batch.kinds {
		h.metrics.countEvents(kind, n)
	}
	h.countSkipped(r, batch.skipped)
	if batch.answer != nil {
		return *batch.answer, nil
	}
	return answerAccepted(batch.size), nil
}

// eventBatch has the messages for the bus of one request with events.
type eventBatch struct {
	decodedEvents
	messages []*nats.Msg
	size     int
	kinds    map[telemetry.Kind]int
}

// prepareEvents cleans and encodes events.
func (h *handler) prepareEvents(r *http.Request, decoded decodedEvents) (eventBatch, error) {
	if !decoded.isValid {
		decoded.dropInvalid()
	}
	kinds := make(map[telemetry.Kind]int, len(telemetry.Kinds()))
	cleanEvents(decoded.events, h.masker, eventTime(h.now()))
	for i := range decoded.events {
		kinds[decoded.events[i].Kind]++
	}
	msgs, err := eventMessages(decoded.events, productOf(r.UserAgent(), h.masker))
	if err != nil { // unreachable for valid events, as the fuzzer shows
		return eventBatch{}, httpserve.Refuse(http.StatusInternalServerError, err.Error())
	}
	size := len(decoded.events)
	decoded.events = nil // they are encoded
	return eventBatch{decoded, msgs, size, kinds}, nil
}

// dropInvalid drops the events that break the rules of docs/reference/events.md.
func (d *decodedEvents) dropInvalid() {
	kept := d.events[:0]
	for i := range d.events {
		e := &d.events[i]
		if e.App == "" {
			e.App = telemetry.DefaultApp
		}
		if e.Validate() != nil {
			d.skipped++
			continue
		}
		kept = append(kept, *e)
	}
	d.events = kept
}

// eventTime returns a time in the precision of events: UTC, milliseconds.
func eventTime(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
