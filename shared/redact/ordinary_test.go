package redact_test

import (
	"testing"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// TestOrdinaryTextStays checks texts without secrets, which people need to find a fault.
func TestOrdinaryTextStays(t *testing.T) {
	t.Parallel()
	e := redact.New()
	for _, s := range []string{
		"", " ", "ok", "-", "token -", "x\"", "x\",", "token is", "--", "+", "|", "a|", "<", "<<", "token<<", "token\t", "Q~", ":AA", "-----END", "-----BEGIN", "LTA", "@//", "values", "values(",
		// words and codes beside bearer
		"Bearer 401", "got Bearer 200 OK", "Bearer v1", "Bearer be", "bearer misconfigured", "the bearer microservice", "bearer dependencies",
		// counts, and users that are no secrets
		"tokens_used: 12.5%", "tokens_used=1.2e6", "total_tokens=12_345", "tokens_used=~12", "tokens_used=+12", "tokensUsed: 12ms", "tokens_used=unlimited",
		`{"tokens_used":"120/4096"}`,
		"ssh://aws-codecommit-user-apka1234567890@host/x", "postgresql://app_service_account_1@db/shop", "sip://alice.longusername.2024@host",
		"hf_AutoModelForSequenceClassificationTest", "hvs.this-is-a-module-name-with-long-words",
		// prose about tokens and passwords
		"Unexpected token < in JSON at position 0",
		"Uncaught SyntaxError: Unexpected token '<', \"<!DOCTYPE \"... is not valid JSON",
		"SyntaxError: Unexpected token: punc (,)",
		"SyntaxError: Unexpected token } in JSON at position 17",
		"SyntaxError: /app/src/a.js: Unexpected token (12:4)",
		"jwt expired", "JsonWebTokenError: invalid signature", "PasswordService: started", "TokenStore: ready", "invalid csrf token", "ForbiddenError: invalid csrf token",
		"the token has expired, please log in again", "missing bearer token", "Bearer token is missing", "no Authorization header was sent",
		"Basic authentication failed for user ada", "basic understanding of things", "password must have 8 characters or more",
		"Password authentication failed for user \"ada\"", "wrong password", "forgot your password?",
		"Access token was refreshed", "the secret to a good cup of tea", "AuthService: login failed", "auth: login failed", "auth service: ready",
		"TokenExpiredError: jwt expired at 2026-01-28", "Warning: cookie “theme” will be soon rejected",
		"authentication: not configured", "[auth] started", "auth.go:42: refused", "/src/auth.ts:10:5", "token.go:17:3: undefined: x",
		"GET /api/token -> 200", "POST /auth/login 401 12ms", "/auth:8080", "auth-service:8080 refused", "http://auth:8080/health",
		"TypeError: token: expected string", "invalid token: unexpected end of input", "secret: not found", "cookie: not set", "jwt: malformed",
		"token: null", "/x?token=undefined&a=1", "token=undefined", "pass: 12, fail: 3", "PASS src/a.test.ts", "pass=12", "password: required",
		"tokens: 512", "max_tokens: 4096", "max_tokens=4096", `{"max_tokens":4096}`, "tokens used: 12/4096", "prompt_tokens=12 completion_tokens=3",
		"keyboard: qwerty", "monkey=1", "author=Ada", "author: Ada Lovelace", "hotkey: ctrl+k", "primary key: id", "key: value",
		"a bearer of bad news", "Bearer of bad news", "bearer tokens are sent", "Bearer is not set", "Bearer or Basic", "Bearer - none", "a bearer access-token", "bearer certificates expire", "bearer capabilities",
		`{"tokenCount":5,"token_count":7,"maxTokens":9}`, "hf_tokenizer_of_the_large_language_model_v2", "shpat_ and sq0atp- are prefixes", "shape shops", "gsk_build_all", "hvs.vault.local", "dop_v1_",
		// places, traces, errors
		"TypeError: Cannot read properties of undefined (reading 'map')",
		"    at Object.<anonymous> (/app/src/index.js:10:15)", "    at async Promise.all (index 0)",
		"    at renderWithHooks (http://localhost:3000/static/js/bundle.js:23456:18)",
		"webpack-internal:///./src/pages/Login.tsx:42:17", "main.go:12:3: undefined: foo",
		"goroutine 1 [running]:\nmain.main()\n\t/app/main.go:7 +0x1d", `File "/app/main.py", line 10, in <module>`,
		"Warning: Each child in a list should have a unique \"key\" prop. See https://reactjs.org/link/warning-keys for more information.",
		"Error: Minified React error #418; visit https://react.dev/errors/418?args[]=HTML for the full message",
		"Hydration failed because the initial UI does not match what was rendered on the server.",
		"GET /api/users -> 500", "GET http://localhost:3000/api/users?page=2&limit=50 500 (Internal Server Error)",
		"connect ECONNREFUSED 127.0.0.1:5432", "net::ERR_CONNECTION_REFUSED", "std::string operator==", "a == b", "x := y", "if token == nil {",
		"for (;;) { i = i + 1; }", "const a = b => c", "token === undefined", "password != ''",
		"Access to fetch at 'http://localhost:8080/' from origin 'http://localhost:3000' has been blocked by CORS policy",
		// numbers and names
		"0e5c0b7a-4a52-4b64-9f0c-3d1f3f0a2c11", "2026-01-28T14:30:00.000Z", "2026-01-28 14:30:00,123 INFO ready", "1769610600000", "1769610600123456789",
		"order 4000123412341235 shipped", "order #100000000000001", "+49 151 12345678", "+411234567890123", "4111.1111.1111.1112", "5105.1051", "2.2000000000000053", "10.4111.1111", "+4915112345678", "49 151 12345678", "41234567-4123-4123-8abc-0123456789ab", "192.168.178.1", "3.14159265358979", "0.4111111111111111",
		"commit 1f0b2d84bf92f3577b34da6a3ce929d0e0e47367", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"md5 d41d8cd98f00b204e9800998ecf8427e", "index-BqT8s3kZ.js", "main.3f2a1b9c.chunk.css", "v1.26.0-rc.1+build.5",
		"sk-circle sk-fading-circle sk-cube-grid", "sk-loading-spinner-container-large", "task-force-one-two-three-four-five", "css-1a2b3c-MuiButton-root", "ask-me-anything-about-this-topic",
		"flex items-center justify-between px-4 py-2 bg-gray-100", "glob-parent", "gl-matrix", "xoxo, gossip", "npm_config_registry=https://registry.npmjs.org/",
		"npm ERR! code ELIFECYCLE", "eyJust a word", "SKU 12345", "SG.1.2", "AKIA", "Alza",
		"a\n-----END CERTIFICATE-----\n-----END PRIVATE KEY\nb\n", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----",
		"mailto:ada@example.com", "ada@example.com", "ssh git@github.com:tocsin/x.git", "https://github.com/tocsin-bus/tocsin/pull/2#discussion_r1",
		"12:30:45", "ratio 16:9", "a: b: c", "50% done", "100%25", "%s: %v", "%20", "caf%C3%A9", "a\\b\\c", `C:\Users\ada\token.txt`,
		"日本語のログ", "✓ 12 tests passed (3.2 s)", "FAIL src/auth.test.ts > login > rejects a wrong password",
		`{"level":"info","msg":"ready","port":3000,"ok":true,"x":null}`, `{"id":"u_1","author":"Ada","keys":[1,2]}`,
		`{"token":null,"password":"","secret":null}`, `{"hasPassword":true}`, `{"cookieConsent":false}`,
	} {
		check(t, "String", e.String, s, s)
		check(t, "Body", e.Body, s, s)
	}
}
