package ingest

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/tocsin-bus/tocsin/services/ingest/junit"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

const pathJUnit = "/v1/junit"

// junitTypes are what tools call a report; it may be called nothing at all.
var junitTypes = []string{"application/xml", "text/xml", typeText, "application/octet-stream"}

// junit takes one JUnit report. What the report doesn't say (commit, ref, name,
// url, source) stands in the query; what else stands there is ignored.
func (h *handler) junit(r *http.Request) reply {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return refuse(http.StatusBadRequest, fmt.Sprintf("the query is malformed: %s", err))
	}
	d := dialect{media: junitTypes, packed: true}
	if r.Header.Get("Content-Type") == "" {
		d.media = nil
	}
	return h.takeResult(r, d, func(_ string, data []byte) (outcome, error) {
		run, err := junit.Decode(data)
		if err != nil {
			return outcome{}, err
		}
		result := run.Result()
		result.Source = query.Get("source")
		if result.Source == "" {
			result.Source = ci.SourceCustom
		}
		result.Commit, result.Ref = query.Get("commit"), query.Get("ref")
		result.Name, result.URL = query.Get("name"), query.Get("url")
		answer := reply{status: http.StatusOK, body: fmt.Appendf(nil, `{"ok":true,"status":%q,"tests":%d,"passed":%d,"failed":%d,"errors":%d,"skipped":%d}`,
			result.Status, run.Tests(), run.Passed, run.Failed, run.Errors, run.Skipped)}
		return outcome{result: result, answer: &answer}, nil
	})
}
