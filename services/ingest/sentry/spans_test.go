package sentry

import (
	"strings"
	"testing"
)

// container returns an item of spans. Each is given as op, name, other members and
// attributes.
func container(spans ...[4]string) string {
	all := make([]string, len(spans))
	for i, s := range spans {
		attributes := `"sentry.op":{"type":"string","value":"` + s[0] + `"}`
		if s[3] != "" {
			attributes += "," + s[3]
		}
		all[i] = `{"name":"` + s[1] + `","start_timestamp":1000,"end_timestamp":1000.25` + s[2] + `,"attributes":{` + attributes + `}}`
	}
	return `{"version":2,"items":[` + strings.Join(all, ",") + `]}`
}

const containerHeader = `{"type":"span","item_count":1,"content_type":"application/vnd.sentry.items.span.v2+json"}`

func TestSpansOfContainers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spans [][4]string
		want  []string
	}{
		{"a request that was made", [][4]string{{"http.client", "POST a", `,"status":"error"`, `"url.full":{"value":"http://a/x?y=1"},"http.request.method":{"value":"POST"},"http.response.status_code":{"value":500}`}},
			[]string{"POST http://a/x?y=1 500 250ms"}},
		{"one that got no answer", [][4]string{{"http.client", "GET http://a/", `,"status":"error"`, `"sentry.status.message":{"value":"connection refused"}`}},
			[]string{"GET http://a/ 0 250ms connection refused"}},
		{"one of unknown end", [][4]string{{"http.client", "GET http://a/", `,"status":"ok"`, ""}}, nil},
		{"a request that was answered", [][4]string{{"http.server", "GET /x", `,"status":"ok"`, `"url.path":"/x"`}}, []string{"GET /x 200 250ms"}},
		{"one that was answered with a word", [][4]string{{"http.server", "GET /x", `,"status":"error"`, `"url.full":"http://a/x","sentry.status.message":"unavailable"`}},
			[]string{"GET http://a/x 503 250ms"}},
		{"one that was answered with an error's text", [][4]string{{"http.server", "GET /x", `,"status":"error"`, `"url.full":"http://a/x","sentry.status.message":"oh no"`}},
			[]string{"GET http://a/x 500 250ms"}},
		{"what a page loads", [][4]string{{"resource.script", "a", "", `"url.full":"http://a/x.js","http.response.status_code":200`}}, nil},
		{"what is missing on a page", [][4]string{{"resource.script", "a", "", `"url.full":"http://a/x.js","http.response.status_code":404`}},
			[]string{"GET http://a/x.js 404 250ms"}},
		{"the load of a page", [][4]string{
			{"browser.load_event", "Load event", `,"parent_span_id":"p"`, `"url.full":"http://a/cart"`},
			{"ui.webvital.lcp", "Largest contentful paint", `,"parent_span_id":"p"`, `"browser.web_vital.lcp.value":52`},
			{"pageload", "Pageload", `,"span_id":"p"`, `"url.full":"http://a/cart","url.path":"/cart","browser.web_vital.fcp.value":{"value":40},"browser.web_vital.ttfb.value":-1`},
		}, []string{"navigate /cart", "vitals fcp=40 lcp=52 load=250"}},
		{"two loads of a page", [][4]string{
			{"pageload", "/cart", `,"span_id":"p"`, `"url.full":"http://a/cart","browser.web_vital.fcp.value":40`},
			{"pageload", "/cart", `,"span_id":"q"`, `"url.full":"http://a/cart","browser.web_vital.fcp.value":50`},
		}, []string{"navigate /cart", "navigate /cart", "vitals fcp=40", "vitals fcp=50"}},
		{"a click", [][4]string{{"ui.interaction.click", "Click", "", `"browser.web_vital.inp.value":8,"browser.web_vital.inp.target":"button#pay"`}},
			[]string{"click button#pay"}}, // on a page that is not known: its vitals would be those of no page
		{"anything else", [][4]string{{"db", "SELECT 1", "", ""}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check(t, itemOf(t, nil, containerHeader, container(tt.spans...)), tt.want...)
		})
	}
}

// TestPagesOfSpans checks that vitals, which come later than the page that they belong to
// and do not name it, get its URL.
func TestPagesOfSpans(t *testing.T) {
	memory := book{}
	itemOf(t, memory, containerHeader, container([4]string{"pageload", "Pageload", `,"span_id":"p"`, `"url.full":"http://a/cart?x=1"`}))
	for name, span := range map[string][4]string{
		"by parent":     {"ui.webvital.cls", "", `,"parent_span_id":"p"`, `"browser.web_vital.cls.value":0.2`},
		"by attribute":  {"ui.webvital.cls", "", "", `"browser.web_vital.cls.value":0.2,"sentry.pageload.span_id":"p"`},
		"of a request":  {"http.client", "GET http://b/", `,"parent_span_id":"p"`, `"http.response.status_code":500,"url.full":"http://b/"`},
		"by its number": {"ui.webvital.cls", "", "", `"browser.web_vital.cls.value":0.2,"sentry.segment.id":"p"`},
	} {
		if got := itemOf(t, memory, containerHeader, container(span)); len(got) != 1 || got[0].URL != "http://a/cart?x=1" {
			t.Errorf("%s: got %v, want one on http://a/cart?x=1", name, got)
		}
	}
	lost := container([4]string{"ui.webvital.cls", "", `,"parent_span_id":"gone"`, `"browser.web_vital.cls.value":0.2,"sentry.segment.name":"/cart"`})
	if got := itemOf(t, memory, containerHeader, lost); got[0].URL != "/cart" {
		t.Errorf("got %v, want page /cart", got)
	}
}

// TestSingleSpans checks the vitals that SDKs before v11 send as items of their own.
func TestSingleSpans(t *testing.T) {
	check(t, itemOf(t, nil, `{"type":"span"}`,
		`{"op":"ui.interaction.click","description":"body > button","start_timestamp":1000,"timestamp":1000.1,"exclusive_time":96,`+
			`"measurements":{"inp":{"value":96,"unit":"millisecond"}},"data":{"transaction":"/cart","release":"web@1"}}`),
		"click body > button", "vitals inp=96")
	got := itemOf(t, nil, `{"type":"span"}`, `{"op":"ui.webvital.cls","description":"x","timestamp":1000.1,"measurements":{"cls":{"value":0.1,"unit":""}},"data":{"sentry.transaction":"/cart"}}`)
	check(t, got, "vitals cls=0.1")
	if got[0].URL != "/cart" {
		t.Errorf("URL %q, want /cart", got[0].URL)
	}
}

func TestTransactions(t *testing.T) {
	transaction := func(op, status, more string) string {
		return `{"type":"transaction","transaction":"GET /stock/{id}","start_timestamp":1000,"timestamp":1000.25,` +
			`"contexts":{"trace":{"op":"` + op + `","status":"` + status + `","span_id":"r","data":{"http.response.status_code":0}},"response":{"status_code":` +
			map[bool]string{true: "418", false: "null"}[status == "teapot"] + `}}` + more + `}`
	}
	const request = `,"request":{"url":"http://a/stock/7","method":"get"}`
	for _, tt := range []struct {
		name, event string
		want        []string
	}{
		{"answered well", transaction("http.server", "ok", request), []string{"GET http://a/stock/7 200 250ms"}},
		{"not found", transaction("http.server", "not_found", request), []string{"GET http://a/stock/7 404 250ms"}},
		{"failed", transaction("http.server", "internal_error", request), []string{"GET http://a/stock/7 500 250ms"}},
		{"too late", transaction("http.server", "deadline_exceeded", request), []string{"GET http://a/stock/7 504 250ms"}},
		{"an unknown word", transaction("http.server", "odd", request), nil},
		{"a response", transaction("http.server", "teapot", request), []string{"GET http://a/stock/7 418 250ms"}},
		{"named by the route", transaction("http.server", "unavailable", ""), []string{"GET /stock/{id} 503 250ms"}},
		{"a task", transaction("task", "ok", ""), nil},
		{"spans of requests", transaction("task", "ok", `,"spans":[`+
			`{"op":"http.client","description":"GET https://b/x","start_timestamp":1000,"timestamp":1000.1,"status":"unavailable"},`+
			`{"op":"http.client","description":"https://b/","start_timestamp":1000,"timestamp":1000.1,"status":"ok","data":{"http.method":"PUT","url":"https://b/"}},`+
			`{"op":"http.client","description":"GET https://b/x","timestamp":1000.1,"data":{"http.response.status_code":"502"}},`+
			`{"op":"db","description":"SELECT 1"}]`),
			[]string{"GET https://b/x 0 100ms unavailable", "PUT https://b/ 200 100ms", "GET https://b/x 502 0ms"}},
		{"the load of a page", transaction("pageload", "ok", `,"request":{"url":"http://a/cart"},"measurements":{"lcp":{"value":1.2,"unit":"second"},"fcp":{"value":800},"cls":{"value":0.1,"unit":""},"inp":{"value":"x"},"ttfb":{"value":-3}},`+
			`"spans":[{"op":"browser","description":"loadEvent","parent_span_id":"r","start_timestamp":1000.2,"timestamp":1000.3},{"op":"http.client","description":"GET /api","status":"internal_error","timestamp":1000.3,"data":{"http.response.status_code":500}}]`),
			[]string{"navigate GET /stock/{id}", "GET http://a/api 500 0ms", "vitals fcp=800 lcp=1200 load=300 cls=0.1"}},
	} {
		t.Run(tt.name, func(t *testing.T) { check(t, decoded(t, nil, tt.event), tt.want...) })
	}
}
