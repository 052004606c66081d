package streamquery_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/dashboard/streamquery"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestParse: what readers can ask for. What is refused is in the dashboard's tests.
func TestParse(t *testing.T) {
	for query, want := range map[string]string{
		"":                                      "{{[] [] 0} 0 false 0}",
		"replay=5":                              "{{[] [] 0} 5 false 0}",
		"last_event_id=7&replay=5":              "{{[] [] 0} 5 true 7}",
		"category=ci&category=errors,anomaly":   "{{[] [ci errors anomaly] 0} 0 false 0}",
		"severity=error&severity=info,":         "{{[] [] 1} 0 false 0}",
		"app=a%20b,%20c&severity=error&other=x": "{{[a b c] [] 3} 0 false 0}",
		"category=&app=&severity=&replay=":      "{{[] [] 0} 0 false 0}",
	} {
		q, err := streamquery.Parse(httptest.NewRequest(http.MethodGet, "/events/stream?"+query, nil))
		if got := fmt.Sprint(q); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", query, got, err, want)
		}
	}
}

// FuzzParse: whatever a reader asks for is refused, or within its bounds.
func FuzzParse(f *testing.F) {
	f.Add("category=ci,errors&severity=warning&app=web&replay=5", "7")
	f.Add("last_event_id=18446744073709551616", "")
	f.Add("app=%zz;&&=,", "x")
	f.Fuzz(func(t *testing.T, query, last string) {
		r := httptest.NewRequest(http.MethodGet, "/events/stream", nil)
		r.URL.RawQuery = query
		r.Header.Set("Last-Event-ID", last)
		q, err := streamquery.Parse(r)
		if err != nil {
			if err.Error() == "" || strings.Contains(err.Error(), "%!") {
				t.Errorf("%q", err)
			}
			return
		}
		if q.Replay < 0 || q.Replay > streamquery.MaxReplay || q.Filter.MinRank < 0 || q.Filter.MinRank > 3 || len(q.Filter.Apps) > 40 || !q.Resume && q.Last != 0 {
			t.Errorf("%+v", q)
		}
		for _, c := range q.Filter.Categories {
			known := false
			for _, k := range alert.Categories() {
				known = known || k == c
			}
			if !known {
				t.Errorf("%+v", q)
			}
		}
	})
}
