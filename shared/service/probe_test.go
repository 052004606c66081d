package service

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		probe  Probe
		answer func(http.ResponseWriter)
		path   string
		want   string // of the error; empty: fine
	}{
		"ready":            {path: "/readyz", answer: func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"ok":true}`) }},
		"alive":            {probe: Probe{Live: true}, path: "/healthz", answer: func(http.ResponseWriter) {}},
		"not ready":        {path: "/readyz", want: "it is not ready: the bus is unreachable", answer: says(503, `{"ok":false,"error":"the bus is unreachable"}`)},
		"not alive":        {probe: Probe{Live: true}, path: "/healthz", want: "it is not alive: status 500", answer: says(500, "")},
		"no JSON":          {path: "/readyz", want: "it is not ready: host is not allowed", answer: says(403, "host is not allowed\n")},
		"a hostile reason": {path: "/readyz", want: "it is not ready: ␛[31m", answer: says(503, `{"error":"\u001b[31m"}`)},
		"another service":  {path: "/readyz", want: "it is not ready: 404 page not found", answer: says(404, "404 page not found")},
		"a redirect to it": {path: "/readyz", want: "it is not ready: status 304", answer: says(304, "")},
		"a long reason":    {path: "/readyz", want: "it is not ready: " + strings.Repeat("x", shownReason-1), answer: says(503, strings.Repeat("x", 2*maxReason))},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != c.path || r.Method != http.MethodGet {
					t.Errorf("asked %s %s, want GET %s", r.Method, r.URL, c.path)
				}
				c.answer(w)
			}))
			defer s.Close()
			c.probe.Timeout = 5 * time.Second
			var out bytes.Buffer
			err := c.probe.Check(t.Context(), Env{Stdout: &out}, "it", s.Listener.Addr().String())
			switch {
			case c.want == "" && (err != nil || out.String() != "it is "+c.probe.State()+"\n"):
				t.Errorf("printed %q, error %v, want %q", &out, err, "it is "+c.probe.State())
			case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want) || out.Len() > 0):
				t.Errorf("printed %q, error %v, want error %q", &out, err, c.want)
			}
		})
	}
}

func says(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestProbeOfAWildcardAsksLoopback(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, _ := net.SplitHostPort(r.Host); host != "127.0.0.1" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for _, host := range []string{"", "0.0.0.0", "[::]", "127.0.0.1"} {
		if err := (Probe{Timeout: 5 * time.Second}).Ask(t.Context(), "it", host+":"+port); err != nil {
			t.Errorf("host %q: error %v, want none", host, err)
		}
	}
}

func TestProbeOfNothing(t *testing.T) {
	p := Probe{Timeout: 100 * time.Millisecond}
	for _, addr := range []string{"", "7400", "127.0.0.1:0", "127.0.0.1:"} {
		if err := p.Ask(t.Context(), "it", addr); !errors.Is(err, ErrUsage) {
			t.Errorf("address %q: error %v, want a usage error", addr, err)
		}
	}
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mute := dead.Addr().String() // it takes connections, and says nothing
	defer func() { _ = dead.Close() }()
	if err := p.Ask(t.Context(), "it", mute); err == nil || !strings.HasPrefix(err.Error(), "it does not answer: ") {
		t.Errorf("error %v, want one that it does not answer", err)
	}
}
