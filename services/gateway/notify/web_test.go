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

// service is a web service that answers as told, the last answer for ever.
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

func to(code int, where string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, where, code) }
}

// hang answers nothing until whoever asks has gone.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// each runs f with both sinks that are web services, at an address with a secret.
func each(t *testing.T, f func(t *testing.T, at func(base string) sink)) {
	for name, at := range map[string]func(string) sink{
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
		t.Run(name, func(t *testing.T) { f(t, at) })
	}
}

// TestAnswers: what is tried again, and what is given up at once.
func TestAnswers(t *testing.T) {
	elsewhere := serve(t, status(200))
	each(t, func(t *testing.T, at func(string) sink) {
		for name, c := range map[string]struct {
			answers []http.HandlerFunc
			tries   int
			want    string // in the error
		}{
			"taken":                             {answers: []http.HandlerFunc{status(200)}, tries: 1},
			"503, then taken":                   {answers: []http.HandlerFunc{status(503), status(200)}, tries: 2},
			"500 for ever":                      {answers: []http.HandlerFunc{status(500)}, tries: 3, want: "it answered 500 Internal Server Error"},
			"too many":                          {answers: []http.HandlerFunc{status(429), status(200)}, tries: 2},
			"unknown":                           {answers: []http.HandlerFunc{status(404)}, tries: 1, want: "404 Not Found"},
			"forbidden":                         {answers: []http.HandlerFunc{status(403)}, tries: 1, want: "403"},
			"elsewhere":                         {answers: []http.HandlerFunc{to(307, elsewhere.URL)}, tries: 1, want: "redirects to another place"},
			"elsewhere by name":                 {answers: []http.HandlerFunc{to(308, "http://localhost:1/")}, tries: 1, want: "redirects"},
			"moved within":                      {answers: []http.HandlerFunc{to(308, "/T000-secret/new"), status(200)}, tries: 2},
			"moved within, as a GET":            {answers: []http.HandlerFunc{to(302, "/T000-secret/new"), status(200)}, tries: 1, want: "redirects"},
			"moved within for ever":             {answers: []http.HandlerFunc{to(307, "/T000-secret")}, tries: 1 + maxRedirects, want: "redirects"},
			"the connection breaks, then taken": {answers: []http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, status(200)}, tries: 2},
		} {
			t.Run(name, func(t *testing.T) {
				s := serve(t, c.answers...)
				err := at(s.URL).deliver(t.Context(), sample())
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				if n := len(s.got()); n != c.tries {
					t.Errorf("%d tries, want %d", n, c.tries)
				}
				withoutSecret(t, err)
			})
		}
	})
	if len(elsewhere.got()) > 0 {
		t.Error("a redirect to another host was followed")
	}
}

func withoutSecret(t *testing.T, err error) {
	t.Helper()
	if text := fmt.Sprint(err); strings.Contains(text, "secret") || strings.Contains(text, "127.0.0.1") && strings.Contains(text, "http://") {
		t.Errorf("a secret is shown: %s", text)
	}
}

// TestUnreachable: nobody listens, or there is no such name.
func TestUnreachable(t *testing.T) {
	each(t, func(t *testing.T, at func(string) sink) {
		s := serve(t, status(200))
		s.Close()
		err := at(s.URL).deliver(t.Context(), sample())
		if err == nil {
			t.Error("it was delivered")
		}
		withoutSecret(t, err)
		if err = at("http://127.0.0.1:99999").deliver(t.Context(), sample()); err == nil {
			t.Error("it was delivered")
		}
		withoutSecret(t, err)
	})
}

// TestHanging: a delivery ends with its context.
func TestHanging(t *testing.T) {
	each(t, func(t *testing.T, at func(string) sink) {
		s := serve(t, hang)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := at(s.URL).deliver(ctx, sample())
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
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
	if h.Get("Authorization") != "Bearer s3cret" || h.Get("Content-Type") != "application/json" || h.Get("User-Agent") != "tocsin" {
		t.Errorf("%v", h)
	}
	body, ok := strings.CutPrefix(s.got()[0], "POST ")
	if !ok {
		t.Errorf("%.20s", s.got()[0])
	}
	golden(t, "webhook.json", []byte(body))
	if err := newWebhook(s.URL, "").deliver(t.Context(), delivery{}); err != nil || s.headers[1].Get("Authorization") != "" {
		t.Errorf("%v %v", err, s.headers[1])
	}
}

// TestTriesArePaced: with pauses that double.
func TestTriesArePaced(t *testing.T) {
	p := newPoster()
	p.pause = 20 * time.Millisecond
	begun, n := time.Now(), 0
	err := p.tries(t.Context(), func(context.Context) error { n++; return refused(502) })
	if took := time.Since(begun); err == nil || n != maxTries || took < 60*time.Millisecond {
		t.Errorf("%d tries in %s: %v", n, took, err)
	}
}
