// Package httpservetest records the answers of all routes of a service, and compares its
// routes with the reference page. It is for tests.
package httpservetest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
)

// Request returns a request to a server at base. The headers are names and values in turn;
// Host sets the host. The path "*" makes a request for the server as a whole, as OPTIONS
// has it.
func Request(method, base, path string, body io.Reader, header ...string) *http.Request {
	target := path
	if path == "*" {
		target = "/"
	}
	r := httptest.NewRequestWithContext(context.Background(), method, base+target, body)
	if path == "*" {
		r.RequestURI, r.URL.Path = "*", "*"
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// Render returns an answer as text: status, headers in alphabetical order, and body.
func Render(w *http.Response) string {
	body, err := io.ReadAll(w.Body)
	if err != nil {
		body = fmt.Appendf(body, "(the body broke off: %v)", err)
	}
	return RenderHead(w) + string(body) + "\n"
}

// RenderHead returns the status and the headers of an answer as text, without the headers
// named in except.
func RenderHead(w *http.Response, except ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d %s\n", w.StatusCode, http.StatusText(w.StatusCode))
	names := make([]string, 0, len(w.Header))
	for name := range w.Header {
		if !slices.Contains(except, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&text, "%s: %s\n", name, strings.Join(w.Header[name], " | "))
	}
	return text.String()
}

// Sweep sends a request of every method to every path, from several senders, and groups
// the requests by their answers for a golden file.
type Sweep struct {
	// URL is the address of the server, such as http://127.0.0.1:7400.
	URL            string
	Methods, Paths []string
	// Skip reports whether a request is not sent, because its answer never ends. It may be
	// nil.
	Skip func(sender, method, path string) bool
	// Render returns an answer as text, or "" to leave it out. Nil: [Render].
	Render func(method, path string, w *http.Response) string

	answers  []string            // in the order in which they first came
	requests map[string][]string // by answer
}

// Send sends all requests of one sender, which adds its headers to each.
func (s *Sweep) Send(h http.Handler, sender string, header ...string) {
	for _, path := range s.Paths {
		for _, method := range s.Methods {
			if s.Skip != nil && s.Skip(sender, method, path) {
				continue
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, Request(method, s.URL, path, http.NoBody, header...))
			render := s.Render
			if render == nil {
				render = func(_, _ string, w *http.Response) string { return Render(w) }
			}
			if answer := render(method, path, w.Result()); answer != "" {
				s.Add(sender+": "+method+" "+path, answer)
			}
		}
	}
}

// Add adds the answer to a request.
func (s *Sweep) Add(request, answer string) {
	if s.requests == nil {
		s.requests = map[string][]string{}
	}
	if s.requests[answer] == nil {
		s.answers = append(s.answers, answer)
	}
	s.requests[answer] = append(s.requests[answer], request)
}

// String returns every answer, after the requests that got it.
func (s *Sweep) String() string {
	var golden strings.Builder
	for _, answer := range s.answers {
		fmt.Fprintf(&golden, "%s\n\n%s\n", strings.Join(s.requests[answer], "\n"), answer)
	}
	return golden.String()
}

// Counters asks for a page of metrics and returns the lines of one metric, sorted.
func Counters(h http.Handler, r *http.Request, metric string) []string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var counters []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, metric) {
			counters = append(counters, line)
		}
	}
	slices.Sort(counters)
	return counters
}
