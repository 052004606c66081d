package redact_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// The secrets are put together here, so that no scanner takes them for real.
var (
	github    = "ghp" + "_" + strings.Repeat("aB3", 12)
	anthropic = "sk-" + "ant-" + "api03-" + strings.Repeat("xY_9-", 16) + "AA"
	jwtHead   = "eyJ" + "hbGciOiJIUzI1NiJ9"
	jwtClaims = "eyJ" + "zdWIiOiIxMjM0In0"
	jwt       = jwtHead + "." + jwtClaims + "." + strings.Repeat("s-_9", 10)
	pem       = "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE" + " KEY-----"
	visa      = "4111" + "1111" + "1111" + "1111"
)

// shapes are the tokens of section 7 and the rule that each is known by.
func shapes() []struct{ rule, secret string } {
	return []struct{ rule, secret string }{
		{"aws", "AKIA" + strings.Repeat("Q7", 8)},
		{"aws", "ASIA" + strings.Repeat("Q7", 8)},
		{"google", "AIza" + strings.Repeat("Sy-_0", 7)},
		{"google", "ya29" + "." + strings.Repeat("a0Af", 10)},
		{"google", "GOCSPX" + "-" + strings.Repeat("a0Af", 7)},
		{"github", github},
		{"github", "gho" + "_" + strings.Repeat("a", 36)},
		{"github", "ghu" + "_" + strings.Repeat("a", 36)},
		{"github", "ghs" + "_" + strings.Repeat("a", 36)},
		{"github", "ghr" + "_" + strings.Repeat("a", 36)},
		{"github", "github" + "_pat_" + strings.Repeat("11ABC", 4) + "_" + strings.Repeat("x", 59)},
		{"gitlab", "glpat" + "-" + strings.Repeat("x4_Y", 5)},
		{"gitlab", "gldt" + "-" + strings.Repeat("x4_Y", 5)},
		{"gitlab", "glrt" + "-" + strings.Repeat("x4_Y", 5)},
		{"gitlab", "glptt" + "-" + strings.Repeat("0a", 20)},
		{"slack", "xoxb" + "-123456789012-123456789012-" + strings.Repeat("aB", 12)},
		{"slack", "xoxp" + "-123456789012-" + strings.Repeat("aB", 12)},
		{"slack", "xapp" + "-1-A0123-123-" + strings.Repeat("ab", 16)},
		{"openai", "sk" + "-" + strings.Repeat("aB3", 16)},
		{"openai", "sk" + "-proj-" + strings.Repeat("aB3_", 16)},
		{"anthropic", anthropic},
		{"stripe", "sk" + "_live_" + strings.Repeat("aB3", 8)},
		{"stripe", "sk" + "_test_" + strings.Repeat("aB3", 8)},
		{"stripe", "rk" + "_live_" + strings.Repeat("aB3", 8)},
		{"npm", "npm" + "_" + strings.Repeat("aB3", 12)},
		{"pypi", "pypi" + "-AgEIcHlwaS5vcmc" + strings.Repeat("aB3", 12)},
		{"sendgrid", "SG" + "." + strings.Repeat("a", 22) + "." + strings.Repeat("b", 43)},
		{"twilio", "SK" + strings.Repeat("0a", 16)},
		{"jwt", jwt},
		{"private_key", pem},
		{"card", visa},
		{"digitalocean", "dop" + "_v1_" + strings.Repeat("0a1b", 16)},
		{"digitalocean", "doo" + "_v1_" + strings.Repeat("0a1b", 16)},
		{"shopify", "shpat" + "_" + strings.Repeat("0a1b", 8)},
		{"shopify", "shpss" + "_" + strings.Repeat("0a1b", 8)},
		{"square", "sq0atp" + "-" + strings.Repeat("aB-_3x", 4)},
		{"square", "sq0csp" + "-" + strings.Repeat("aB-_3x", 8)},
		{"huggingface", "hf" + "_" + strings.Repeat("aBcD3", 7)},
		{"groq", "gsk" + "_" + strings.Repeat("aB3x", 13)},
		{"docker", "dckr" + "_pat_" + strings.Repeat("aB3", 9)},
		{"docker", "dckr" + "_oat_" + strings.Repeat("aB3", 9)},
		{"vault", "hvs" + "." + strings.Repeat("CAES1", 18)},
		{"age", "AGE-SECRET-KEY" + "-1" + strings.Repeat("QPZR9", 12)},
		{"slack", "xoxe" + "-1-" + strings.Repeat("aB3", 30)},
		{"slack", "xoxe" + ".xoxp-1-" + strings.Repeat("aB3", 30)},
	}
}

// Every shape is known wherever it stands.
func TestTokenShapes(t *testing.T) {
	t.Parallel()
	e := redact.New()
	for _, shape := range shapes() {
		mask := "[REDACTED:" + shape.rule + "]"
		for _, around := range []string{
			"%", "got % from the vault", "got %, then", "(%)", `{"value":"%"}`, `["a","%"]`, "a=%", "see: %.", "<b>%</b>",
			"https://example.com/x?y=%&z=1", "/hook/%/done", "first\n%\nlast", "'%'", "`%`", "schlüssel→%←", `{\"v\":\"%\"}`, `line\n%`,
		} {
			text := strings.ReplaceAll(around, "%", shape.secret)
			want := strings.ReplaceAll(around, "%", mask)
			if got := e.String(text); got != want {
				t.Errorf("String(%q)\n got %q\nwant %q", text, got, want)
			}
		}
	}
}

func TestSchemes(t *testing.T) {
	t.Parallel()
	basic := base64.StdEncoding.EncodeToString([]byte("ada:lovelace"))
	table(t, redact.New().String, [][2]string{
		{"sent Bearer " + strings.Repeat("a1", 10), "sent Bearer [REDACTED:bearer]"},
		{"sent bearer abc123def", "sent bearer [REDACTED:bearer]"},
		{"BEARER " + strings.Repeat("a1", 10) + " failed", "BEARER [REDACTED:bearer] failed"},
		{"sent bearer abcdefghijk", "sent bearer abcdefghijk"},
		{"sent Basic " + basic, "sent Basic [REDACTED:basic]"},
		{"curl -H 'Authorization: Bearer abc.def' http://x", "curl -H 'Authorization: [REDACTED]' http://x"},
		{"Authorization: Basic " + basic + "\nHost: x", "Authorization: [REDACTED]\nHost: x"},
		{"Cookie: a=1; b=2; c=3\r\nHost: x", "Cookie: [REDACTED]\r\nHost: x"},
		{"postgres://app:s3cr3t@db:5432/main", "postgres://[REDACTED:url_credentials]@db:5432/main"},
		{"https://user:pa@ss@example.com/x", "https://[REDACTED:url_credentials]@example.com/x"},
		{"redis://:s3cr3t@cache:6379", "redis://[REDACTED:url_credentials]@cache:6379"},
		{`{"db":"mysql:\/\/root:x@db\/a"}`, `{"db":"mysql:\/\/[REDACTED:url_credentials]@db\/a"}`},
		{"https://" + strings.Repeat("a1B", 7) + "@host:8443/x", "https://[REDACTED:url_credentials]@host:8443/x"},
		{"git+https://" + strings.Repeat("a1B", 7) + "@host", "git+https://[REDACTED:url_credentials]@host"},
		{"https://" + github + "@host/x", "https://[REDACTED:url_credentials]@host/x"},
		{"https://user@host/x", "https://user@host/x"},
		{"https://user@host:8080/x", "https://user@host:8080/x"},
		{"https://ada.lovelace.of.london@host", "https://ada.lovelace.of.london@host"},
		{"https://medium.com/@ada/a-story-1234567890abcdef", "https://medium.com/@ada/a-story-1234567890abcdef"},
		{"//u:p@host/x", "//[REDACTED:url_credentials]@host/x"},
		{"see whsec" + "_" + strings.Repeat("aB3/", 8) + "==.", "see [REDACTED:stripe]."},
		{"got " + jwtHead + ".." + strings.Repeat("iv", 8) + ".ct.tag", "got [REDACTED:jwt]"}, // encrypted, without a key
		{"got " + jwtHead + "...", "got " + jwtHead + "..."},
		{"a\n" + pem + "\nb", "a\n[REDACTED:private_key]\nb"},
		{strings.ReplaceAll(pem, "RSA ", ""), "[REDACTED:private_key]"},
		{strings.ReplaceAll(pem, "\n", `\n`), "[REDACTED:private_key]"},
		{pem[:50], "[REDACTED:private_key]"},
	})
}

func TestCards(t *testing.T) {
	t.Parallel()
	const mask = "[REDACTED:card]"
	amex, diners, visa13 := "3782"+"822463"+"10005", "3056"+"9309"+"0259"+"04", "4222"+"2222"+"22222"
	table(t, redact.New().String, [][2]string{
		{visa, mask},
		{"card " + visa + ".", "card " + mask + "."},
		{"4111" + " 1111 1111 1111", mask},
		{"4111" + "-1111-1111-1111 declined", mask + " declined"},
		{"5555" + "5555" + "5555" + "4444", mask},
		{"2223" + "0031" + "2200" + "3222", mask},
		{amex, mask},
		{"3782" + " 822463 10005", mask},
		{diners, mask},
		{visa13, mask},
		{"6011" + "1111" + "1111" + "1117", mask},
		{`{"pan":` + visa + `}`, `{"pan":"` + mask + `"}`},
		{`{"a":[1,` + visa + `, ` + visa + `],"b":"{\"pan\": ` + visa + `}"}`, `{"a":[1,"` + mask + `", "` + mask + `"],"b":"{\"pan\": \"` + mask + `\"}"}`},
		{"[error] order " + visa, "[error] order " + mask},
		{"[1] " + visa, "[1] " + mask},
		{"cc:" + visa + ",x", "cc:" + mask + ",x"},
		{"+" + visa, "+" + mask},
		{"+4111" + " 1111 1111 1111", "+" + mask},
		{"+" + amex, "+" + amex}, // as long as a telephone number
		{"+" + visa13, "+" + visa13},
		{"4111" + ".1111.1111.1111", mask},
		{"with 4111" + ".1111.1111.1111.", "with " + mask + "."},
		{"3782" + ".822463.10005", mask},
		{"4111" + ".1111.1111.1111.5", "4111" + ".1111.1111.1111.5"},
		{"7.4111" + ".1111.1111.1111", "7.4111" + ".1111.1111.1111"},
		{"2200" + "0000" + "0000" + "0053", mask},
		{"2204" + "0000" + "0000" + "0019", "2204" + "0000" + "0000" + "0019"},
		{"4111 1111 1111 1112", "4111 1111 1111 1112"}, // fails Luhn
		{visa + "0", visa + "0"},                       // too long for its issuer
		{"x" + visa, "x" + visa},
	})
}

// table checks that mask makes each first text the second, and leaves that one.
func table(t *testing.T, mask func(string) string, cases [][2]string) {
	t.Helper()
	for _, c := range cases {
		got := mask(c[0])
		if got != c[1] {
			t.Errorf("%q\n got %q\nwant %q", c[0], got, c[1])
		}
		if again := mask(got); again != got {
			t.Errorf("%q masked again = %q, want no change", got, again)
		}
	}
}
