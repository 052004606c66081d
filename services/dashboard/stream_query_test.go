package dashboard

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/dashboard/fanout"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestParseStreamQuery has the valid parameters; TestRefusedStreams has the refused ones.
func TestParseStreamQuery(t *testing.T) {
	for query, want := range map[string]streamQuery{
		"":                                      {},
		"replay=5":                              {replay: 5},
		"last_event_id=7&replay=5":              {replay: 5, resume: true, last: 7},
		"category=ci&category=errors,anomaly":   {filter: fanout.Filter{Categories: []alert.Category{"ci", "errors", "anomaly"}}},
		"severity=error&severity=info,":         {filter: fanout.Filter{MinRank: 1}},
		"app=a%20b,%20c&severity=error&other=x": {filter: fanout.Filter{Apps: []string{"a b", "c"}, MinRank: 3}},
		"category=&app=&severity=&replay=":      {},
	} {
		got, err := parseStreamQuery(httptest.NewRequest(http.MethodGet, "/events/stream?"+query, nil))
		if err != nil {
			t.Errorf("parseStreamQuery(%q): %v, want no error", query, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(streamQuery{})); diff != "" {
			t.Errorf("parseStreamQuery(%q) (-want +got):\n%s", query, diff)
		}
	}
}

// FuzzParseStreamQuery: a request is refused with an error that has a text, or all of its
// parameters are within their bounds.
func FuzzParseStreamQuery(f *testing.F) {
	f.Add("category=ci,errors&severity=warning&app=web&replay=5", "7")
	f.Add("last_event_id=18446744073709551616", "")
	f.Add("app=%zz;&&=,", "x")
	f.Fuzz(func(t *testing.T, query, last string) {
		r := httptest.NewRequest(http.MethodGet, "/events/stream", nil)
		r.URL.RawQuery = query
		r.Header.Set("Last-Event-ID", last)
		q, err := parseStreamQuery(r)
		if err != nil {
			if text := err.Error(); text == "" || strings.Contains(text, "%!") {
				t.Errorf("error = %q, want a text that is formatted", text)
			}
			return
		}
		if q.replay < 0 || q.replay > maxReplay {
			t.Errorf("replay = %d, want 0 to %d", q.replay, maxReplay)
		}
		if rank := q.filter.MinRank; rank < 0 || rank > 3 {
			t.Errorf("MinRank = %d, want 0 to 3", rank)
		}
		if n := len(q.filter.Apps); n > maxFilterValues {
			t.Errorf("len(Apps) = %d, want at most %d", n, maxFilterValues)
		}
		if !q.resume && q.last != 0 {
			t.Errorf("last = %d without resume, want 0", q.last)
		}
		for _, c := range q.filter.Categories {
			if !slices.Contains(alert.Categories(), c) {
				t.Errorf("category = %q, want one of %v", c, alert.Categories())
			}
		}
	})
}
