package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Form says how events stand in a body.
type Form int

// The forms of a body.
const (
	// FormJSON is one event or an array of events.
	FormJSON Form = iota
	// FormNDJSON is one event a line; empty lines are skipped.
	FormNDJSON
	// FormAny is either: an array where the body begins with [, else a
	// sequence of events. It is for senders that can't choose a content type.
	FormAny
)

// lenient takes what browsers send: JSON.stringify leaves lone surrogates of
// cut strings in, which become U+FFFD here.
var lenient = jsontext.AllowInvalidUTF8(true)

// FieldError says which field of which event is wrong and what is allowed.
type FieldError struct {
	// Index is the event's place in the batch, from 0.
	Index int
	// Field is the path of the field, such as log.level, or empty where the
	// event as a whole is wrong.
	Field  string
	Reason string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return "event " + e.Reason
	}
	return e.Field + " " + e.Reason
}

// Decode reads and validates the events of a body. One that is wrong refuses
// all: then the error is a *FieldError where it is about an event, and another
// error where the body is not JSON of that form.
//
// Unknown fields are ignored, a missing app is DefaultApp. Limits on the size
// of the body are the caller's.
func Decode(form Form, data []byte) ([]Event, error) {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 {
		return nil, errors.New("the body is empty: send an event, an array of events, or one event a line")
	}
	var events []Event
	var err error
	switch {
	case data[0] == '[' && form != FormNDJSON:
		events, err = decodeArray(data)
	case form == FormJSON:
		events = make([]Event, 1)
		err = located(0, json.Unmarshal(data, &events[0], lenient), 0)
	default:
		events, err = decodeSequence(data)
	}
	if err != nil {
		return nil, err
	}
	for i := range events {
		if events[i].App == "" {
			events[i].App = DefaultApp
		}
		if err := events[i].Validate(); err != nil {
			err.Index = i
			return nil, err
		}
	}
	return events, nil
}

// Room for events before the first is decoded: what fits of small ones, and
// never more than a bound, whatever a body claims to be.
const (
	smallEvent = 128
	maxRoom    = 128
)

func decodeArray(data []byte) ([]Event, error) {
	events := make([]Event, 0, min(len(data)/smallEvent+1, maxRoom))
	err := json.Unmarshal(data, &events, lenient)
	return events, located(0, err, 1)
}

func decodeSequence(data []byte) ([]Event, error) {
	var events []Event
	dec := jsontext.NewDecoder(bytes.NewReader(data), lenient)
	for i := 0; ; i++ {
		var e Event
		err := json.UnmarshalDecode(dec, &e)
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, located(i, err, 0)
		}
		events = append(events, e)
	}
}

// located turns a decoder's error into one that names the event and the field.
// The first depth tokens of the decoder's pointer are the event's place.
func located(index int, err error, depth int) error {
	if err == nil {
		return nil
	}
	var typed *json.SemanticError
	var broken *jsontext.SyntacticError
	var pointer jsontext.Pointer
	switch {
	case errors.As(err, &typed):
		pointer = typed.JSONPointer
	case errors.As(err, &broken):
		pointer = broken.JSONPointer
	default:
		return fmt.Errorf("malformed JSON: %w", err)
	}
	tokens := strings.Split(strings.TrimPrefix(string(pointer), "/"), "/")
	if pointer == "" {
		tokens = nil
	}
	if depth == 1 && len(tokens) > 0 {
		if i, err := strconv.Atoi(tokens[0]); err == nil {
			index, tokens = i, tokens[1:]
		}
	}
	field := strings.Join(tokens, ".")
	if typed == nil {
		return &FieldError{Index: index, Field: field, Reason: "is malformed JSON: " + withoutPointer(broken)}
	}
	return &FieldError{Index: index, Field: field, Reason: "must be " + wanted(tokens)}
}

// withoutPointer is the decoder's own words; the pointer is said before them.
func withoutPointer(err *jsontext.SyntacticError) string {
	if err.Err != nil {
		return strings.TrimPrefix(err.Err.Error(), "jsontext: ")
	}
	return "syntax error"
}

// wanted says which type a field has.
func wanted(tokens []string) string {
	if len(tokens) == 0 {
		return "a JSON object"
	}
	if w, ok := types[strings.Join(tokens, ".")]; ok {
		return w
	}
	if len(tokens) > 2 { // headers and args
		return "a string, a number or a boolean"
	}
	return "a string"
}

// types names the types of the fields that are no strings.
var types = map[string]string{
	"time":                     "an RFC 3339 time such as 2026-01-28T14:30:00.000Z",
	"log":                      "an object",
	"network":                  "an object",
	"vitals":                   "an object",
	"action":                   "an object",
	"memory":                   "an object",
	"circuit":                  "an object",
	"security":                 "an object",
	"log.args":                 "an array",
	"network.status":           "a whole number from 0 to 599",
	"network.duration_ms":      "a number of milliseconds",
	"network.request_headers":  "an object of strings",
	"network.response_headers": "an object of strings",
	"vitals.fcp_ms":            "a number of milliseconds",
	"vitals.lcp_ms":            "a number of milliseconds",
	"vitals.inp_ms":            "a number of milliseconds",
	"vitals.ttfb_ms":           "a number of milliseconds",
	"vitals.load_ms":           "a number of milliseconds",
	"vitals.cls":               "a number",
	"memory.used_bytes":        "a number of bytes",
	"memory.limit_bytes":       "a number of bytes",
}

// statusMissing marks a request without a status while it is validated: a
// missing one is an error, and 0 is not.
const statusMissing = math.MinInt

// UnmarshalJSONFrom tells a missing status from 0.
func (n *Network) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain Network
	var p struct {
		plain
		Status *int `json:"status"`
	}
	if err := json.UnmarshalDecode(dec, &p); err != nil {
		return err
	}
	*n = Network(p.plain)
	n.Status = statusMissing
	if p.Status != nil {
		n.Status = *p.Status
	}
	return nil
}

// Encode writes events as one message of the bus: a JSON array.
func Encode(events []Event) ([]byte, error) {
	data, err := json.Marshal(events)
	if err != nil {
		return nil, fmt.Errorf("encode events: %w", err)
	}
	return data, nil
}

// DecodeMessage reads a message of the bus. It doesn't validate: what stands
// on the bus was accepted.
func DecodeMessage(data []byte) ([]Event, error) {
	var events []Event
	if err := json.Unmarshal(data, &events, lenient); err != nil {
		return nil, fmt.Errorf("decode events: %w", err)
	}
	for i := range events {
		if events[i].App == "" {
			events[i].App = DefaultApp
		}
	}
	return events, nil
}
