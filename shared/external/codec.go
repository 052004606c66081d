package external

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Append appends an alert as JSON to dst. A message on the bus is an array of them.
func Append(dst []byte, a *Alert) ([]byte, error) {
	data, err := json.Marshal(a, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return dst, fmt.Errorf("encode an alert of %s: %w", a.Source, err)
	}
	return append(dst, data...), nil
}

// DecodeMessage decodes a message on the bus: an array of valid alerts. Only the size of data
// bounds their number.
func DecodeMessage(data []byte) ([]Alert, error) {
	var alerts []Alert
	if err := json.Unmarshal(data, &alerts, jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("decode alerts: %w", err)
	}
	if alerts == nil {
		return nil, errors.New("decode alerts: no array")
	}
	for i := range alerts {
		if err := alerts[i].Validate(); err != nil {
			return nil, fmt.Errorf("decode alerts: %d: %w", i, err)
		}
	}
	return alerts, nil
}
