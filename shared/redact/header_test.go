package redact_test

import (
	"testing"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

func TestSensitiveHeaders(t *testing.T) {
	t.Parallel()
	e := redact.New()
	for _, name := range []string{
		"authorization", "Authorization", "AUTHORIZATION", "proxy-authorization", "x-amzn-authorization",
		"cookie", "Cookie", "set-cookie", "Set-Cookie", "set-cookie2",
		"x-api-key", "X-Api-Key", "apikey", "api-key", "x-goog-api-key", "ocp-apim-subscription-key", "x-functions-key",
		"x-auth-token", "x-access-token", "x-amz-security-token", "x-vault-token", "x-gitlab-token", "private-token",
		"x-session-token", "x-refresh-token", "job-token", "x-registry-auth",
		"x-csrf-token", "X-CSRFToken", "x-xsrf-token", "x-session-id", "x-client-secret", "x-auth-key",
		"x-hub-signature-256", "x-password", "dpop", "authentication", "x-amz-signature",
		"sec-websocket-protocol-token",
	} {
		if got := e.Header(name, "plain words"); got != redact.Mask {
			t.Errorf("Header(%q) = %q, want %q", name, got, redact.Mask)
		}
	}
}

func TestOrdinaryHeaders(t *testing.T) {
	t.Parallel()
	e := redact.New()
	for _, h := range [][2]string{
		{"accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"},
		{"accept-language", "de-DE,de;q=0.9"},
		{"author", "Ada Lovelace"},
		{"content-type", "application/json; charset=utf-8"},
		{"content-length", "4096"},
		{"content-security-policy", "default-src 'self'; script-src 'nonce-abc'"},
		{"etag", `W/"33a64df551425fcc55e4d42a148795d9f25f89d4"`},
		{"cache-control", "max-age=31536000, immutable"},
		{"date", "Wed, 28 Jan 2026 14:30:00 GMT"},
		{"host", "localhost:3000"},
		{"keep-alive", "timeout=5, max=1000"},
		{"referer", "http://localhost:3000/users?page=2"},
		{"user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"},
		{"www-authenticate", `Bearer realm="api", error="invalid_token"`},
		{"x-request-id", "0e5c0b7a-4a52-4b64-9f0c-3d1f3f0a2c11"},
		{"x-ratelimit-remaining", "59"},
		{"x-powered-by", "Express"},
		{"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="},
		{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	} {
		if got := e.Header(h[0], h[1]); got != h[1] {
			t.Errorf("Header(%q, %q) = %q, want it unchanged", h[0], h[1], got)
		}
	}
}

func TestSecretsInOrdinaryHeaders(t *testing.T) {
	t.Parallel()
	e := redact.New()
	for _, c := range []struct{ name, value, want string }{
		{"location", "/cb?code=1&access_token=abc#state", "/cb?code=1&access_token=[REDACTED]#state"},
		{"Referer", "https://u:p@example.com/", "https://[REDACTED:url_credentials]@example.com/"},
		{"x-forwarded-uri", "/login?password=hunter2", "/login?password=[REDACTED]"},
		{"x-note", "with " + github, "with [REDACTED:github]"},
	} {
		if got := e.Header(c.name, c.value); got != c.want {
			t.Errorf("Header(%q, %q) = %q, want %q", c.name, c.value, got, c.want)
		}
	}
}
