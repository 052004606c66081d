// Package browserreports decodes the reports that browsers send without a script: those of
// the Reporting API (w3.org/TR/reporting-1), which include Network Error Logging, and the
// older CSP reports of report-uri.
//
// Violations of a policy become security events, failed requests network events, and all
// other reports logs. A report has an age instead of a time, so the caller passes the time
// of arrival.
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

// Decoded is the result of decoding a body.
type Decoded struct {
	Events []telemetry.Event
	// LeftOut counts the reports that make no valid event.
	LeftOut int
}

var lenient = decoding.Lenient()

// Decode reads a body: an array of at most [decoding.MaxItems] reports, one report, or
// {"csp-report":{...}}. It distinguishes them by the body, because pages cannot always
// choose a content type.
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

// array reads reports one by one, so that only one of them is in memory at a time.
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
		return Decoded{}, errors.New("malformed JSON: more data follows the array")
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

// maxAge is the highest age of a report that is believed: browsers drop reports long before.
const maxAge = 7 * 24 * time.Hour

// timeOf returns the time that a report is about, to the millisecond.
func (d *decoder) timeOf(age decoding.Text) time.Time {
	ms, ok := number(age)
	if !ok || ms < 0 || ms > float64(maxAge/time.Millisecond) {
		ms = 0
	}
	return d.now.Add(-time.Duration(ms) * time.Millisecond).UTC().Truncate(time.Millisecond)
}
