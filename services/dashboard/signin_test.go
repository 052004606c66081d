package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSignInsAreBounded: their number and their duration have limits.
func TestSignInsAreBounded(t *testing.T) {
	s := newSignIns()
	now := time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	first := s.add(now)
	second := s.add(now.Add(time.Second))
	if first == second || len(first) < 40 {
		t.Errorf("cookies = %q and %q, want different values of at least 40 bytes", first, second)
	}
	for _, c := range []struct {
		value string
		after time.Duration
		want  bool
	}{
		{first, 0, true}, {first, signInTTL - 1, true}, {first, signInTTL, false},
		{second, signInTTL, true}, {"", 0, false}, {first + "x", 0, false},
	} {
		if got := s.isValid(c.value, now.Add(c.after)); got != c.want {
			t.Errorf("isValid(%q) after %s = %t, want %t", c.value, c.after, got, c.want)
		}
	}
	s.remove(second)
	if s.isValid(second, now) {
		t.Error("isValid of a removed sign-in = true, want false")
	}
	for i := range maxSignIns {
		s.add(now.Add(time.Duration(i+2) * time.Second))
	}
	if got := len(s.expiries); got != maxSignIns {
		t.Errorf("number of sign-ins = %d, want %d", got, maxSignIns)
	}
	if s.isValid(first, now) {
		t.Error("isValid of the oldest sign-in over the limit = true, want false")
	}
	if s.add(now.Add(signInTTL + time.Hour)); len(s.expiries) != 1 {
		t.Errorf("number of sign-ins after the others have expired = %d, want 1", len(s.expiries))
	}
}

// TestReadsBeyondLoopback: reads need the token, a sign-in or a proxy's user; the page's files
// and the health checks do not.
func TestReadsBeyondLoopback(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.Addr, cfg.Token = "0.0.0.0:0", "secret"
	d := start(t, cfg)
	d.awaitReady(t)
	open := map[string]bool{"/": true, pathAlive: true, pathReady: true, "/nothing": true}
	var cookie string
	for message, body := range map[string]string{"a token is required": `{}`, "the token is not valid": `{"token":"guessed"}`} {
		a := d.send(t, "POST", pathSignIn, body)
		a.check(t, "sign-in with "+body, http.StatusUnauthorized, message)
		a.checkHeader(t, "sign-in with "+body, "Set-Cookie", "")
	}
	a := d.send(t, "POST", pathSignIn, `{"token":" secret "}`)
	a.check(t, "sign-in", http.StatusOK, "")
	set := a.header.Get("Set-Cookie")
	cookie, _, _ = strings.Cut(set, ";")
	for _, want := range []string{signInCookie + "=", "; Path=/", "; Max-Age=43200", "; HttpOnly", "; SameSite=Strict"} {
		checkContains(t, "cookie of the sign-in", set, want)
	}
	checkLacks(t, "cookie of the sign-in", set, "secret")
	checkLacks(t, "cookie of the sign-in", set, "Secure")
	for _, r := range everyPath {
		if r.method == http.MethodOptions || r.path == pathSignIn {
			continue
		}
		for _, c := range []struct {
			header  []string
			allowed bool
			want    string
		}{
			{nil, false, "a token is required"},
			{[]string{"Authorization", "Bearer guessed"}, false, "the token is not valid"},
			{[]string{"Cookie", signInCookie + "=guessed"}, false, "a token is required"},
			{[]string{"Authorization", "Bearer secret"}, true, ""},
			{[]string{"Cookie", cookie}, true, ""},
		} {
			if r.path == pathStream && c.allowed {
				continue // the stream does not end
			}
			a := d.send(t, r.method, r.path, "", c.header...)
			if refused := a.status == http.StatusUnauthorized; refused == (c.allowed || open[r.path]) {
				t.Errorf("%s %s with %q: %d %s, want refused = %t", r.method, r.path, c.header, a.status, a.body, !refused)
			} else if refused && !strings.Contains(a.body, c.want) {
				t.Errorf("%s %s with %q: %s, want %s", r.method, r.path, c.header, a.body, c.want)
			}
		}
	}
	d.listen(t, "", "Cookie", cookie).close()
	a = d.send(t, "DELETE", pathSignIn, "", "Cookie", cookie)
	a.check(t, "sign-out", http.StatusOK, "")
	checkContains(t, "cookie of the sign-out", a.header.Get("Set-Cookie"), "Max-Age=0")
	d.get(t, pathAlerts, "Cookie", cookie).check(t, "a read after the sign-out", http.StatusUnauthorized, "")
}

// TestReadinessReason: beyond loopback, the reason is only in answers to requests with the token.
func TestReadinessReason(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.Addr, cfg.Token = "0.0.0.0:0", "secret"
	d := start(t, cfg)
	d.awaitReady(t)
	b.down()
	eventually(t, "status 503 after the bus has stopped", func() bool { return d.get(t, pathReady).status == http.StatusServiceUnavailable })
	checkEqual(t, "answer without the token", strings.TrimSpace(d.get(t, pathReady).body), `{"ok":false}`)
	checkContains(t, "answer with the token", d.get(t, pathReady, "Authorization", "Bearer secret").body, `"error":"`)
}
