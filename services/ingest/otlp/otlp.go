// Package otlp decodes the export requests of OTLP/HTTP, in protobuf and in JSON: log
// records become log events, spans with an HTTP status or an error become network events,
// recorded exceptions become error logs, and memory gauges become memory events.
// Everything else is accepted and ignored.
//
// It knows the current and the former stable names of attributes and metrics in
// OpenTelemetry's semantic conventions. guard.go bounds requests before they are decoded.
package otlp

import (
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Signal is the kind of telemetry that a request exports.
type Signal int

// The signals, each with a path of its own.
const (
	Logs Signal = iota
	Traces
	Metrics
)

// items names the items of a request in error messages.
func (s Signal) items() string {
	switch s {
	case Logs:
		return "log records"
	case Traces:
		return "spans"
	default:
		return "data points"
	}
}

// Encoding is the encoding of a request and of its response.
type Encoding int

// The encodings of OTLP/HTTP.
const (
	Protobuf Encoding = iota
	JSON
)

func (e Encoding) String() string {
	if e == JSON {
		return "JSON"
	}
	return "protobuf"
}

// Decoded is the result of decoding a request.
type Decoded struct {
	// Events are valid. Their Time is zero if the sender sent none.
	Events []telemetry.Event
	// Rejected counts the malformed log records, spans and data points. Ignored ones are
	// not counted.
	Rejected int
	// Reason describes the mistake in the first rejected one.
	Reason string
}

func (d *Decoded) reject(reason string) {
	if d.Rejected == 0 {
		d.Reason = reason
	}
	d.Rejected++
}

func (d *Decoded) add(e telemetry.Event) error {
	if len(d.Events) == decoding.MaxItems {
		return fmt.Errorf("the request makes more than %d events: %w", decoding.MaxItems, decoding.ErrTooMany)
	}
	d.Events = append(d.Events, e)
	return nil
}

// Decode reads one export request. The result does not point into data. An error wraps
// decoding.ErrTooMany if the request is too large; else the request is malformed.
func Decode(signal Signal, enc Encoding, data []byte) (Decoded, error) {
	if err := check(signal, enc, data); err != nil {
		return Decoded{}, err
	}
	var (
		d   Decoded
		err error
	)
	switch signal {
	case Logs:
		r := plogotlp.NewExportRequest()
		if err = unmarshal(r, enc, data); err == nil {
			err = d.logs(r.Logs())
		}
	case Traces:
		r := ptraceotlp.NewExportRequest()
		if err = unmarshal(r, enc, data); err == nil {
			err = d.traces(r.Traces())
		}
	default:
		r := pmetricotlp.NewExportRequest()
		if err = unmarshal(r, enc, data); err == nil {
			err = d.metrics(r.Metrics())
		}
	}
	if err != nil {
		return Decoded{}, err
	}
	return d, nil
}

type request interface {
	UnmarshalProto([]byte) error
	UnmarshalJSON([]byte) error
}

func unmarshal(r request, enc Encoding, data []byte) error {
	read := r.UnmarshalProto
	if enc == JSON {
		read = r.UnmarshalJSON
	}
	if err := read(data); err != nil {
		// The JSON decoder lists all errors; the first is enough.
		text, _, _ := strings.Cut(err.Error(), " of ...|")
		return malformed(enc, errors.New(text))
	}
	return nil
}

func malformed(enc Encoding, err error) error {
	return fmt.Errorf("the body is not an OTLP export request in %s: %w", enc, err)
}
