package ingest

import (
	"net/http"

	"github.com/tocsin-bus/tocsin/services/ingest/browserreports"
)

var browserReportBodies = bodyFormat{media: []string{"application/reports+json", "application/csp-report", typeJSON, typeText}}

// decodeBrowserReports takes what browsers report by themselves: by the headers
// Reporting-Endpoints and Report-To, and by report-uri. The query may name the app.
func (h *handler) decodeBrowserReports(r *http.Request, b *body) (decodedEvents, error) {
	in, err := browserreports.Decode(r.URL.Query().Get("app"), b.data, h.now())
	return decodedEvents{events: in.Events, isValid: true, skipped: in.LeftOut}, err
}
