// Package endpoint is the HTTP side of a model's provider, the same for all of them: which
// addresses may be asked with a key, a client that follows no redirect and bounds what it
// reads, and failures as [model.Error].
//
// The providers' SDKs run on top of it. It reads nothing from the environment but the standard
// variables of HTTP proxies.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// The bounds of a response.
const (
	// MaxLine bounds one line of an event stream. A line of a whole answer has the text twice
	// escaped at most.
	MaxLine = 16 << 20
	// MaxBody bounds a whole event stream. Chunks of one token have about 300 bytes, so that it is
	// over that of an answer of 200,000 tokens.
	MaxBody = 64 << 20
	// maxHeader bounds the headers.
	maxHeader = 64 << 10
	// maxFailure bounds what is read of the body of a failure.
	maxFailure = 64 << 10
	// maxMessage is the longest text of a failure, in characters.
	maxMessage = 500
	// maxRetryAfter bounds what a provider may ask to wait.
	maxRetryAfter = 24 * time.Hour
)

// Check returns why an address may not be asked with a key, or nil.
func Check(address, key string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("base_url is no URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("base_url must begin with https:// or http://")
	case u.Hostname() == "":
		return errors.New("base_url has no host")
	case u.User != nil:
		return errors.New("base_url must not contain a user or a password; name the key in api_key_env")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("base_url must not have a query or a fragment")
	case strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }):
		return errors.New("the key has a character that a header can't carry")
	case u.Scheme == "http" && key != "" && !loopback(u.Hostname()):
		return fmt.Errorf("base_url sends the key to %s without encryption; use https://, or http:// to a loopback address", u.Hostname())
	}
	return nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// NewClient returns the HTTP client of one provider. Each response that is no event stream of
// status 200 becomes an error, which wraps an [*model.Error] without the key.
func NewClient(key string) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: &transport{key: key, base: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: maxHeader,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        90 * time.Second,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type transport struct {
	base *http.Transport
	key  string
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.base.RoundTrip(r)
	if err != nil {
		if r.Context().Err() != nil {
			return nil, err
		}
		return nil, &model.Error{Kind: model.Unavailable, Message: Text("the provider can't be reached: "+err.Error(), t.key), Cause: err}
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode == http.StatusOK && kind != "application/json" && kind != "text/html" {
		response.Body = &body{ReadCloser: response.Body}
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil, &model.Error{Kind: model.Malformed, Status: response.StatusCode, Message: "the provider answered " + kind + " instead of an event stream"}
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxFailure))
	if err != nil && len(text) == 0 {
		text = []byte(response.Status)
	}
	failure := &model.Error{
		Kind: KindOf(response.StatusCode), Status: response.StatusCode,
		RetryAfter: RetryAfter(response.Header, time.Now()),
		Message:    Text(messageOf(text, response.Status), t.key),
	}
	if location := response.Header.Get("Location"); location != "" && response.StatusCode/100 == 3 {
		failure.Message = Text("a redirect, which is not followed, to "+location, t.key)
	}
	return nil, failure
}

// KindOf returns what kind of failure an HTTP status is.
func KindOf(status int) model.Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return model.Limited
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly:
		return model.Unavailable
	case status/100 == 2:
		return model.Malformed
	}
	return model.Refused
}

// RetryAfter returns how long a response asks to wait, or 0: the header retry-after-ms, else
// Retry-After in seconds or as a date. It is at most a day.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 {
		return bounded(ms / 1000)
	}
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return bounded(seconds)
	}
	if at, err := http.ParseTime(value); err == nil {
		return bounded(at.Sub(now).Seconds())
	}
	return 0
}

func bounded(seconds float64) time.Duration {
	switch {
	case !(seconds > 0): // also for NaN
		return 0
	case seconds > maxRetryAfter.Seconds():
		return maxRetryAfter
	}
	return time.Duration(seconds * float64(time.Second))
}

// messageOf returns the text of a failure's body: its error.message, message, detail or error,
// the body itself, or the status.
func messageOf(data []byte, status string) string {
	var document struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Detail  json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(data, &document) == nil {
		var inner struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(document.Error, &inner) == nil && inner.Message != "" {
			return inner.Message
		}
		for _, raw := range []json.RawMessage{document.Message, document.Detail, document.Error} {
			var text string
			if json.Unmarshal(raw, &text) == nil && text != "" {
				return text
			}
		}
	}
	if text := strings.TrimSpace(string(data)); text != "" {
		return text
	}
	return status
}

// Text returns the text of a failure as it may be shown: without the key and control
// characters, at most 500 characters.
func Text(text, key string) string {
	if key != "" {
		text = strings.ReplaceAll(text, key, redact.Mask)
	}
	text = sanitize.Strip(strings.ToValidUTF8(text, "\uFFFD"))
	n := 0
	for i := range text {
		if n == maxMessage {
			return text[:i]
		}
		n++
	}
	return text
}

// Failure returns the error of a stream as an [*model.Error]. Started reports that a chunk came.
func Failure(ctx context.Context, err error, started bool, key string) *model.Error {
	var failure *model.Error
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case ctx.Err() != nil:
		return &model.Error{Kind: model.Unavailable, Message: "the request was canceled", Cause: context.Cause(ctx)}
	case errors.As(err, &failure):
		return failure
	case errors.Is(err, errLongLine), errors.Is(err, errLongStream), errors.As(err, &syntax), errors.As(err, &kind):
		return &model.Error{Kind: model.Malformed, Message: Text("the answer can't be read: "+err.Error(), key), Cause: err}
	case err == nil:
		return &model.Error{Kind: model.Cut, Message: "the stream ended before the answer did"}
	case started:
		return &model.Error{Kind: model.Cut, Message: Text("the stream was cut: "+err.Error(), key), Cause: err}
	}
	return &model.Error{Kind: model.Unavailable, Message: Text("the stream failed: "+err.Error(), key), Cause: err}
}

// Event returns the [*model.Error] of a failure that a provider reports within a stream, from
// the error's type or code and its text.
func Event(kind, text, key string) *model.Error {
	if text == "" {
		text = kind
	}
	failure := &model.Error{Kind: model.Unavailable, Message: Text("in the stream: "+text, key)}
	switch {
	case strings.Contains(kind, "rate_limit"), kind == "429":
		failure.Kind = model.Limited
	case strings.Contains(kind, "invalid"), strings.Contains(kind, "authentication"), strings.Contains(kind, "permission"),
		strings.Contains(kind, "not_found"), strings.Contains(kind, "context_length"), strings.Contains(kind, "too_large"):
		failure.Kind = model.Refused
	}
	return failure
}

// The errors that end a stream at [MaxLine] and at [MaxBody].
var (
	errLongLine   = fmt.Errorf("a line of the stream is over %d MiB", MaxLine>>20)
	errLongStream = fmt.Errorf("the stream is over %d MiB", MaxBody>>20)
)

// body bounds an event stream.
type body struct {
	io.ReadCloser
	total, line int
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.total += n
	if i := bytes.LastIndexByte(p[:n], '\n'); i >= 0 {
		b.line = n - i - 1
	} else {
		b.line += n
	}
	switch {
	case b.line > MaxLine:
		return n, errLongLine
	case b.total > MaxBody:
		return n, errLongStream
	}
	return n, err
}
