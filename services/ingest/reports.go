package ingest

import (
	"net/http"

	"github.com/tocsin-bus/tocsin/services/ingest/reports"
)

// pathReports is where browsers report to, by the headers Reporting-Endpoints and
// Report-To, and by report-uri. The query may name the app.
const pathReports = "/v1/reports"

var reportBodies = dialect{media: []string{"application/reports+json", "application/csp-report", typeJSON, typeText}}

// reportRoute is where browsers report to, for the pages of this machine.
func (h *handler) reportRoute() route {
	return route{path: pathReports, method: http.MethodPost, serve: h.reports, pages: true}
}

// reports takes what a browser reports.
func (h *handler) reports(r *http.Request) reply {
	return h.takeEvents(r, reportBodies, func(_ string, data []byte) (found, error) {
		in, err := reports.Decode(r.URL.Query().Get("app"), data, h.now())
		return found{events: in.Events, checked: true, leftOut: in.LeftOut}, err
	})
}
