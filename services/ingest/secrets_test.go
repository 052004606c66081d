package ingest

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// secrets must not be on the bus. They are concatenated here so that no scanner reports
// this file.
var secrets = map[string]string{
	"token":    "ghp_" + strings.Repeat("a1B2", 9),
	"key":      "AKIA" + "IOSFODNN7EXAMPLE",
	"jwt":      "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
	"password": "correct-horse-battery",
	"cookie":   "sid-5f2c9a77e0",
	"card":     "4111 1111 1111 1111",
}

// plant replaces the names of secrets in braces by the secrets.
func plant(body string) string {
	for name, value := range secrets {
		body = strings.ReplaceAll(body, "{"+name+"}", value)
	}
	return body
}

// TestNoSecretOrHiddenCharacterOnTheBus reads the raw messages, subjects and headers of
// both streams, after the real masker.
func TestNoSecretOrHiddenCharacterOnTheBus(t *testing.T) {
	dir := bustest.Start(t).Dir
	url, _ := start(t, Config{Bus: bus.Config{Dir: dir}, Masker: redact.New()})
	bustest.Eventually(t, "readiness", func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 })

	// A zero-width space within a token, and a reversed text.
	split := secrets["token"][:12] + `\u200b` + secrets["token"][12:]
	events := plant(`[
		{"kind":"log","app":"{token}","session":"{jwt}","release":"{token}","url":"http://u:{password}@localhost/a?access_token={cookie}","log":{"level":"error",
			"message":"login with {token} and ` + split + ` \u202edesrever\u202c \u001b[31m","stack":"at {key}","source":"a.js?token={cookie}:1:2","fingerprint":["{token}","\u200b{jwt}"],"args":["Bearer {jwt}",{"password":"{password}","deep":[{"api_key":"{cookie}"}]}]}},
		{"kind":"network","network":{"method":"POST","url":"http://localhost/pay?token={cookie}","status":500,"error":"card {card}",
			"request_headers":{"Authorization":"Bearer {jwt}","Cookie":"sid={cookie}","X-Api-Key":"{password}"},"response_headers":{"Set-Cookie":"sid={cookie}"},
			"request_body":"{\"user\":\"ann\",\"password\":\"{password}\",\"card\":\"{card}\"}","response_body":"password={password}&a=b"}},
		{"kind":"action","action":{"type":"input","target":"#t-{token}\u200b"}},
		{"kind":"circuit","circuit":{"name":"{token}","state":"open","reason":"dial postgres://app:{password}@db/x"}},
		{"kind":"security","security":{"type":"csp","message":"{key}","blocked_url":"https://x.example/?api_key={cookie}"}},
		{"kind":"vitals","url":"http://localhost/?session_token={cookie}","vitals":{"lcp_ms":1},"network":{"method":"GET","url":"/","status":200,"request_headers":{"Cookie":"{cookie}"}}}
	]`)
	result := plant(`{"status":"failure","ref":"{token}","commit":"{token}","name":"{key}","summary":"push to https://ci:{password}@git.example\u202e",
		"failures":[{"name":"{jwt}","message":"TOKEN={token}\u200b"}],"url":"https://ci.example/1?private_token={cookie}"}`)
	for path, body := range map[string]string{pathEvents: events, pathCIResult: result} {
		if status, _, answer := send(t, "POST", url+path, body); status != 200 {
			t.Fatalf("got %d %s, want 200", status, answer)
		}
	}
	log := stored(t, dir, bus.RoleDetector, bus.StreamTelemetry, func(m []bus.Message) bool { return len(m) == 7 })
	log = append(log, stored(t, dir, bus.RoleGateway, bus.StreamCI, func(m []bus.Message) bool { return len(m) == 1 })...)
	for _, m := range log {
		raw := fmt.Sprint(m.Subject, m.Header, string(m.Data))
		for name, secret := range secrets {
			if strings.Contains(strings.ToLower(raw), strings.ToLower(secret)) {
				t.Errorf("the %s is in %s, want it masked", name, raw)
			}
		}
		if i := strings.IndexAny(raw, "\u200b\u202e\u202c\x1b"); i >= 0 {
			t.Errorf("a hidden character is at %d of %q, want none", i, raw)
		}
		if !strings.Contains(raw, "REDACTED") {
			t.Errorf("got %s, want REDACTED in it", raw)
		}
	}
}

// TestNoSecretInSenderHeader checks that secrets in a User-Agent are masked: its first word
// becomes a header that agents see.
func TestNoSecretInSenderHeader(t *testing.T) {
	masked := func(c *Config) { c.Masker = redact.New() }
	for agent, want := range map[string]string{
		"{token}": "_REDACTED_github_",
		secrets["token"][:12] + "\u200b" + secrets["token"][12:]: "_REDACTED_github_",
		"{token}/1.0 (linux)": "_REDACTED_github_",
		"{key}":               "_REDACTED_aws_",
		"{jwt}":               "_REDACTED_jwt_",
		"Bearer {jwt}":        "",
		"app-{token}":         "",
		"lin_api_" + strings.Repeat("aB3xY9kQ", 5): "_REDACTED_linear_",
		"curl/8.5.0":          "curl",
		"Mozilla/5.0 {token}": "Mozilla",
		"check {token}":       "check",
	} {
		s := &fakeSink{}
		w := httptest.NewRecorder()
		agent = plant(agent)
		testHandler(s, masked).ServeHTTP(w, ask("POST", pathEvents, strings.NewReader(logEvent), "Content-Type", typeJSON, "User-Agent", agent))
		if w.Code != 200 {
			t.Fatalf("got %d %s, want 200", w.Code, w.Body)
		}
		got := s.msgs[0].Header.Get(bus.HeaderSender)
		if want != "" && got != want {
			t.Errorf("%q gives %q, want %q", agent, got, want)
		}
		for name, secret := range secrets {
			if strings.Contains(strings.ToLower(got), strings.ToLower(secret[:min(len(secret), 16)])) {
				t.Errorf("the %s is in %q, want it masked", name, got)
			}
		}
	}
}
