package reports

import (
	"github.com/tocsin-bus/tocsin/services/ingest/loose"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// cspReport is a report of report-uri, the way before the Reporting API.
type cspReport struct {
	DocumentURI        loose.Text `json:"document-uri"`
	BlockedURI         loose.Text `json:"blocked-uri"`
	EffectiveDirective loose.Text `json:"effective-directive"`
	ViolatedDirective  loose.Text `json:"violated-directive"`
	Disposition        loose.Text `json:"disposition"`
	SourceFile         loose.Text `json:"source-file"`
	LineNumber         loose.Text `json:"line-number"`
	ColumnNumber       loose.Text `json:"column-number"`
	Sample             loose.Text `json:"script-sample"`
}

func (d *decoding) csp(r *cspReport) {
	d.violated(telemetry.Event{Time: d.happened(""), URL: string(r.DocumentURI)}, violation{
		directive: first(r.EffectiveDirective, r.ViolatedDirective), blocked: r.BlockedURI, disposition: r.Disposition, sample: r.Sample,
		place: place{File: r.SourceFile, Line: r.LineNumber, Column: r.ColumnNumber},
	})
}

// violation is a violation of the content security policy.
type violation struct {
	directive                    string
	blocked, disposition, sample loose.Text
	place                        place
}

// violated tells of a violation. What was blocked is no URL where it is a word
// such as inline.
func (d *decoding) violated(e telemetry.Event, v violation) {
	text := v.directive
	if v.blocked != "" {
		text += ": " + string(v.blocked)
	}
	text += where(v.place)
	if v.sample != "" {
		text += ", sample: " + string(v.sample)
	}
	e.Kind = telemetry.KindSecurity
	e.Security = &telemetry.Security{Type: "csp", Message: text + reportOnly(v.disposition), BlockedURL: urlOf(v.blocked)}
	d.add(e)
}
