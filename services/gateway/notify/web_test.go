package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// service is a web service that gives the answers in turn, and the last one from then on.
type service struct {
	*httptest.Server
	mu      sync.Mutex
	answers []http.HandlerFunc
	bodies  []string
	headers []http.Header
}

func serve(t *testing.T, answers ...http.HandlerFunc) *service {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		n := min(len(s.bodies), len(s.answers)-1)
		s.bodies, s.headers = append(s.bodies, r.Method+" "+string(body)), append(s.headers, r.Header)
		s.mu.Unlock()
		s.answers[n](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func redirectTo(code int, where string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, where, code) }
}

// hang does not answer until the request is canceled.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// each runs f with both sinks that are web services, at an address with a secret.
func each(t *testing.T, f func(t *testing.T, newSink func(base string) sink)) {
	for name, newSink := range map[string]func(string) sink{
		"webhook": func(base string) sink {
			w := newWebhook(base+"/T000-secret", "token")
			w.pause = time.Millisecond
			return w
		},
		"slack": func(base string) sink {
			s := newSlack(base + "/T000-secret")
			s.pause = time.Millisecond
			return s
		},
	} {
		t.Run(name, func(t *testing.T) { f(t, newSink) })
	}
}

// TestAnswers: temporary failures are retried, others are not.
func TestAnswers(t *testing.T) {
	elsewhere := serve(t, status(200))
	each(t, func(t *testing.T, newSink func(string) sink) {
		for name, c := range map[string]struct {
			answers  []http.HandlerFunc
			attempts int
			want     string // in the error
		}{
			"accepted":                             {answers: []http.HandlerFunc{status(200)}, attempts: 1},
			"503, then accepted":                   {answers: []http.HandlerFunc{status(503), status(200)}, attempts: 2},
			"500 every time":                       {answers: []http.HandlerFunc{status(500)}, attempts: 3, want: "it answered 500 Internal Server Error"},
			"too many requests":                    {answers: []http.HandlerFunc{status(429), status(200)}, attempts: 2},
			"not found":                            {answers: []http.HandlerFunc{status(404)}, attempts: 1, want: "404 Not Found"},
			"forbidden":                            {answers: []http.HandlerFunc{status(403)}, attempts: 1, want: "403"},
			"elsewhere":                            {answers: []http.HandlerFunc{redirectTo(307, elsewhere.URL)}, attempts: 1, want: "redirects to another host"},
			"elsewhere by name":                    {answers: []http.HandlerFunc{redirectTo(308, "http://localhost:1/")}, attempts: 1, want: "redirects"},
			"moved within":                         {answers: []http.HandlerFunc{redirectTo(308, "/T000-secret/new"), status(200)}, attempts: 2},
			"moved within, as a GET":               {answers: []http.HandlerFunc{redirectTo(302, "/T000-secret/new"), status(200)}, attempts: 1, want: "redirects"},
			"moved within every time":              {answers: []http.HandlerFunc{redirectTo(307, "/T000-secret")}, attempts: 1 + maxRedirects, want: "redirects"},
			"the connection breaks, then accepted": {answers: []http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, status(200)}, attempts: 2},
		} {
			t.Run(name, func(t *testing.T) {
				s := serve(t, c.answers...)
				err := newSink(s.URL).deliver(t.Context(), sample())
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("deliver = %v, want %q in it", err, c.want)
				}
				if n := len(s.got()); n != c.attempts {
					t.Errorf("%d requests, want %d", n, c.attempts)
				}
				withoutSecret(t, err)
			})
		}
	})
	if len(elsewhere.got()) > 0 {
		t.Errorf("another host got %v after a redirect, want nothing", elsewhere.got())
	}
}

func withoutSecret(t *testing.T, err error) {
	t.Helper()
	if text := fmt.Sprint(err); strings.Contains(text, "secret") || strings.Contains(text, "127.0.0.1") && strings.Contains(text, "http://") {
		t.Errorf("error = %s, want no secret and no address in it", text)
	}
}

// TestUnreachable: nothing listens at the address, or it is invalid.
func TestUnreachable(t *testing.T) {
	each(t, func(t *testing.T, newSink func(string) sink) {
		s := serve(t, status(200))
		s.Close()
		err := newSink(s.URL).deliver(t.Context(), sample())
		if err == nil {
			t.Error("deliver: no error, want one")
		}
		withoutSecret(t, err)
		if err = newSink("http://127.0.0.1:99999").deliver(t.Context(), sample()); err == nil {
			t.Error("deliver: no error, want one")
		}
		withoutSecret(t, err)
	})
}

// TestHanging: a delivery ends with its context.
func TestHanging(t *testing.T) {
	each(t, func(t *testing.T, newSink func(string) sink) {
		s := serve(t, hang)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := newSink(s.URL).deliver(ctx, sample())
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("deliver = %v, want %v", err, context.DeadlineExceeded)
		}
		withoutSecret(t, err)
	})
}

func TestWebhookPayload(t *testing.T) {
	s := serve(t, status(204))
	if err := newWebhook(s.URL+"/x", "s3cret").deliver(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	h := s.headers[0]
	for name, want := range map[string]string{"Authorization": "Bearer s3cret", "Content-Type": "application/json", "User-Agent": "tocsin"} {
		if got := h.Get(name); got != want {
			t.Errorf("header %s = %q, want %q", name, got, want)
		}
	}
	body, ok := strings.CutPrefix(s.got()[0], "POST ")
	if !ok {
		t.Errorf("request = %.20s, want a POST", s.got()[0])
	}
	golden(t, "webhook.json", []byte(body))
	if err := newWebhook(s.URL, "").deliver(t.Context(), delivery{}); err != nil {
		t.Fatal(err)
	}
	if got := s.headers[1].Get("Authorization"); got != "" {
		t.Errorf("Authorization without a token = %q, want none", got)
	}
}

// TestRetryPauses: the pauses between attempts double.
func TestRetryPauses(t *testing.T) {
	p := newPoster()
	p.pause = 20 * time.Millisecond
	begun, n := time.Now(), 0
	err := p.retry(t.Context(), func(context.Context) error { n++; return statusError(502) })
	if took := time.Since(begun); err == nil || n != maxAttempts || took < 60*time.Millisecond {
		t.Errorf("%d attempts in %s: %v, want %d in at least 60ms and an error", n, took, err, maxAttempts)
	}
}
