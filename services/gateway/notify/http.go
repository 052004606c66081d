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
	// tryWithin bounds one try of a request; maxTries are made, with pauses that
	// begin at firstPause and double. triesWithin bounds all of it.
	tryWithin   = 5 * time.Second
	maxTries    = 3
	firstPause  = 500 * time.Millisecond
	triesWithin = maxTries*tryWithin + 2*time.Second
	// maxRedirects within one host.
	maxRedirects = 3
)

// poster is how the sinks that are web services are reached.
type poster struct {
	client *http.Client
	pause  time.Duration
}

func newPoster() poster {
	return poster{pause: firstPause, client: &http.Client{
		CheckRedirect: redirect,
		// Notices are rare: a connection that is kept would only be one more thing
		// to end.
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
	}}
}

// errElsewhere says that an answer led away from what was set.
var errElsewhere = errors.New("it redirects to another place, and notices go only where you said: set the address that it leads to")

// redirect follows only to the same scheme and host, and only as a POST: what
// becomes a GET has lost the notice.
func redirect(next *http.Request, via []*http.Request) error {
	first := via[0].URL
	if next.Method != http.MethodPost || next.URL.Scheme != first.Scheme || next.URL.Host != first.Host || len(via) > maxRedirects {
		return errElsewhere
	}
	return nil
}

// again marks an error that may be over at another try.
type again struct{ error }

func (a again) Unwrap() error { return a.error }

// tries calls f until it succeeds, or fails for good, or has failed maxTries
// times.
func (p poster) tries(ctx context.Context, f func(context.Context) error) error {
	pause := p.pause
	for n := 1; ; n++ {
		try, cancel := context.WithTimeout(ctx, tryWithin)
		err := f(try)
		cancel()
		var passing again
		if err == nil || !errors.As(err, &passing) || n == maxTries || ctx.Err() != nil {
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

// refused is the error for an answer that is none of 2xx.
func refused(status int) error {
	err := fmt.Errorf("it answered %d %s", status, http.StatusText(status))
	if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		return again{err}
	}
	return err
}

// unreached is why there was no answer, without the address: in that of Slack,
// and in many others, is a secret.
func unreached(err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	if errors.Is(err, errElsewhere) {
		return errElsewhere
	}
	return again{fmt.Errorf("reach it: %w", err)}
}
