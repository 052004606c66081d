package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const id = "01HZZZZZZZZZZZZZZZZZZZZZZZ"

// parse parses a command line as the program does.
func parse(args ...string) (*Command, error) {
	line := &struct {
		Investigate Command `cmd:""`
	}{}
	k, err := service.NewParser(line, kong.Exit(func(int) {}))
	if err != nil {
		return nil, err
	}
	_, err = k.Parse(append([]string{"investigate"}, args...))
	return &line.Investigate, err
}

func TestCommandLine(t *testing.T) {
	for _, name := range []string{"TOCSIN_INVESTIGATOR_URL", "TOCSIN_INVESTIGATOR_ADDR", "TOCSIN_TOKEN"} {
		t.Setenv(name, "") // restored at the end
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ line, says string }{
		{line: "--alert A"},
		{line: "--data f"},
		{line: "-"},
		{line: "--chain c --type t --follow --timeout 1m -"},
		{line: "--alert A --investigator-url https://tocsin.example/x"},
		{line: "", says: "give one alert"},
		{line: "--follow", says: "give one alert"},
		{line: "--alert A -", says: "give one alert"},
		{line: "--alert A --data f", says: "give one alert"},
		{line: "alert.txt", says: "a file needs --data"},
		{line: "- -", says: "unexpected argument -"},
		{line: "- --timeout -1s", says: "--timeout"},
		{line: "- --timeout=-1s", says: "--timeout must not be negative"},
		{line: "- --timeout soon", says: "--timeout"},
		{line: "- --investigator-url 127.0.0.1:7490", says: "--investigator-url must be a URL"},
		{line: "- --investigator-url ftp://x", says: "--investigator-url must be a URL"},
		{line: "- --investigator-url http://ann:secret@x", says: "--investigator-url must be a URL"},
		{line: "- --colour red", says: "--colour"},
	} {
		_, err := parse(strings.Fields(c.line)...)
		if got := fmt.Sprint(err); (err != nil) != (c.says != "") || !strings.Contains(got, c.says) || strings.Contains(got, "secret") {
			t.Errorf("investigate %s: %v, want an error with %q, or none", c.line, err, c.says)
		}
	}
}

// TestAddress checks where the command looks for the investigator.
func TestAddress(t *testing.T) {
	without, with := t.TempDir(), t.TempDir()
	if err := os.Chmod(with, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := statedir.Open(with)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Release() })
	if err := lock.Announce(statedir.Runtime{PID: os.Getpid(), NATSURL: "nats://127.0.0.1:1", InvestigatorURL: "http://127.0.0.1:1234"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		command   Command
		want      string // an error, if it is no URL
	}{
		{"nothing runs", without, Command{InvestigatorAddr: "127.0.0.1:7490"}, "http://127.0.0.1:7490"},
		{"a wildcard", without, Command{InvestigatorAddr: "0.0.0.0:7491"}, "http://127.0.0.1:7491"},
		{"any port", without, Command{InvestigatorAddr: "127.0.0.1:0"}, "any free port"},
		{"no address", without, Command{InvestigatorAddr: "7490"}, "not host:port"},
		{"tocsin up", with, Command{InvestigatorAddr: "127.0.0.1:7490"}, "http://127.0.0.1:1234"},
		{"a URL", with, Command{InvestigatorURL: "https://tocsin.example/x/"}, "https://tocsin.example/x"},
	} {
		got, err := c.command.address(service.Env{StateDir: c.dir})
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want) || !errors.Is(err, service.ErrUsage)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// submit runs the command against a server, without --follow.
func submit(t *testing.T, url, token string) (stdout, stderr string, err error) {
	t.Helper()
	var out, log bytes.Buffer
	c := Command{Stdin: "-", InvestigatorURL: url, Token: token}
	err = c.Run(t.Context(), service.Env{StateDir: t.TempDir(), Stdin: strings.NewReader("x"), Stdout: &out, Stderr: &log, Logger: slog.New(slog.DiscardHandler)})
	return out.String(), log.String(), err
}

// TestSubmit checks what the command sends, and that each answer becomes one line with what to do.
func TestSubmit(t *testing.T) {
	for _, c := range []struct {
		name, token string
		status      int
		header      string // Retry-After
		body        string
		want        string // the error, or stdout and stderr
		usage       bool
	}{
		{name: "queued", status: 202, body: `{"session_id":"` + id + `","status":"queued","message":"m"}`, want: id + "\nqueued for investigation\n"},
		{name: "queued, with a token", token: " s3cret\n", status: 202, body: `{"session_id":"` + id + `","status":"queued"}`, want: id + "\nqueued for investigation\n"},
		{name: "joined", status: 200, body: `{"session_id":"` + id + `","status":"joined"}`, want: id + "\njoined the open session of an alert with the same dedup_key\n"},
		{name: "a mistake", status: 400, body: `{"error":"no chain: there is no chain \"x\""}`, usage: true, want: `the investigator refuses the alert: no chain: there is no chain "x"`},
		{name: "an unknown alert", status: 404, body: `{"error":"no stored alert has this id"}`, usage: true, want: "the investigator refuses the alert: no stored alert has this id"},
		{name: "too large", status: 413, body: `{"error":"too large"}`, usage: true, want: "the investigator refuses the alert: too large"},
		{name: "no token", status: 401, body: `{"error":"a token is required"}`, want: "the investigator at URL wants a token: set TOCSIN_TOKEN to the value that it has"},
		{name: "a wrong token", token: "x", status: 401, body: `{"error":"the token is not valid"}`, want: "the investigator at URL does not accept the token: set TOCSIN_TOKEN to the value that it has"},
		{name: "a foreign host", status: 403, body: `{"error":"the host is not allowed"}`, want: "the investigator refuses the alert: the host is not allowed"},
		{name: "a full queue", status: 429, header: "10", body: `{"error":"the queue is full: 8 sessions wait"}`, want: "the investigator can't take the alert now: the queue is full: 8 sessions wait; try again in 10s"},
		{name: "no bus", status: 503, header: "soon", body: `{"error":"the bus does not answer"}`, want: "the investigator can't take the alert now: the bus does not answer; try again"},
		{name: "control characters", status: 400, body: `{"error":"a\u001b[31m\nb"}`, usage: true, want: "the investigator refuses the alert: a␛[31m␊b"},
		{name: "a long reason", status: 400, body: `{"error":"` + strings.Repeat("x", 2*maxText) + `"}`, usage: true, want: "the investigator refuses the alert: " + strings.Repeat("x", maxText-1) + "…"},
		{name: "another server", status: 404, body: "<html>", want: "URL answers, but is no investigator (status 404): check --investigator-url and TOCSIN_INVESTIGATOR_ADDR"},
		{name: "another server that takes all", status: 200, body: "<html>", want: "URL answers, but is no investigator (status 200): check --investigator-url and TOCSIN_INVESTIGATOR_ADDR"},
		{name: "no id", status: 200, body: "{}", want: "URL answers, but is no investigator (status 200): check --investigator-url and TOCSIN_INVESTIGATOR_ADDR"},
		{name: "a redirect", token: "x", status: 307, body: "", want: "URL answers, but is no investigator (status 307): check --investigator-url and TOCSIN_INVESTIGATOR_ADDR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				body, err := io.ReadAll(r.Body)
				token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				if err != nil || r.Method != http.MethodPost || r.URL.Path != pathAlerts || string(body) != `{"data":"x"}` ||
					r.Header.Get("Content-Type") != "application/json" || token != strings.TrimSpace(c.token) || r.Header.Get(UserHeader) == "" {
					t.Errorf("asked %s %s %v %s, %v, want the alert, the token and the user", r.Method, r.URL, r.Header, body, err)
				}
				w.Header().Set("Retry-After", c.header)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer s.Close()
			stdout, stderr, err := submit(t, s.URL, c.token)
			got := stdout + stderr
			if err != nil {
				got += err.Error()
			}
			if want := strings.ReplaceAll(c.want, "URL", s.URL); got != want || errors.Is(err, service.ErrUsage) != c.usage || asked != 1 {
				t.Errorf("%d requests, usage error %t, got\n%s\nwant\n%s", asked, errors.Is(err, service.ErrUsage), got, want)
			}
		})
	}
}

func TestSubmitToNobody(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	stdout, _, err := submit(t, "http://"+address, "")
	if stdout != "" || err == nil || errors.Is(err, service.ErrUsage) ||
		!strings.HasPrefix(err.Error(), "no investigator answers at http://"+address+": ") ||
		!strings.HasSuffix(err.Error(), `connection refused; start one with "tocsin up --investigator FILE" or "tocsin investigator --investigator FILE"`) {
		t.Errorf("printed %q, error %v, want how to start one", stdout, err)
	}
}

// script is a session as its investigator shows it: each look at the summary is a step.
type script struct {
	t     *testing.T
	steps []step
	// onStep, if set, is called before each step.
	onStep func(i int)
	at     int
	asked  map[string]int
}

// step is what a look at the session shows.
type step struct {
	outcome session.Outcome
	// events are new or changed in this step.
	events []session.Event
	// status, if set, is that of a failure with body.
	status int
	body   string
	err    error
}

// RoundTrip implements http.RoundTripper.
func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	path := strings.TrimPrefix(r.URL.Path, pathSessions+id)
	s.asked[path]++
	answer := func(status int, body string) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	encoded := func(v any) (*http.Response, error) {
		b, err := json.Marshal(v)
		if err != nil {
			s.t.Error(err)
		}
		return answer(http.StatusOK, string(b))
	}
	switch path {
	case "/summary":
		i := min(s.at, len(s.steps)-1)
		if s.at++; s.onStep != nil {
			s.onStep(i)
		}
		now := s.steps[i]
		switch {
		case now.err != nil:
			return nil, now.err
		case now.status != 0:
			return answer(now.status, now.body)
		}
		return encoded(now.outcome)
	case "/timeline":
		// Each page has one event, so that paging is seen.
		var after int64
		if _, err := fmt.Sscan(r.URL.Query().Get("after"), &after); err != nil {
			s.t.Errorf("asked %s: %v", r.URL, err)
		}
		page := session.Events{Events: []session.Event{}, Next: after}
		for _, now := range s.steps[:min(s.at, len(s.steps))] {
			for _, e := range now.events {
				if e.UpdatedSequence > after && len(page.Events) == 0 {
					page.Events, page.Next = append(page.Events, e), e.UpdatedSequence
				}
			}
		}
		return encoded(page)
	case "":
		return answer(http.StatusOK, `{"stages":[{"executions":[{"execution_id":"x1","agent_name":"triage-1"},{"execution_id":"x2","agent_name":"triage-2"}]}]}`)
	}
	s.t.Errorf("asked %s %s", r.Method, r.URL)
	return answer(http.StatusNotFound, "")
}

// follow follows the script in a bubble.
func (s *script) follow(ctx context.Context, timeout time.Duration, quiet bool) (string, error) {
	var out bytes.Buffer
	f := newFollower(&Client{URL: "http://127.0.0.1:1", HTTP: &http.Client{Transport: s}}, id, &out)
	f.quiet = quiet
	err := f.run(ctx, timeout)
	return out.String(), err
}

func running() session.Outcome { return session.Outcome{ID: id, Status: session.StatusInProgress} }

func text(s string) *string { return &s }

var clock = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d  `)

// timeline is a session whose events are created and changed over four steps.
func timeline() []step {
	start := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	n := int64(0)
	event := func(kind session.EventType, status session.Status, execution, content string, metadata map[string]any) session.Event {
		n++
		e := session.Event{
			ID: fmt.Sprint(kind, content), SessionID: id, SequenceNumber: n, UpdatedSequence: n, EventType: kind, Status: status,
			Content: content, Metadata: metadata, CreatedAt: session.Time(start), UpdatedAt: session.Time(start),
		}
		if execution != "" {
			e.ExecutionID = &execution
		}
		return e
	}
	call := func(status session.Status, id, content string, after time.Duration) session.Event {
		e := event(session.EventToolCall, status, "x1", content, map[string]any{"server_name": "kubernetes", "tool_name": "pods_list", "arguments": map[string]any{"namespace": "shop"}})
		e.ID, e.UpdatedAt = id, session.Time(start.Add(after))
		return e
	}
	done := running()
	done.Status = session.StatusCompleted
	done.FinalAnalysis, done.ExecutiveSummary = text("## Cause\n\nthe disk\x1b[2J is full\n"), text("In short:\nfull.")
	done.Conclusion = json.RawMessage(`{"confidence":"proven","structured":true}`)
	return []step{
		{outcome: session.Outcome{ID: id, Status: session.StatusPending}, events: []session.Event{event(session.EventNote, session.StatusCompleted, "", "the alert\noccurred again", nil)}},
		{outcome: running(), events: []session.Event{
			event(session.EventThinking, session.StatusStreaming, "x1", "", nil),
			event(session.EventThinking, session.StatusCompleted, "x1", "look \x1b[31mfirst\u202e", nil),
			call(session.StatusStreaming, "c1", "", 0),
			event(session.EventToolCall, session.StatusCompleted, "x2", "", map[string]any{"server_name": "tocsin", "tool_name": "conclude", "arguments": "no\nJSON"}),
		}},
		{outcome: running(), events: []session.Event{
			call(session.StatusCompleted, "c1", "NAME  READY\nweb   0/1", 1234*time.Millisecond),
			call(session.StatusTimedOut, "c2", "no answer", time.Minute),
			event(session.EventToolSummary, session.StatusCompleted, "x1", "one pod is down", map[string]any{"server_name": "kubernetes", "tool_name": "pods_list"}),
			event(session.EventFallback, session.StatusCompleted, "x2", "claude failed: 500. gpt goes on.", nil),
			event(session.EventResponse, session.StatusCompleted, "x2", strings.Repeat("long ", 100), nil),
			event(session.EventError, session.StatusCancelled, "x2", "", nil),
			event("odd\x1b", session.StatusCompleted, "unknown", "from a later version", nil),
		}},
		{outcome: done, events: []session.Event{
			event(session.EventFinalAnalysis, session.StatusCompleted, "x1", "## Cause\n\nthe disk is full", nil),
			event(session.EventExecutiveSummary, session.StatusCompleted, "", "In short: full.", nil),
		}},
	}
}

// TestFollow checks the lines of a timeline: each event once, and again when it changes.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, steps: timeline()}
		start := time.Now()
		out, err := s.follow(t.Context(), 0, false)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		want := `note      the alert occurred again
thinking  triage-1: look ␛[31mfirst
tool      triage-1: kubernetes.pods_list {"namespace":"shop"}
tool      triage-2: tocsin.conclude no JSON answered in 0s
tool      triage-1: kubernetes.pods_list answered in 1.234s: NAME READY web 0/1
tool      triage-1: kubernetes.pods_list {"namespace":"shop"} timed out after 1m0s: no answer
digest    triage-1: kubernetes.pods_list: one pod is down
fallback  triage-2: claude failed: 500. gpt goes on.
answer    triage-2: ` + strings.Repeat("long ", 47) + `long…
error     triage-2: cancelled
odd␛      from a later version
analysis  triage-1: ## Cause the disk is full
summary   In short: full.

## Cause

the disk␛[2J is full

summary: In short: full.
confidence: proven
the session ` + id + ` is completed
`
		if diff := cmp.Diff(want, clock.ReplaceAllString(out, "")); diff != "" {
			t.Errorf("the timeline differs (-want +got):\n%s", diff)
		}
		if waited := time.Since(start); waited != 3*pollInterval {
			t.Errorf("followed for %s, want %s", waited, 3*pollInterval)
		}
		// Once for x1 and x2, and once for the unknown one.
		if s.asked[""] != 2 || s.asked["/summary"] != 4 {
			t.Errorf("asked %v, want 2 times for the agents, and 4 times for the summary", s.asked)
		}
	})
}

// TestWait checks that without --follow no timeline is read.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, steps: timeline()}
		out, err := s.follow(t.Context(), time.Minute, true)
		if err != nil || !strings.HasPrefix(out, "\n## Cause") || s.asked["/timeline"]+s.asked[""] != 0 {
			t.Errorf("%v, asked %v, want the end alone:\n%s", err, s.asked, out)
		}
	})
}

// TestEnds checks the error of each end of a session.
func TestEnds(t *testing.T) {
	outcome := func(status session.Status, reason string) step {
		o := session.Outcome{ID: id, Status: status}
		if reason != "" {
			o.ErrorMessage = &reason
		}
		return step{outcome: o}
	}
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		name    string
		steps   []step
		timeout time.Duration
		cancel  time.Duration
		waited  time.Duration
		code    int
		says    string // in the error, or in the output
	}{
		{name: "completed", steps: []step{outcome(session.StatusCompleted, "")}, says: "is completed"},
		{name: "failed", steps: []step{outcome(session.StatusFailed, "the stage \"x\"\nfailed")}, code: 1, says: "the session " + id + ` failed: the stage "x" failed`},
		{name: "timed out", steps: []step{outcome(session.StatusTimedOut, "after 40m")}, code: 1, says: "the session " + id + " timed out: after 40m"},
		{name: "cancelled", steps: []step{outcome(session.StatusCancelled, "")}, code: 1, says: "the session " + id + " was cancelled: no reason is stored"},
		{name: "cancelling", steps: []step{outcome(session.StatusCancelling, ""), outcome(session.StatusCancelled, "by ann")}, waited: pollInterval, code: 1, says: "was cancelled: by ann"},
		{name: "the time is up", steps: []step{{outcome: running()}}, timeout: 90 * time.Second, waited: 90 * time.Second, code: 3, says: "the time is up: the session " + id + " goes on"},
		{name: "interrupted", steps: []step{{outcome: running()}}, cancel: 2 * time.Second, waited: 2 * time.Second, code: 3, says: "stopped following; the session goes on: " + id},
		{name: "interrupted before the time is up", steps: []step{{outcome: running()}}, timeout: time.Minute, cancel: 2 * time.Second, waited: 2 * time.Second, code: 3, says: "stopped following"},
		{name: "deleted", steps: []step{{outcome: running()}, {status: 404, body: `{"error":"no session has this id"}`}}, waited: pollInterval, code: 1, says: "is not there any more"},
		{name: "another server", steps: []step{{outcome: running()}, {status: 404, body: "<html>"}}, waited: pollInterval, code: 1, says: "follow the session " + id},
		{name: "restarted", steps: []step{{outcome: running()}, {err: refused}, {status: 503, body: `{"error":"the bus is unreachable"}`}, {outcome: running()}, {err: refused}, outcome(session.StatusCompleted, "")}, waited: 5 * pollInterval, says: "trying again for 1m0s: no investigator answers at http://127.0.0.1:1: dial: connection refused"},
		{name: "gone", steps: []step{{outcome: running()}, {err: refused}}, waited: maxUnreachable + pollInterval, code: 1, says: "it goes on when the investigator runs: no investigator answers"},
		{name: "gone, with a time-out", steps: []step{{err: refused}}, timeout: 10 * time.Second, waited: 10 * time.Second, code: 3, says: "the time is up"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel > 0 {
					defer time.AfterFunc(c.cancel, cancel).Stop()
				}
				start := time.Now()
				s := &script{t: t, steps: c.steps}
				out, err := s.follow(ctx, c.timeout, false)
				code := service.ExitOK
				switch {
				case errors.Is(err, service.ErrTimeUp), err != nil && err.Error() == "exit status 3":
					code = service.ExitTimeUp
				case err != nil:
					code = service.ExitFailed
				}
				if got := fmt.Sprint(out, err); code != c.code || !strings.Contains(got, c.says) {
					t.Errorf("exit %d, want %d with %q:\n%s", code, c.code, c.says, got)
				}
				if waited := time.Since(start); waited != c.waited {
					t.Errorf("followed for %s, want %s", waited, c.waited)
				}
			})
		})
	}
}
