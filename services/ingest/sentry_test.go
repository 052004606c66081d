package ingest

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	sentryID    = "c19b235965dc413e9ef55f18450c3ae5"
	sentryEvent = `{"event_id":"` + sentryID + `","message":"the password is hunter2\u202e","release":"web@1","timestamp":1769610600,` +
		`"breadcrumbs":[{"timestamp":1769610599,"category":"ui.click","message":"button#pay"}]}`
	sentryEnvelope = `{"dsn":"http://s3cret@127.0.0.1:7400/7"}` + "\n" + `{"type":"event"}` + "\n" + sentryEvent
	sentryAnswer   = `{"id":"` + sentryID + `"}`
	sentryPath     = "/api/7/envelope/"
)

// storedEvents returns the events that a request put on the bus.
func storedEvents(t *testing.T, s *fakeSink) []telemetry.Event {
	t.Helper()
	var all []telemetry.Event
	for _, m := range s.msgs {
		in, err := telemetry.DecodeMessage(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, in...)
	}
	return all
}

func TestSentry(t *testing.T) {
	const local, foreign = "http://localhost:3000", "https://evil.example"
	anonymous := "{}\n{\"type\":\"event\"}\n" + sentryEvent
	logs := "{}\n{\"type\":\"log\"}\n" + `{"items":[` + strings.Repeat("{},", 20_000) + "{}]}"
	bearer := []string{"Authorization", "Bearer s3cret"}
	for _, c := range []struct {
		name, path, body string
		header           []string
		change           func(*Config)
		sink             *fakeSink
		status           int
		answer           string // whole where status is 200, else a part
		stored           int
	}{
		{name: "an envelope", path: sentryPath, body: sentryEnvelope, status: 200, answer: sentryAnswer, stored: 2},
		{name: "without the slash", path: "/api/7/envelope", body: sentryEnvelope, status: 200, answer: sentryAnswer, stored: 2},
		{name: "an event", path: "/api/7/store/", body: sentryEvent, status: 200, answer: sentryAnswer, stored: 2},
		{name: "an event without the slash", path: "/api/7/store", body: sentryEvent, status: 200, answer: sentryAnswer, stored: 2},
		{name: "nothing of ours", path: sentryPath, body: "{}\n{\"type\":\"client_report\"}\n{}", status: 200, answer: "{}"},
		{name: "packed by gzip", path: sentryPath, body: string(packed(t, "gzip", []byte(sentryEnvelope))), header: []string{"Content-Encoding", "gzip"}, status: 200, answer: sentryAnswer, stored: 2},
		{name: "packed by br", path: sentryPath, body: string(packed(t, "br", []byte(sentryEnvelope))), header: []string{"Content-Encoding", "br"}, status: 200, answer: sentryAnswer, stored: 2},
		{name: "as the SDK for Go calls it", path: sentryPath, body: sentryEnvelope, header: []string{"Content-Type", "application/x-sentry-envelope"}, status: 200, answer: sentryAnswer, stored: 2},
		{name: "as browsers call it", path: sentryPath, body: sentryEnvelope, header: []string{"Content-Type", "text/plain;charset=UTF-8", "Origin", local}, status: 200, answer: sentryAnswer, stored: 2},
		{name: "a foreign page", path: sentryPath, body: sentryEnvelope, header: []string{"Origin", foreign}, status: 403, answer: "evil.example"},
		{name: "another path", path: "/api/7/minidump/", body: "x", status: 404, answer: "not found"},
		{name: "no project", path: "/api//envelope/", body: "x", status: 404, answer: "not found"},
		{name: "garbage", path: sentryPath, body: "garbage", status: 400, answer: "the envelope's header: malformed JSON"},
		{name: "an empty event", path: "/api/7/store/", body: " ", status: 400, answer: "the body is empty"},
		{name: "broken gzip", path: sentryPath, body: "garbage", header: []string{"Content-Encoding", "gzip"}, status: 400, answer: "not gzip"},
		{name: "a gzip bomb", path: sentryPath, body: string(packed(t, "gzip", make([]byte, maxDecompressed+1))), header: []string{"Content-Encoding", "gzip"}, status: 413, answer: "send smaller batches"},
		{name: "too many logs", path: sentryPath, body: logs, status: 413, answer: "over 10000 entries: send smaller batches"},
		{name: "the bus is unreachable", path: sentryPath, body: sentryEnvelope, sink: &fakeSink{err: bus.ErrUnreachable}, status: 503, answer: "error"},

		{name: "without the token", path: sentryPath, body: anonymous, change: withToken, status: 401, answer: "the DSN must be http://TOKEN@HOST/PROJECT"},
		{name: "an event without the token", path: "/api/7/store/", body: sentryEvent, change: withToken, status: 401, answer: "TOCSIN_TOKEN"},
		{name: "another key", path: sentryPath + "?sentry_key=other", body: sentryEnvelope, change: withToken, status: 401, answer: "the DSN must be"},
		{name: "an empty key", path: sentryPath + "?sentry_key=", body: anonymous, change: withToken, status: 401, answer: "TOCSIN_TOKEN"},
		{name: "the key in the envelope", path: sentryPath, body: sentryEnvelope, change: withToken, status: 200, answer: sentryAnswer, stored: 2},
		{name: "the key in the query", path: sentryPath + "?sentry_version=7&sentry_key=s3cret", body: anonymous, change: withToken, status: 200, answer: sentryAnswer, stored: 2},
		{name: "the key in the header", path: sentryPath, body: anonymous, header: []string{"X-Sentry-Auth", "Sentry sentry_version=7, sentry_client=x, sentry_key=s3cret"}, change: withToken, status: 200, answer: sentryAnswer, stored: 2},
		{name: "the key in the older header", path: "/api/7/store/", body: sentryEvent, header: []string{"Authorization", "Sentry sentry_key=s3cret"}, change: withToken, status: 200, answer: sentryAnswer, stored: 2},
		{name: "the bearer", path: sentryPath, body: anonymous, header: bearer, change: withToken, status: 200, answer: sentryAnswer, stored: 2},
		{name: "any key where there is no token", path: sentryPath + "?sentry_key=any", body: anonymous, status: 200, answer: sentryAnswer, stored: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.sink
			if s == nil {
				s = &fakeSink{}
			}
			h := testHandler(s, func(cfg *Config) {
				if c.change != nil {
					c.change(cfg)
				}
			})
			r := ask("POST", c.path, strings.NewReader(c.body), c.header...)
			w := answerOf(h, r)
			got := w.Body.String()
			if w.Code != c.status || !strings.Contains(got, c.answer) || w.Code == 200 && got != c.answer {
				t.Errorf("got %d %s, want %d %s", w.Code, got, c.status, c.answer)
			}
			if events := storedEvents(t, s); len(events) != c.stored {
				t.Errorf("%d events are stored, want %d", len(events), c.stored)
			}
			if allowed := w.Header().Get("Access-Control-Allow-Origin"); allowed != "" && allowed != local {
				t.Errorf("Access-Control-Allow-Origin %s, want %s or none", allowed, local)
			}
		})
	}
}

// TestSentryIsCleaned checks that events from Sentry are cleaned as all others, and that
// breadcrumbs become events once.
func TestSentryIsCleaned(t *testing.T) {
	s := &fakeSink{}
	h := testHandler(s)
	for range 2 {
		if w := answerOf(h, ask("POST", sentryPath, strings.NewReader(sentryEnvelope), "User-Agent", "sentry.javascript.node/11.12.0")); w.Code != http.StatusOK {
			t.Fatalf("got %d %s, want 200", w.Code, w.Body)
		}
	}
	all := storedEvents(t, s)
	if len(all) != 3 || all[0].Log == nil || all[0].Log.Message != "the password is [REDACTED]" || all[0].App != "web" {
		t.Errorf("got %+v, want 3 events of app web, the first a log with \"the password is [REDACTED]\"", all)
	}
	if got := s.msgs[0].Header.Get(bus.HeaderSender); got != "sentry.javascript.node" {
		t.Errorf("sender %q, want sentry.javascript.node", got)
	}
}

func BenchmarkSentryLogs(b *testing.B) {
	data, err := os.ReadFile(filepath.Join("sentry", "testdata", "node", "03-log.envelope"))
	if err != nil {
		b.Fatal(err)
	}
	lines := strings.SplitN(string(data), "\n", 3)
	_, list, _ := strings.Cut(lines[2], `"items":[`)
	list = strings.TrimSuffix(strings.TrimSpace(list), "]}")
	body := lines[0] + "\n" + lines[1] + "\n{\"items\":[" + strings.TrimSuffix(strings.Repeat(list+",", 50), ",") + "]}"
	benchmark(b, sentryPath, body)
}

func BenchmarkSentryError(b *testing.B) {
	data, err := os.ReadFile(filepath.Join("sentry", "testdata", "node", "04-event.envelope"))
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, sentryPath, string(bytes.TrimSpace(data)))
}

// TestRefusedSentryIsForgotten checks that a refused envelope can be sent again, with its
// breadcrumbs.
func TestRefusedSentryIsForgotten(t *testing.T) {
	s := &fakeSink{err: bus.ErrUnreachable}
	h := testHandler(s)
	send := func() int {
		return answerOf(h, ask("POST", sentryPath, strings.NewReader(sentryEnvelope))).Code
	}
	if got := send(); got != 503 {
		t.Fatalf("status %d, want 503", got)
	}
	s.err = nil
	for _, want := range []int{2, 3} { // the error and its breadcrumb, then the error alone
		if got := send(); got != 200 || len(s.msgs) != want {
			t.Errorf("got %d, %d messages, want 200 and %d", got, len(s.msgs), want)
		}
	}
}
