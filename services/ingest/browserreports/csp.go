package browserreports

import (
	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// cspReport is a report of report-uri, from before the Reporting API.
type cspReport struct {
	DocumentURI        decoding.Text `json:"document-uri"`
	BlockedURI         decoding.Text `json:"blocked-uri"`
	EffectiveDirective decoding.Text `json:"effective-directive"`
	ViolatedDirective  decoding.Text `json:"violated-directive"`
	Disposition        decoding.Text `json:"disposition"`
	SourceFile         decoding.Text `json:"source-file"`
	LineNumber         decoding.Text `json:"line-number"`
	ColumnNumber       decoding.Text `json:"column-number"`
	Sample             decoding.Text `json:"script-sample"`
}

func (d *decoder) csp(r *cspReport) {
	d.addViolation(telemetry.Event{Time: d.timeOf(""), URL: string(r.DocumentURI)}, violation{
		directive: first(r.EffectiveDirective, r.ViolatedDirective), blocked: r.BlockedURI, disposition: r.Disposition, sample: r.Sample,
		position: position{File: r.SourceFile, Line: r.LineNumber, Column: r.ColumnNumber},
	})
}

// violation is a violation of the Content Security Policy.
type violation struct {
	directive                    string
	blocked, disposition, sample decoding.Text
	position                     position
}

// addViolation adds a security event for a violation.
func (d *decoder) addViolation(e telemetry.Event, v violation) {
	text := v.directive
	if v.blocked != "" {
		text += ": " + string(v.blocked)
	}
	text += atPosition(v.position)
	if v.sample != "" {
		text += ", sample: " + string(v.sample)
	}
	e.Kind = telemetry.KindSecurity
	e.Security = &telemetry.Security{Type: "csp", Message: text + reportOnly(v.disposition), BlockedURL: urlOf(v.blocked)}
	d.add(e)
}
