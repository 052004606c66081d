package ingest

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestReadsBeyondLoopback checks that reads from other machines need the token. The script
// and the health checks do not, but the latter give no reasons without it.
func TestReadsBeyondLoopback(t *testing.T) {
	const bearer = "Authorization"
	exposed := func(c *Config) { withToken(c); c.exposed = true }
	named := func(c *Config) { withToken(c); c.AllowedHosts = []string{"tocsin.example"} }
	unset := func(c *Config) { c.AllowedHosts = []string{"tocsin.example"} }
	away := errors.New("stream TELEMETRY does not exist")
	for _, c := range []struct {
		name, path string
		header     []string
		change     func(*Config)
		err        error
		status     int
		says, not  string
	}{
		{name: "on this machine", path: pathMetrics, change: withToken, status: 200},
		{name: "by another name", path: pathMetrics, header: []string{"Host", "tocsin.example"}, change: named, status: 401, says: "a token is required"},
		{name: "by another name, with it", path: pathMetrics, header: []string{"Host", "tocsin.example", bearer, "Bearer s3cret"}, change: named, status: 200},
		{name: "by another name, and none is set", path: pathMetrics, header: []string{"Host", "tocsin.example"}, change: unset, status: 401, says: "set TOCSIN_TOKEN"},
		{name: "beyond", path: pathMetrics, change: exposed, status: 401, says: "a token is required"},
		{name: "beyond, a wrong one", path: pathMetrics, header: []string{bearer, "Bearer s3cre"}, change: exposed, status: 401, says: `"error":"the token is not valid"`},
		{name: "beyond, with it", path: pathMetrics, header: []string{bearer, "Bearer s3cret"}, change: exposed, status: 200},
		{name: "health beyond", path: pathHealth, change: exposed, status: 200},
		{name: "ready beyond", path: pathReady, change: exposed, status: 200},
		{name: "not ready beyond", path: pathReady, change: exposed, err: away, status: 503, says: `{"ok":false}`, not: "TELEMETRY"},
		{name: "not ready beyond, with the token", path: pathReady, header: []string{bearer, "Bearer s3cret"}, change: exposed, err: away, status: 503, says: "TELEMETRY"},
		{name: "not ready on this machine", path: pathReady, change: withToken, err: away, status: 503, says: "TELEMETRY"},
		{name: "the script beyond", path: pathScript, change: exposed, status: 0, not: "token is required"},
	} {
		w := answerOf(testHandler(&fakeSink{notReady: c.err}, c.change), ask("GET", c.path, nil, c.header...))
		if c.status != 0 && w.Code != c.status || c.status == 0 && w.Code == http.StatusUnauthorized {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.status)
		}
		if body := w.Body.String(); !strings.Contains(body, c.says) || c.not != "" && strings.Contains(body, c.not) {
			t.Errorf("%s: %s, want %q in it and not %q", c.name, body, c.says, c.not)
		}
		if (w.Code == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") == "Bearer") {
			t.Errorf("%s: status %d with WWW-Authenticate %q, want Bearer with 401 alone", c.name, w.Code, w.Header().Get("WWW-Authenticate"))
		}
	}
}

// TestWrongTokens checks that the answers to a wrong and to a missing token differ, in each
// sender's format.
func TestWrongTokens(t *testing.T) {
	for _, c := range []struct {
		path   string
		header []string
		want   string
	}{
		{pathEvents, nil, "a token is required"},
		{pathEvents, []string{"Authorization", "Bearer x"}, "the token is not valid"},
		{pathCIResult, []string{"Authorization", "Basic s3cret"}, "a token is required"},
		{pathOTLPLogs, []string{"Authorization", "Bearer x"}, "the token is not valid"},
		{pathGitHub, []string{"Authorization", "Bearer x"}, "the token is not valid"},
		{pathGitLab, nil, "a token is required"},
		{pathAlertmanager, []string{"Authorization", "Bearer x"}, "the token is not valid"},
		{"/api/1/envelope/", nil, "a token is required"},
		{"/api/1/envelope/?sentry_key=tocsin", nil, "the token is not valid"},
	} {
		header := append([]string{"Content-Type", typeJSON}, c.header...)
		w := answerOf(testHandler(&fakeSink{}, withToken), ask("POST", c.path, strings.NewReader("{}\n{}\n"), header...))
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s with %q: %d %s, want 401 %s", c.path, c.header, w.Code, w.Body, c.want)
		}
	}
}
