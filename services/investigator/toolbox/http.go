package toolbox

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxRedirects bounds the redirects of one request, all on the same host.
	maxRedirects = 3
	// maxIdleConns bounds the idle connections to a server.
	maxIdleConns = 4
	// maxCancellation bounds the message that gives up a call, in bytes.
	maxCancellation = 4 << 10
	// cancelGrace is how long the end of a session waits until the server has the cancellations of
	// the calls that were given up.
	cancelGrace = time.Second
)

// endpoint parses a server's address. One with a token or headers has to be https, or loopback.
func endpoint(s Server) (*url.URL, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, errors.New("the URL can't be parsed") // the error would show it, and it may hold a secret
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the URL's scheme is %q; http and https are possible", u.Scheme)
	case u.Host == "":
		return nil, errors.New("the URL has no host")
	case u.Scheme == "http" && (s.BearerToken != "" || len(s.Headers) > 0 || u.User != nil) && !loopback(u.Hostname()):
		return nil, fmt.Errorf("a token or headers are sent over http to loopback alone, not to %s; use https", u.Hostname())
	}
	return u, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// boundTripper adds the server's token and headers to requests for its host, refuses others, and
// bounds bodies.
type boundTripper struct {
	base    *http.Transport
	scheme  string
	host    string
	token   string
	headers map[string]string
	// timeout bounds a request with its answer; 0: none. That of http.Client would end a body
	// with an error that is no time-out.
	timeout time.Duration
	// failure is what broke a body: errTooLarge or a time-out.
	failure atomic.Pointer[error]
	// open counts the requests of the session that the server may still work on.
	open openRequests
}

// openRequests counts requests of MCP until they are answered, or, where the caller gave up, until
// the server has the cancellation. The SDK sends it in the background, and drops it once the end
// of the session began; a server without it goes on, and some do not end the session before.
type openRequests struct {
	mu     sync.Mutex
	count  int
	change chan struct{} // closed at the next change; nil unless one waits
}

func (o *openRequests) add(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count = max(0, o.count+n)
	if o.change != nil {
		close(o.change)
		o.change = nil
	}
}

// do runs one request.
func (o *openRequests) do(ctx context.Context, request func() error) error {
	o.add(1)
	err := request()
	if err == nil || ctx.Err() == nil || errors.Is(err, mcp.ErrConnectionClosed) {
		o.add(-1)
	} // else the SDK sends a cancellation, and RoundTrip counts that
	return err
}

// wait waits until no request is open, for limit at most.
func (o *openRequests) wait(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		o.mu.Lock()
		if o.count == 0 {
			o.mu.Unlock()
			return
		}
		if o.change == nil {
			o.change = make(chan struct{})
		}
		change := o.change
		o.mu.Unlock()
		select {
		case <-change:
		case <-timer.C:
			return
		}
	}
}

// isCancellation reports whether a request cancels a call.
func isCancellation(r *http.Request) bool {
	if r.Method != http.MethodPost || r.ContentLength <= 0 || r.ContentLength > maxCancellation || r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	var message struct {
		Method string `json:"method"`
	}
	return json.NewDecoder(body).Decode(&message) == nil && message.Method == "notifications/cancelled"
}

// RoundTrip implements http.RoundTripper.
func (t *boundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != t.host || r.URL.Scheme != t.scheme {
		return nil, fmt.Errorf("the request is for another host, %s", r.URL.Host)
	}
	ctx, cancel := r.Context(), context.CancelFunc(func() {})
	if t.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, t.timeout)
	}
	if isCancellation(r) {
		defer t.open.add(-1)
	}
	r = r.Clone(ctx)
	for name, value := range t.headers {
		r.Header.Set(name, value)
	}
	if t.token != "" {
		r.Header.Set("Authorization", "Bearer "+t.token)
	}
	response, err := t.base.RoundTrip(r)
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &boundBody{body: response.Body, cancel: cancel, left: MaxMessage, failure: &t.failure}
	return response, nil
}

type boundBody struct {
	body    io.ReadCloser
	cancel  context.CancelFunc
	left    int
	failure *atomic.Pointer[error]
}

// Read implements io.Reader.
func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.left -= n; b.left < 0 {
		err = errTooLarge
	}
	var timeout net.Error
	if errors.Is(err, errTooLarge) || errors.As(err, &timeout) && timeout.Timeout() {
		b.failure.Store(&err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *boundBody) Close() error {
	defer b.cancel()
	return b.body.Close()
}

func newHTTP(s Server) (mcp.Transport, *boundTripper, error) {
	u, err := endpoint(s)
	if err != nil {
		return nil, nil, err
	}
	base := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: maxIdleConns,
		IdleConnTimeout:     time.Minute,
		TLSHandshakeTimeout: HealthTimeout,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.SkipVerifySSL}, //nolint:gosec // verify_ssl: false is a person's decision
	}
	tripper := &boundTripper{base: base, scheme: u.Scheme, host: u.Host, token: s.BearerToken, headers: s.Headers, timeout: s.Timeout}
	client := &http.Client{
		Transport: tripper,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case r.URL.Host != u.Host || r.URL.Scheme != u.Scheme:
				return fmt.Errorf("the server redirects to another host, %s, which is not followed", r.URL.Host)
			case len(via) > maxRedirects:
				return fmt.Errorf("the server redirects over %d times", maxRedirects)
			}
			return nil
		},
	}
	return &mcp.StreamableClientTransport{
		Endpoint:             s.URL,
		HTTPClient:           client,
		MaxRetries:           -1, // a call is repeated here, or not at all
		DisableStandaloneSSE: true,
		MaxEventSize:         MaxMessage,
	}, tripper, nil
}
