package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	// attemptTimeout bounds one attempt, deliveryTimeout all attempts of a delivery. The
	// pause between two attempts begins at firstPause and doubles.
	attemptTimeout  = 5 * time.Second
	maxAttempts     = 3
	firstPause      = 500 * time.Millisecond
	deliveryTimeout = maxAttempts*attemptTimeout + 2*time.Second
	// maxRedirects bounds the redirects within one host.
	maxRedirects = 3
)

// poster sends requests to the sinks that are web services.
type poster struct {
	client *http.Client
	pause  time.Duration
}

func newPoster() poster {
	return poster{pause: firstPause, client: &http.Client{
		CheckRedirect: checkRedirect,
		// Notices are rare, so connections are not kept.
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
	}}
}

// errOtherHost is returned for a redirect that is not followed: to another scheme or host.
var errOtherHost = errors.New("the address redirects to another host, which is not followed: configure the address that it redirects to")

// checkRedirect allows redirects only to the same scheme and host that keep the method POST: a GET
// has no body.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if next.Method != http.MethodPost || next.URL.Scheme != first.Scheme || next.URL.Host != first.Host || len(via) > maxRedirects {
		return errOtherHost
	}
	return nil
}

// temporaryError is an error after which another attempt may succeed.
type temporaryError struct{ error }

func (t temporaryError) Unwrap() error { return t.error }

// retry calls f until it succeeds, returns an error that is not temporary, or has failed
// maxAttempts times.
func (p poster) retry(ctx context.Context, f func(context.Context) error) error {
	pause := p.pause
	for n := 1; ; n++ {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := f(attempt)
		cancel()
		var retryable temporaryError
		if err == nil || !errors.As(err, &retryable) || n == maxAttempts || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// statusError returns the error for a response with another status than 2xx.
func statusError(status int) error {
	err := fmt.Errorf("it answered %d %s", status, http.StatusText(status))
	if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		return temporaryError{err}
	}
	return err
}

// requestError returns the error for a request without a response. It leaves out the
// address, which contains a secret with Slack and many others.
func requestError(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	if errors.Is(err, errOtherHost) {
		return errOtherHost
	}
	return temporaryError{fmt.Errorf("send the request: %w", err)}
}
