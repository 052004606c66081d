package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// Bounds of the parameters of /events/stream.
const (
	// maxReplay is the maximum number of past alerts that a reader can request.
	maxReplay = 1000
	// maxFilterValues is the maximum number of values of one parameter.
	maxFilterValues = 32
	// maxApp is the maximum length of an app's name, in bytes.
	maxApp = silence.MaxApp
)

// streamQuery is a parsed request for /events/stream.
type streamQuery struct {
	filter fanout.Filter
	// replay is the number of past alerts to send first. It is ignored if resume is set.
	replay int
	// resume reports whether to start after the alert with the sequence last.
	resume bool
	last   uint64
}

// parseStreamQuery parses a request. Its error names the parameter and the allowed values.
// Unknown parameters are ignored.
func parseStreamQuery(r *http.Request) (streamQuery, error) {
	var q streamQuery
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, fmt.Errorf("the query can't be read: %w", err)
	}
	if q.filter, err = parseFilter(values); err != nil {
		return q, err
	}
	if text := values.Get("replay"); text != "" {
		if q.replay, err = strconv.Atoi(text); err != nil || q.replay < 0 || q.replay > maxReplay {
			return q, fmt.Errorf("replay must be between 0 and %d", maxReplay)
		}
	}
	// The header wins: when a browser reconnects, it has the current position, and the URL
	// still has the first one.
	for _, text := range []string{r.Header.Get("Last-Event-ID"), values.Get("last_event_id")} {
		if text == "" {
			continue
		}
		if q.last, err = strconv.ParseUint(text, 10, 64); err != nil {
			return q, fmt.Errorf("Last-Event-ID (last_event_id) must be the id of an event: the alert's sequence")
		}
		q.resume = true
		break
	}
	return q, nil
}

// parseFilter parses the parameters category, severity and app.
func parseFilter(values url.Values) (f fanout.Filter, err error) {
	categories, err := valuesOf(values, "category")
	if err != nil {
		return f, err
	}
	for _, text := range categories {
		c := alert.Category(text)
		if !slices.Contains(alert.Categories(), c) {
			return f, fmt.Errorf("category must be one of %v", alert.Categories())
		}
		f.Categories = append(f.Categories, c)
	}
	severities, err := valuesOf(values, "severity")
	if err != nil {
		return f, err
	}
	for _, text := range severities {
		rank := alert.Severity(text).Rank()
		if rank == 0 {
			return f, fmt.Errorf("severity must be one of %v", alert.Severities())
		}
		if f.MinRank == 0 || rank < f.MinRank { // the lowest of several
			f.MinRank = rank
		}
	}
	if f.Apps, err = valuesOf(values, "app"); err != nil {
		return f, err
	}
	for _, app := range f.Apps {
		if len(app) > maxApp {
			return f, fmt.Errorf("app must have at most %d bytes", maxApp)
		}
	}
	return f, nil
}

// valuesOf returns the values of a parameter, which may be repeated or separated by commas.
func valuesOf(values url.Values, name string) ([]string, error) {
	var all []string
	for _, text := range values[name] {
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				all = append(all, part)
			}
		}
		if len(all) > maxFilterValues {
			return nil, fmt.Errorf("%s must have at most %d values", name, maxFilterValues)
		}
	}
	return all, nil
}
