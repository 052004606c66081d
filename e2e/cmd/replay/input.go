package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// arrival is one line of the input.
type arrival struct {
	Time  jsontext.Value `json:"time"`
	Event jsontext.Value `json:"event"`
}

// lineForm shows the form of a line, for errors.
const lineForm = `{"time":"2026-01-28T14:30:00.000Z","event":{...}}`

// decode decodes one line and checks its events as ingest does.
func decode(line []byte) (at time.Time, events []telemetry.Event, err error) {
	var a arrival
	if err := json.Unmarshal(line, &a, jsontext.AllowInvalidUTF8(true)); err != nil {
		return at, nil, fmt.Errorf("malformed JSON, want %s: %w", lineForm, err)
	}
	if at, err = arrivalTime(a.Time); err != nil {
		return at, nil, err
	}
	if len(a.Event) == 0 || a.Event.Kind() == 'n' {
		return at, nil, fmt.Errorf("event is missing, want %s", lineForm)
	}
	if events, err = telemetry.Decode(telemetry.FormJSON, a.Event); err != nil {
		var field *telemetry.FieldError
		if errors.As(err, &field) && a.Event.Kind() == '[' {
			return at, nil, fmt.Errorf("event %d: %w", field.Index, err)
		}
		return at, nil, fmt.Errorf("event: %w", err)
	}
	if slices.ContainsFunc(events, func(e telemetry.Event) bool { return telemetry.IsReserved(sanitize.Strip(e.App)) }) {
		return at, nil, fmt.Errorf("event: app must not be %q, which is reserved for what Tocsin reports about itself", telemetry.ReservedApp)
	}
	return at, events, nil
}

func arrivalTime(value jsontext.Value) (time.Time, error) {
	switch {
	case len(value) == 0:
		return time.Time{}, fmt.Errorf("time is missing, want %s", lineForm)
	case value.Kind() == '0':
		var ms float64
		if err := json.Unmarshal(value, &ms); err == nil && ms >= 0 && ms <= 1e14 {
			return time.UnixMilli(int64(ms)).UTC(), nil
		}
	case value.Kind() == '"':
		var at time.Time
		if err := json.Unmarshal(value, &at); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("time must be RFC 3339, such as \"2026-01-28T14:30:00.000Z\", or milliseconds since 1970; got %s", value)
}
