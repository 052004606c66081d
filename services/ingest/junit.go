package ingest

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/tocsin-bus/tocsin/services/ingest/junit"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// junitBodies have one of the content types that tools use for reports, or none.
var junitBodies = bodyFormat{media: []string{"application/xml", "text/xml", typeText, "application/octet-stream"}, allowUntyped: true, allowCompressed: true}

func checkJUnitQuery(r *http.Request) error {
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf("the query is malformed: %s", err))
	}
	return nil
}

// decodeJUnit decodes one JUnit report. The query has the fields that a report lacks:
// commit, ref, name, url and source. Other parameters are ignored.
func decodeJUnit(r *http.Request, b *body) (decodedResult, error) {
	run, err := junit.Decode(b.data)
	if err != nil {
		return decodedResult{}, err
	}
	query := r.URL.Query()
	result := run.Result()
	result.Source = query.Get("source")
	if result.Source == "" {
		result.Source = ci.SourceCustom
	}
	result.Commit, result.Ref = query.Get("commit"), query.Get("ref")
	result.Name, result.URL = query.Get("name"), query.Get("url")
	answer := httpserve.Answer{Status: http.StatusOK, Body: fmt.Appendf(nil, `{"ok":true,"status":%q,"tests":%d,"passed":%d,"failed":%d,"errors":%d,"skipped":%d}`,
		result.Status, run.Tests(), run.Passed, run.Failed, run.Errors, run.Skipped)}
	return decodedResult{result: result, answer: &answer}, nil
}
