// Package browserreports decodes what browsers report by themselves: the reports of the
// Reporting API (w3.org/TR/reporting-1), among them those of Network Error
// Logging, and the older CSP reports of report-uri.
//
// It decides what a report becomes: violations of a policy are security events,
// failed requests are requests, all else is a log line. It reads no clock: the
// caller says when the reports arrived, and a report has the time that it waited.
package browserreports

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Decoded is what became of a body of reports.
type Decoded struct {
	Events []telemetry.Event
	// LeftOut is how many reports no valid event could be made of.
	LeftOut int
}

var lenient = decoding.Lenient()

// Decode reads a body: an array of reports, one report, or {"csp-report":{...}}. The body
// alone distinguishes them, because pages cannot always choose a content type. It accepts
// at most decoding.MaxItems reports.
func Decode(app string, data []byte, now time.Time) (Decoded, error) {
	d := decoder{app: app, now: now}
	data = bytes.Trim(data, " \t\r\n")
	switch {
	case len(data) == 0:
		return Decoded{}, errors.New("the body is empty: send an array of reports, or a CSP report")
	case data[0] == '[':
		return d.array(data)
	}
	var one struct {
		report
		Old *cspReport `json:"csp-report"`
	}
	if err := json.Unmarshal(data, decoding.NewObject(&one), lenient); err != nil {
		return Decoded{}, decoding.Malformed(err)
	}
	switch {
	case one.Old != nil:
		d.csp(one.Old)
	case one.Type != "":
		d.report(&one.report)
	default:
		return Decoded{}, errors.New("type is required: send an array of reports, or a CSP report below csp-report")
	}
	return d.out, nil
}

// decoder is the state of decoding one body.
type decoder struct {
	app string
	now time.Time
	out Decoded
}

// array reads reports one by one, so that only one is in memory at a time.
func (d *decoder) array(data []byte) (Decoded, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), lenient)
	if _, err := dec.ReadToken(); err != nil {
		return Decoded{}, decoding.Malformed(err)
	}
	for n := 0; dec.PeekKind() != ']'; n++ {
		if n >= decoding.MaxItems {
			return Decoded{}, fmt.Errorf("there are over %d reports: %w", decoding.MaxItems, decoding.ErrTooMany)
		}
		if kind := dec.PeekKind(); kind != '{' && kind != 0 {
			if err := dec.SkipValue(); err != nil {
				return Decoded{}, decoding.Malformed(err)
			}
			d.out.LeftOut++
			continue
		}
		var r report
		if err := json.UnmarshalDecode(dec, &r); err != nil {
			return Decoded{}, fmt.Errorf("report %d: %w", n, decoding.Malformed(err))
		}
		d.report(&r)
	}
	if _, err := dec.ReadToken(); err != nil {
		return Decoded{}, decoding.Malformed(err)
	}
	if rest := data[dec.InputOffset():]; len(rest) > 0 {
		return Decoded{}, errors.New("malformed JSON: something stands behind the array")
	}
	return d.out, nil
}

func (d *decoder) add(e telemetry.Event) {
	e.App = d.app
	if e.App == "" {
		e.App = telemetry.DefaultApp
	}
	if e.Validate() == nil {
		d.out.Events = append(d.out.Events, e)
	} else {
		d.out.LeftOut++
	}
}

// maxAge is the longest that a report can have waited: browsers drop reports long before.
const maxAge = 7 * 24 * time.Hour

// timeOf is when a report's cause happened, to the millisecond.
func (d *decoder) timeOf(age decoding.Text) time.Time {
	ms, ok := number(age)
	if !ok || ms < 0 || ms > float64(maxAge/time.Millisecond) {
		ms = 0
	}
	return d.now.Add(-time.Duration(ms) * time.Millisecond).UTC().Truncate(time.Millisecond)
}
