// Package client is the investigator's HTTP client, and the command `tocsin investigate`: it
// submits an alert and follows the session.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// UserHeader names the user who runs the command line. The investigator takes it for the name of
// an author cli:<user>, where no proxy names a user.
const UserHeader = "X-Tocsin-CLI-User"

const (
	// requestTimeout bounds one request. The investigator answers a submission within 20 s.
	requestTimeout = 30 * time.Second
	// eventsPerRequest is the number of timeline events that one request asks for.
	eventsPerRequest = 50
	// maxAnswer bounds what is read of an answer, in bytes. A longer one is an error.
	maxAnswer = 256 << 20
	// maxText bounds the text of a refusal, in characters. A longer one is cut.
	maxText = 500
	// maxRetryAfter bounds a Retry-After that is shown, in seconds; a longer one is left out.
	maxRetryAfter = 24 * 60 * 60
)

// A submission whose connection is lost is sent again with the same Idempotency-Key, every
// retryPause until retryFor has passed since then: the investigator may be restarting. The last
// request may take requestTimeout longer.
const (
	retryFor   = 15 * time.Second
	retryPause = 500 * time.Millisecond
)

const (
	pathAlerts   = "/api/v1/alerts"
	pathSessions = "/api/v1/sessions/"
)

// Client asks one investigator.
type Client struct {
	// URL is its address, without a path at the end.
	URL string
	// Token is sent where it is set.
	Token string
	// User is sent as [UserHeader] where it is set.
	User string
	// HTTP sends the requests. Nil means a client of this package.
	HTTP *http.Client
}

// Alert is what is submitted: Data or ID.
type Alert struct {
	Type  string `json:"alert_type,omitempty"`
	Chain string `json:"chain,omitempty"`
	// Data is the alert's text, and ID the id of a stored alert.
	Data string `json:"data,omitempty"`
	ID   string `json:"alert_id,omitempty"`
}

// Submitted is the answer to a submission.
type Submitted struct {
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
}

// Joined reports whether the alert became a note of a session that was open.
func (s Submitted) Joined() bool { return s.Status == "joined" }

// Refusal is an answer that is no success.
type Refusal struct { //nolint:errname // refusal is the word for it everywhere
	Status int
	// Text is that of the investigator, in one line. It is empty where another server answered.
	Text string
	// RetryAfter is when the request may succeed, or 0.
	RetryAfter time.Duration
}

// Error implements error.
func (r *Refusal) Error() string {
	return fmt.Sprintf("the investigator answered %d %s: %s", r.Status, http.StatusText(r.Status), r.Text)
}

// Temporary reports whether the same request may succeed later.
func (r *Refusal) Temporary() bool {
	return r.Status == http.StatusTooManyRequests || r.Status >= http.StatusInternalServerError
}

// UnreachableError is returned when a request gets no answer.
type UnreachableError struct {
	URL   string
	Cause error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no investigator answers at %s: %v", e.URL, e.Cause)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// Submit submits an alert. It leads to one session, also where the connection is lost and the
// request is sent again.
func (c *Client) Submit(ctx context.Context, a Alert) (Submitted, error) {
	body, err := json.Marshal(a)
	if err != nil {
		return Submitted{}, fmt.Errorf("encode the alert: %w", err)
	}
	var answer Submitted
	err = c.submit(ctx, body, &answer)
	if err == nil && answer.SessionID == "" {
		err = &Refusal{Status: http.StatusOK}
	}
	return answer, err
}

// submit sends a submission until it is answered.
func (c *Client) submit(ctx context.Context, body []byte, into *Submitted) error {
	key := rand.Text()
	err := c.do(ctx, http.MethodPost, pathAlerts, key, body, into)
	if !isLost(err) {
		return err
	}
	for lost := time.Now(); time.Since(lost) < retryFor; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("ask the investigator: %w", context.Cause(ctx))
		case <-time.After(retryPause):
		}
		err = c.do(ctx, http.MethodPost, pathAlerts, key, body, into)
		var unreachable *UnreachableError
		var refused *Refusal
		if !errors.As(err, &unreachable) && (!errors.As(err, &refused) || refused.Status < http.StatusInternalServerError) {
			return err
		}
	}
	return err
}

// isLost reports whether a request may have been received although it has no answer.
func isLost(err error) bool {
	var unreachable *UnreachableError
	var op *net.OpError
	return errors.As(err, &unreachable) && (!errors.As(err, &op) || op.Op != "dial")
}

// Summary returns what a session has led to.
func (c *Client) Summary(ctx context.Context, id string) (session.Outcome, error) {
	var o session.Outcome
	return o, c.do(ctx, http.MethodGet, pathSessions+url.PathEscape(id)+"/summary", "", nil, &o)
}

// Timeline returns the next events of a session that changed after a number.
func (c *Client) Timeline(ctx context.Context, id string, after int64) (session.Events, error) {
	var events session.Events
	path := fmt.Sprintf("%s%s/timeline?after=%d&limit=%d", pathSessions, url.PathEscape(id), after, eventsPerRequest)
	return events, c.do(ctx, http.MethodGet, path, "", nil, &events)
}

// Agents returns the names of the agents that have worked on a session, by their executions.
func (c *Client) Agents(ctx context.Context, id string) (map[string]string, error) {
	var d struct {
		Stages []struct {
			Executions []struct {
				ID   string `json:"execution_id"`
				Name string `json:"agent_name"`
			} `json:"executions"`
		} `json:"stages"`
	}
	if err := c.do(ctx, http.MethodGet, pathSessions+url.PathEscape(id), "", nil, &d); err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, s := range d.Stages {
		for _, e := range s.Executions {
			names[e.ID] = e.Name
		}
	}
	return names, nil
}

// direct sends requests. It follows no redirect: the token is for one address.
var direct = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// do sends a request, with an Idempotency-Key where it has one, and decodes the answer. Its error is a [*Refusal], an [*UnreachableError], or
// that of ctx.
func (c *Client) do(ctx context.Context, method, path, key string, body []byte, into any) error {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(bounded, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the investigator: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.User != "" {
		req.Header.Set(UserHeader, c.User)
	}
	sender := c.HTTP
	if sender == nil {
		sender = direct
	}
	resp, err := sender.Do(req)
	if err != nil {
		return c.unanswered(ctx, bounded, err)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	_ = resp.Body.Close() // it was only read
	switch {
	case err != nil:
		return c.unanswered(ctx, bounded, err)
	case len(answer) > maxAnswer:
		return fmt.Errorf("the investigator's answer is over %d MiB", maxAnswer>>20)
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted:
		return refusalOf(resp, answer)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return &Refusal{Status: resp.StatusCode}
	}
	return nil
}

// unanswered returns the error of a request without an answer.
func (c *Client) unanswered(ctx, bounded context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("ask the investigator: %w", context.Cause(ctx))
	}
	var failed *url.Error
	if errors.As(err, &failed) { // it repeats method and URL
		err = failed.Err
	}
	if bounded.Err() != nil {
		err = fmt.Errorf("no answer within %s", requestTimeout)
	}
	return &UnreachableError{URL: c.URL, Cause: err}
}

func refusalOf(resp *http.Response, body []byte) *Refusal {
	r := &Refusal{Status: resp.StatusCode}
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &answer) == nil {
		r.Text = sanitize.Cut(sanitize.Visible(answer.Error), maxText)
	}
	if seconds, err := strconv.Atoi(strings.TrimSpace(resp.Header.Get("Retry-After"))); err == nil && seconds > 0 && seconds <= maxRetryAfter {
		r.RetryAfter = time.Duration(seconds) * time.Second
	}
	return r
}
