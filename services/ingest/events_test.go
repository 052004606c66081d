package ingest

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// post sends a body and returns what was stored.
func post(t testing.TB, path, body string, header ...string) []*nats.Msg {
	t.Helper()
	s := &fakeSink{}
	w := httptest.NewRecorder()
	testHandler(s).ServeHTTP(w, ask("POST", path, strings.NewReader(body), append(header, "Content-Type", "application/json")...))
	if w.Code != 200 {
		t.Fatalf("got %d %s, want 200", w.Code, w.Body)
	}
	return s.msgs
}

func TestMessagesOfEvents(t *testing.T) {
	msgs := post(t, "/v1/events", `[
		{"kind":"log","app":"Web Shop","log":{"level":"info","message":"one, hunter2"}},
		{"kind":"network","app":"Web Shop","network":{"method":"GET","url":"/a","status":0}},
		{"kind":"log","log":{"level":"warn","message":"two"}},
		{"kind":"log","app":"Web Shop","time":"2026-01-28T15:00:00.5+01:00","log":{"level":"error","message":"three \u202ereversed\u0007"}}
	]`, "User-Agent", "curl/8.5.0")
	var got strings.Builder
	for _, m := range msgs {
		fmt.Fprintf(&got, "%s %s=%s\n%s\n", m.Subject, bus.HeaderSender, m.Header.Get(bus.HeaderSender), m.Data)
	}
	compare(t, "testdata/messages.golden", []byte(got.String()))
}

func TestMessagesOfResult(t *testing.T) {
	msgs := post(t, "/ci-result", `{"status":"failure","source":"gitlab-ci","commit":"ABC/1","name":"unit tests","summary":"password hunter2",
		"failures":[{"name":"test_login","message":"Expected 200\u200b, got 401"}],"duration_ms":45000,"unknown":1}`)
	if len(msgs) != 2 || msgs[0].Subject != bus.SubjectIntakeCI || msgs[1].Subject != "ci.result.gitlab-ci.abc_1.unit_tests.failure" {
		t.Fatalf("got messages %v, want one in the log and one in the view", msgs)
	}
	const want = `{"status":"failure","source":"gitlab-ci","commit":"ABC/1","name":"unit tests","summary":"password [REDACTED]",` +
		`"failures":[{"name":"test_login","message":"Expected 200, got 401"}],"duration_ms":45000}`
	for _, m := range msgs {
		if string(m.Data) != want {
			t.Errorf("%s:\ngot  %s\nwant %s", m.Subject, m.Data, want)
		}
	}
}

func TestRefAndURLStandInForACommit(t *testing.T) {
	run := func(url string) string {
		return post(t, "/ci-result", `{"status":"success","ref":"main","url":"https://ci.example/`+strings.Repeat("x", 80)+url+`"}`)[1].Subject
	}
	first, again, other := run("/1"), run("/1"), run("/2")
	if first != again || first == other || !strings.HasPrefix(first, "ci.result.custom.main-") {
		t.Errorf("got subjects %s, %s, %s; want the first two equal, the third another", first, again, other)
	}
}

func TestLargeBatchIsSplit(t *testing.T) {
	text := strings.Repeat("x", 900)
	var events []string
	for i := range 1000 {
		events = append(events, fmt.Sprintf(`{"kind":"log","log":{"level":"info","message":"%d %s"}}`, i, text))
	}
	next := 0
	for _, m := range post(t, "/v1/events", "["+strings.Join(events, ",")+"]") {
		if len(m.Data) > maxMessage {
			t.Errorf("a message of %d bytes, want at most %d", len(m.Data), maxMessage)
		}
		got, err := telemetry.DecodeMessage(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got {
			if !strings.HasPrefix(e.Log.Message, fmt.Sprint(next, " ")) {
				t.Fatalf("event %d is %.10s, want the events in order", next, e.Log.Message)
			}
			next++
		}
	}
	if next != len(events) {
		t.Errorf("%d events, want %d", next, len(events))
	}
}

func TestLargestEventFits(t *testing.T) {
	for _, char := range []string{"x", `\n`, "\u00e9", "\U0001f600", `\u0001`} {
		fill := func(bytes int) string { return strings.Repeat(char, bytes/len(char)) }
		args := strings.Repeat(`"`+fill(1000)+`",`, 150) + strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100)
		header := make([]string, 300)
		for i := range header {
			header[i] = fmt.Sprintf(`"h%d%s":"%s"`, i, fill(400), fill(1000))
		}
		headers := "{" + strings.Join(header, ",") + "}"
		for _, event := range []string{
			`{"kind":"log","app":"` + fill(9000) + `","session":"` + fill(9000) + `","release":"` + fill(9000) + `","url":"` + fill(9000) + `","log":{"level":"info","message":"` + fill(200_000) + `","stack":"` + fill(400_000) + `","args":[` + args + `]}}`,
			`{"kind":"network","network":{"method":"GET","status":0,"url":"` + fill(100_000) + `","error":"` + fill(100_000) + `","request_headers":` + headers + `,"response_headers":` + headers + `}}`,
		} {
			for _, m := range post(t, "/v1/events", event) {
				if len(m.Data) > maxMessage || !json.Valid(m.Data) {
					t.Errorf("%q: a message of %d bytes, valid JSON: %t, want at most %d, and true", char, len(m.Data), json.Valid(m.Data), maxMessage)
				}
			}
		}
		failures := strings.TrimSuffix(strings.Repeat(`{"name":"`+fill(40)+`","message":"`+fill(40)+`"},`, 8000), ",")
		for _, m := range post(t, "/ci-result", `{"status":"failure","failures":[`+failures+`]}`) {
			var r ci.Result
			if err := json.Unmarshal(m.Data, &r); err != nil || len(m.Data) > ci.MaxEncoded || len(r.Failures) == 0 {
				t.Errorf("%q: a message of %d bytes with %d failures, error %v, want at most %d with some", char, len(m.Data), len(r.Failures), err, ci.MaxEncoded)
			}
		}
	}
}

func TestTimesThatCannotBeWritten(t *testing.T) {
	for _, at := range []string{"0000-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00"} {
		m := post(t, "/v1/events", `{"kind":"log","time":"`+at+`","log":{"level":"info","message":"x"}}`)
		if !strings.Contains(string(m[0].Data), `"time":"2026-01-28T14:30:00.123Z"`) {
			t.Errorf("time %s is stored in %s, want the time of arrival", at, m[0].Data)
		}
	}
}

func TestProductOf(t *testing.T) {
	for agent, want := range map[string]string{
		"":                   "",
		"curl/8.5.0":         "curl",
		"Go-http-client/1.1": "Go-http-client",
		"my app (linux)":     "my",
		"a\"b/1":             "a_b",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Safari/537.36":                 "Chrome",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/139.0.0.0 Safari/537.36":         "Chrome",
		"Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0.0.0 Safari/537.36 Edg/139.0.0.0":     "Edge",
		"Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0":                                                "Firefox",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15": "Safari",
		"Mozilla/5.0 something":    "Mozilla",
		strings.Repeat("a", 100):   strings.Repeat("a", maxProduct),
		"caf\u00e9\r\nX: evil/1.0": "caf___X_",
	} {
		if got := productOf(agent, fakeMasker{}); got != want {
			t.Errorf("%q gives %q, want %q", agent, got, want)
		}
	}
}

func TestSplittingKeepsEveryEventInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		apps := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "A", "b", "default"}), 0, 60).Draw(t, "apps")
		events := make([]telemetry.Event, len(apps))
		for i, app := range apps {
			events[i] = telemetry.Event{Kind: telemetry.KindAction, App: app, Action: &telemetry.Action{Type: "click", Target: fmt.Sprint(i)}}
		}
		msgs, err := eventMessages(events, "")
		if err != nil {
			t.Fatal(err)
		}
		total, last := 0, map[string]int{}
		for _, m := range msgs {
			got, err := telemetry.DecodeMessage(m.Data)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range got {
				var n int
				fmt.Sscan(e.Action.Target, &n)
				if before, ok := last[e.App]; ok && n < before {
					t.Errorf("app %s: event %d comes after %d, want the order of the batch", e.App, n, before)
				}
				if m.Subject != bus.TelemetrySubject(e.App, e.Kind) || apps[n] != e.App {
					t.Errorf("event %d of app %s is on %s, want app %s on %s", n, e.App, m.Subject, apps[n], bus.TelemetrySubject(e.App, e.Kind))
				}
				last[e.App] = n
				total++
			}
		}
		if total != len(events) {
			t.Errorf("%d events are stored, want %d", total, len(events))
		}
	})
}

// TestManyFailures checks that a result keeps as many failures as fit into a message.
func TestManyFailures(t *testing.T) {
	body := `{"status":"failure","failures":[` + strings.Repeat(`{},`, 300_000) + `{}]}`
	for _, m := range post(t, pathCIResult, body) {
		r, err := ci.Decode(m.Data)
		if err != nil || len(m.Data) > ci.MaxEncoded || len(r.Failures) < 10_000 || !strings.HasSuffix(r.Summary, " of 300001 failures are left out") {
			t.Errorf("%d bytes with %d failures, error %v, summary ends in %q; want at most %d with 10,000 or more, and the number left out", len(m.Data), len(r.Failures), err, r.Summary[max(0, len(r.Summary)-40):], ci.MaxEncoded)
		}
	}
}
