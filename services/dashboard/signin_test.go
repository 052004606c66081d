package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSignInsAreBounded in count and in time.
func TestSignInsAreBounded(t *testing.T) {
	s := newSignIns()
	now := time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	first := s.add(now)
	second := s.add(now.Add(time.Second))
	if first == second || len(first) < 40 {
		t.Errorf("cookies %q and %q, want two that nobody guesses", first, second)
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
			t.Errorf("%q after %s: %t, want %t", c.value, c.after, got, c.want)
		}
	}
	s.remove(second)
	if s.isValid(second, now) {
		t.Error("a sign-in that was ended lasts")
	}
	for i := range maxSignIns {
		s.add(now.Add(time.Duration(i+2) * time.Second))
	}
	if len(s.expiries) != maxSignIns || s.isValid(first, now) {
		t.Errorf("%d sign-ins, the oldest lasts: %t; want %d, and not", len(s.expiries), s.isValid(first, now), maxSignIns)
	}
	if s.add(now.Add(signInTTL + time.Hour)); len(s.expiries) != 1 {
		t.Errorf("%d sign-ins once the others are over, want 1", len(s.expiries))
	}
}

// TestReadsBeyondLoopback need the token, a sign-in or a proxy's user; the page itself
// and the health checks don't (contract, section 11).
func TestReadsBeyondLoopback(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.Addr, cfg.Token = "0.0.0.0:0", "secret"
	d := start(t, cfg)
	d.awaitReady(t)
	open := map[string]bool{"/": true, pathAlive: true, pathReady: true, "/nothing": true}
	var cookie string
	for name, body := range map[string]string{"a token is required": `{}`, "the token is not valid": `{"token":"guessed"}`} {
		if a := d.send(t, "POST", pathSignIn, body); a.status != http.StatusUnauthorized || !strings.Contains(a.body, name) || a.header.Get("Set-Cookie") != "" {
			t.Errorf("sign-in with %s: %d %s %v, want 401 %s and no cookie", body, a.status, a.body, a.header, name)
		}
	}
	a := d.send(t, "POST", pathSignIn, `{"token":" secret "}`)
	set := a.header.Get("Set-Cookie")
	cookie, _, _ = strings.Cut(set, ";")
	for _, want := range []string{signInCookie + "=", "; Path=/", "; Max-Age=43200", "; HttpOnly", "; SameSite=Strict"} {
		if a.status != http.StatusOK || !strings.Contains(set, want) || strings.Contains(set, "secret") || strings.Contains(set, "Secure") {
			t.Errorf("sign-in: %d, cookie %q, want %q in it, and nothing of the token", a.status, set, want)
		}
	}
	for _, r := range everyPath {
		if r.method == http.MethodOptions || r.path == pathSignIn {
			continue
		}
		for _, c := range []struct {
			header []string
			may    bool
			want   string
		}{
			{nil, false, "a token is required"},
			{[]string{"Authorization", "Bearer guessed"}, false, "the token is not valid"},
			{[]string{"Cookie", signInCookie + "=guessed"}, false, "a token is required"},
			{[]string{"Authorization", "Bearer secret"}, true, ""},
			{[]string{"Cookie", cookie}, true, ""},
		} {
			if r.path == pathStream && c.may {
				continue // it would not end
			}
			a := d.send(t, r.method, r.path, "", c.header...)
			if refused := a.status == http.StatusUnauthorized; refused == (c.may || open[r.path]) {
				t.Errorf("%s %s with %q: %d %s, want refused = %t", r.method, r.path, c.header, a.status, a.body, !refused)
			} else if refused && !strings.Contains(a.body, c.want) {
				t.Errorf("%s %s with %q: %s, want %s", r.method, r.path, c.header, a.body, c.want)
			}
		}
	}
	d.listen(t, "", "Cookie", cookie).close()
	if a := d.send(t, "DELETE", pathSignIn, "", "Cookie", cookie); a.status != http.StatusOK || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("sign-out: %d %v, want 200 and an empty cookie", a.status, a.header)
	}
	if a := d.get(t, pathAlerts, "Cookie", cookie); a.status != http.StatusUnauthorized {
		t.Errorf("after the sign-out: %d, want 401", a.status)
	}
}

// TestHealthGivesNoReasonsAway beyond loopback, but to who has the token.
func TestHealthGivesNoReasonsAway(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.Addr, cfg.Token = "0.0.0.0:0", "secret"
	d := start(t, cfg)
	d.awaitReady(t)
	b.down()
	eventually(t, "answer that the bus is gone", func() bool { return d.get(t, pathReady).status == http.StatusServiceUnavailable })
	if a := d.get(t, pathReady); strings.TrimSpace(a.body) != `{"ok":false}` {
		t.Errorf("without the token: %s, want no reason", a.body)
	}
	if a := d.get(t, pathReady, "Authorization", "Bearer secret"); !strings.Contains(a.body, `"error":"`) {
		t.Errorf("with the token: %s, want the reason", a.body)
	}
}
