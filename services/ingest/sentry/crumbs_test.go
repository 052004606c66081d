package sentry

import (
	"fmt"
	"strings"
	"testing"
)

// trail decodes an event at second 1000 with these breadcrumbs, and returns the events of
// the breadcrumbs.
func trail(t *testing.T, memory Memory, crumbs ...string) []string {
	t.Helper()
	events := decoded(t, memory, `{"message":"m","timestamp":1000,"request":{"url":"http://a/cart"},"breadcrumbs":[`+strings.Join(crumbs, ",")+`]}`)
	var got []string
	for _, e := range events[1:] {
		if err := e.Validate(); err != nil {
			t.Error(err)
		}
		got = append(got, strings.TrimSpace(line(e)))
	}
	return got
}

func click(at float64, target string) string {
	return fmt.Sprintf(`{"timestamp":%g,"category":"ui.click","message":%q}`, at, target)
}

func TestBreadcrumbs(t *testing.T) {
	failed := `{"timestamp":999,"category":"fetch","type":"http","level":"error","data":{"method":"POST","url":"/api/pay","status_code":500}}`
	for _, tt := range []struct {
		name   string
		crumbs []string
		want   []string
	}{
		{"a click", []string{click(999, "button")}, []string{"click button"}},
		{"an input", []string{`{"timestamp":999,"category":"ui.input","message":"input#q"}`}, []string{"input input#q"}},
		{"a way to another page", []string{`{"timestamp":999,"category":"navigation","data":{"from":"/a","to":"/b"}}`}, []string{"navigate /b"}},
		{"a request", []string{failed}, []string{"POST http://a/api/pay 500 0ms"}},
		{"with a duration", []string{`{"timestamp":999,"category":"http","data":{"http.request.method":"GET","url":"http://b/","status_code":"200","http.start_timestamp":5000,"http.end_timestamp":5120}}`},
			[]string{"GET http://b/ 200 120ms"}},
		{"that got no answer", []string{`{"timestamp":999,"category":"xhr","level":"error","data":{"method":"get","url":"//b/","reason":"offline"}}`}, []string{"GET http://b/ 0 0ms offline"}},
		{"of unknown end", []string{`{"timestamp":999,"category":"xhr","data":{"method":"GET","url":"http://b/"}}`}, nil},
		{"of nothing", []string{`{"timestamp":999,"category":"fetch","level":"error"}`, `{"timestamp":999,"category":"fetch","level":"error","data":[1]}`}, nil},
		{"the console", []string{
			`{"timestamp":999,"category":"console","level":"warning","message":"w"}`, `{"timestamp":999,"category":"console","level":"error","message":"e"}`,
			`{"timestamp":999,"category":"console","level":"log","message":"l"}`, `{"timestamp":999,"category":"console","message":"x"}`}, []string{"warn w", "error e"}},
		{"anything else", []string{`{"timestamp":999,"category":"query","message":"SELECT"}`}, nil},

		{"at most 10 s old", []string{click(990, "a"), click(989.9, "b"), click(1011, "c"), `{"category":"ui.click","message":"d"}`}, []string{"click a"}},
		{"twice the same", []string{click(999, "a"), click(999, "a")}, []string{"click a"}},
		{"one click of many", []string{click(992, "a"), click(994, "a"), click(996, "a"), click(998, "a"), click(995, "b")}, []string{"click a", "click b"}},
		{"clicks in one go", []string{click(992, "a"), click(998, "a"), click(998.5, "a"), click(999, "a")}, []string{"click a", "click a", "click a", "click a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := trail(t, book{}, tt.crumbs...); strings.Join(got, "|") != strings.Join(tt.want, "|") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestLateEvents checks that the breadcrumbs of an event that an SDK kept while it was
// offline become no events.
func TestLateEvents(t *testing.T) {
	for sent, want := range map[string]int{`"1970-01-01T00:16:41Z"`: 2, `"1970-01-01T00:18:00Z"`: 1, `"1970-01-01T00:00:00Z"`: 2, `null`: 2} {
		d, err := Sender{Project: "web"}.Envelope([]byte(`{"sent_at":` + sent + "}\n{\"type\":\"event\"}\n" +
			`{"message":"m","timestamp":1000,"breadcrumbs":[` + click(999, "a") + `]}`))
		if err != nil || len(d.Events) != want {
			t.Errorf("sent at %s: %d events, error %v, want %d and none", sent, len(d.Events), err, want)
		}
	}
}

// TestDuplicatesAreDropped checks that breadcrumbs that an SDK repeats with every error, and
// requests that it also sends as spans, become one event.
func TestDuplicatesAreDropped(t *testing.T) {
	const crumb = `{"timestamp":999.1,"category":"fetch","data":{"method":"POST","url":"/api/pay","status_code":500}}`
	pay := func(end, status string) string {
		return container([4]string{"http.client", "POST a", `,"end_timestamp":` + end, `"url.full":"http://a/api/pay?card=1","http.request.method":"POST","http.response.status_code":` + status})
	}
	t.Run("again with the next error", func(t *testing.T) {
		memory := book{}
		if first, again := trail(t, memory, crumb, click(999, "a")), trail(t, memory, crumb, click(999, "a"), click(999.2, "b")); len(first) != 2 || len(again) != 1 {
			t.Errorf("events %q, then %q, want 2 and 1", first, again)
		}
	})
	for _, tt := range []struct {
		name, end, status string
		want              int
	}{
		{"the same request", "999.1", "500", 0},
		{"a little later", "999.6", "500", 0},
		{"another status", "999.1", "200", 1},
		{"much later", "1001.9", "500", 1},
	} {
		t.Run("a breadcrumb and a span: "+tt.name, func(t *testing.T) {
			memory := book{}
			trail(t, memory, crumb)
			if got := itemOf(t, memory, containerHeader, pay(tt.end, tt.status)); len(got) != tt.want {
				t.Errorf("the breadcrumb first: events %+v, want %d", got, tt.want)
			}
			memory = book{}
			itemOf(t, memory, containerHeader, pay(tt.end, tt.status))
			if got := trail(t, memory, crumb); len(got) != tt.want {
				t.Errorf("the span first: events %q, want %d", got, tt.want)
			}
		})
	}
	t.Run("two alike spans are two requests", func(t *testing.T) {
		memory := book{}
		for range 2 {
			if got := itemOf(t, memory, containerHeader, pay("999.1", "500")); len(got) != 1 {
				t.Errorf("%d events, want 1", len(got))
			}
		}
	})
}
