package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Form is how events are encoded in a body.
type Form int

// The forms of a body.
const (
	// FormJSON is one event or an array of events.
	FormJSON Form = iota
	// FormNDJSON is one event a line; empty lines are skipped.
	FormNDJSON
	// FormAny is either: an array where the body begins with [, else a sequence of events. It
	// is for senders that can't choose a content type.
	FormAny
)

// lenient accepts what browsers send: JSON.stringify keeps lone surrogates of truncated strings,
// which become U+FFFD here.
var lenient = jsontext.AllowInvalidUTF8(true)

// FieldError is returned for an invalid field of an event, with what is allowed.
type FieldError struct {
	// Index is that of the event in the batch, from 0.
	Index int
	// Field is the path of the field, such as log.level, or empty where the event as a whole
	// is invalid.
	Field  string
	Reason string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return "event " + e.Reason
	}
	return e.Field + " " + e.Reason
}

// Decode decodes and validates the events of a body. One invalid event refuses all: the error is
// a *[FieldError] if it is about an event, and another error if the body is not JSON of that
// form.
//
// Unknown fields are ignored, and so are payloads of other kinds, which only have to be JSON. A
// missing app is DefaultApp. The caller limits the size of the body, and with that the size
// of the events.
func Decode(form Form, data []byte) ([]Event, error) {
	data = bytes.Trim(data, space)
	switch {
	case len(data) == 0:
		return nil, errors.New("the body is empty: send an event, an array of events, or one event a line")
	case form == FormNDJSON:
		return decodeLines(data)
	case data[0] == '[':
		return decodeArray(data, (*Event).Validate)
	case form == FormAny && isLines(data):
		return decodeLines(data)
	default:
		return decodeOne(data)
	}
}

// space is what JSON allows between values.
const space = " \t\r\n"

// isLines reports whether a body is NDJSON and not one object on several lines.
func isLines(data []byte) bool {
	line, _, more := bytes.Cut(data, []byte("\n"))
	return more && jsontext.Value(line).IsValid(lenient)
}

func decodeOne(data []byte) ([]Event, error) {
	r, events := newReader(data), make([]Event, 1)
	if err := r.whole(&events[0], nil); err != nil {
		return nil, withLocation(err, 0, 0)
	}
	return events, nil
}

// The initial capacity for events is one for each smallEvent bytes of the body, at most
// maxCapacity.
const (
	smallEvent  = 128
	maxCapacity = 128
)

func newEvents(data []byte) []Event {
	return make([]Event, 0, min(len(data)/smallEvent+1, maxCapacity))
}

// appendEvent appends a zero event, and returns it and the event before it, if any.
func appendEvent(events []Event) (all []Event, e, before *Event) {
	n := len(events)
	events = append(events, Event{})
	if n > 0 {
		before = &events[n-1]
	}
	return events, &events[n], before
}

// decodeLines decodes one event per line. An object on two lines is invalid, and so are two
// objects on one line.
func decodeLines(data []byte) ([]Event, error) {
	events, r := newEvents(data), newReader(nil)
	for line := range bytes.Lines(data) {
		if line = bytes.Trim(line, space); len(line) == 0 {
			continue
		}
		r.reset(line)
		var e, before *Event
		events, e, before = appendEvent(events)
		if err := r.whole(e, before); err != nil {
			return nil, withLocation(err, len(events)-1, 0)
		}
	}
	return events, nil
}

// decodeArray decodes an array of events and validates each.
func decodeArray(data []byte, check func(*Event) *FieldError) ([]Event, error) {
	events, r := newEvents(data), newReader(data)
	if err := r.begin('[', ""); err != nil {
		return nil, withLocation(err, 0, 1)
	}
	for r.dec.PeekKind() != ']' {
		var e, before *Event
		events, e, before = appendEvent(events)
		err := r.event(e, before)
		if err == nil {
			err = asError(check(e))
		}
		if err != nil {
			return nil, withLocation(err, len(events)-1, 1)
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, withLocation(err, len(events), 1)
	}
	if !r.ended() {
		return nil, errors.New("malformed JSON: something stands behind the array")
	}
	return events, nil
}

// withLocation returns an error with the index of its event and the path of its field. The
// first depth tokens of the decoder's pointer locate the event and are removed.
func withLocation(err error, index, depth int) error {
	var field *FieldError
	if errors.As(err, &field) {
		field.Index = index
		return field
	}
	var broken *jsontext.SyntacticError
	if !errors.As(err, &broken) {
		return fmt.Errorf("malformed JSON: %w", err)
	}
	tokens := slices.Collect(broken.JSONPointer.Tokens())
	return &FieldError{
		Index:  index,
		Field:  strings.Join(tokens[min(depth, len(tokens)):], "."),
		Reason: "is malformed JSON: " + withoutPointer(broken),
	}
}

// withoutPointer returns the decoder's message without its pointer: the path of the field
// precedes it.
func withoutPointer(err *jsontext.SyntacticError) string {
	if err.Err != nil {
		return strings.TrimPrefix(err.Err.Error(), "jsontext: ")
	}
	return "syntax error"
}

// Encode encodes events as one message on the bus: a JSON array.
func Encode(events []Event) ([]byte, error) {
	data, err := json.Marshal(events)
	if err != nil {
		return nil, fmt.Errorf("encode events: %w", err)
	}
	return data, nil
}

// DecodeMessage decodes a message on the bus. It does not validate: ingest did.
func DecodeMessage(data []byte) ([]Event, error) {
	events, err := decodeArray(data, func(*Event) *FieldError { return nil })
	if err != nil {
		return nil, fmt.Errorf("decode events: %w", err)
	}
	return events, nil
}
