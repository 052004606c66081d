package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// transport answers requests with a script; the last step is repeated. An empty step loses the
// connection after the request was received.
type transport struct {
	steps  []string
	keys   map[string]int
	bodies map[string]int
	asked  int
}

const noListener = "connection refused"

func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	step := tr.steps[min(tr.asked, len(tr.steps)-1)]
	tr.asked++
	if step == noListener {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	tr.keys[r.Header.Get("Idempotency-Key")]++
	tr.bodies[string(body)]++
	if step == "" {
		return nil, io.ErrUnexpectedEOF
	}
	status, text, _ := strings.Cut(step, " ")
	code := map[string]int{"202": 202, "200": 200, "503": 503, "429": 429, "400": 400}[status]
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte(text))), Request: r}, nil
}

// TestSubmitIsRetried: a submission whose connection is lost is sent again with its Idempotency-Key;
// one that was never received, or was answered, is not.
func TestSubmitIsRetried(t *testing.T) {
	const queued = `202 {"session_id":"` + id + `","status":"queued"}`
	for _, c := range []struct {
		name    string
		steps   []string
		asked   int
		took    time.Duration
		says    string // an error
		session bool
	}{
		{"answered", []string{queued}, 1, 0, "", true},
		{"lost once", []string{"", queued}, 2, retryPause, "", true},
		{"lost, while it restarts", []string{"", noListener, noListener, `503 {"error":"the bus does not answer"}`, queued}, 5, 4 * retryPause, "", true},
		{"lost, then refused", []string{"", `429 {"error":"the queue is full"}`}, 2, retryPause, "the queue is full", false},
		{"lost for good", []string{""}, 31, retryFor, "unexpected EOF", false},
		{"lost, and it does not return", []string{"", noListener}, 31, retryFor, "connection refused", false},
		{"nothing listens", []string{noListener}, 1, 0, "connection refused", false},
		{"a mistake", []string{`400 {"error":"no"}`}, 1, 0, "400", false},
		{"no bus", []string{`503 {"error":"no"}`}, 1, 0, "503", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &transport{steps: c.steps, keys: map[string]int{}, bodies: map[string]int{}}
				begun := time.Now()
				got, err := (&Client{URL: "http://investigator", HTTP: &http.Client{Transport: tr}}).Submit(t.Context(), Alert{Data: "x"})
				if took := time.Since(begun); tr.asked != c.asked || took != c.took {
					t.Errorf("%d requests in %s, want %d in %s", tr.asked, took, c.asked, c.took)
				}
				if (got.SessionID == id) != c.session || (err == nil) != c.session || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %+v, %v, want a session: %t, else an error with %q", got, err, c.session, c.says)
				}
				if len(tr.keys) > 1 || tr.keys[""] > 0 || len(tr.bodies) > 1 {
					t.Errorf("the keys %v and bodies %v, want one of each", tr.keys, tr.bodies)
				}
			})
		})
	}
}

// TestSubmitIsInterrupted: a submission that waits to be sent again ends with its context, and two
// submissions have two keys.
func TestSubmitIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{steps: []string{""}, keys: map[string]int{}, bodies: map[string]int{}}
		client := &Client{URL: "http://investigator", HTTP: &http.Client{Transport: tr}}
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), retryPause/2)
			if _, err := client.Submit(ctx, Alert{Data: "x"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Submit = %v, want %v", err, context.DeadlineExceeded)
			}
			cancel()
		}
		if tr.asked != 2 || len(tr.keys) != 2 {
			t.Errorf("%d requests with the keys %v, want 2 with a key each", tr.asked, tr.keys)
		}
	})
}
