package redact_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func BenchmarkCleanLogLine(b *testing.B) {
	e := redact.New()
	const line = "TypeError: Cannot read properties of undefined (reading 'map') at UserList (http://localhost:3000/static/js/main.3f2a1b9c.chunk.js:42:17)"
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		e.String(line)
	}
}

func BenchmarkNetworkEvent(b *testing.B) {
	e := redact.New()
	body := `{"error":"boom","items":[` + strings.Repeat(`{"id":12,"name":"Ada Lovelace","email":"ada@example.com","created":"2026-01-28T14:30:00.000Z"},`, 20) + `{}]}`
	b.ReportAllocs()
	for b.Loop() {
		e.Event(&telemetry.Event{Kind: telemetry.KindNetwork, App: "shop", URL: "http://localhost:3000/users?page=2", Network: &telemetry.Network{
			Method: "POST", URL: "http://localhost:8080/api/users?page=2&access_token=abc", Status: 500,
			RequestHeaders:  map[string]string{"authorization": "Bearer abc.def.ghi", "content-type": "application/json", "accept": "*/*"},
			ResponseHeaders: map[string]string{"content-type": "application/json", "set-cookie": "sid=abc; Path=/", "date": "Wed, 28 Jan 2026 14:30:00 GMT"},
			RequestBody:     `{"user":"ada","password":"hunter2"}`, ResponseBody: body,
		}})
	}
}

func BenchmarkResult(b *testing.B) {
	e := redact.New()
	r := ci.Result{Status: ci.StatusFailure, Source: ci.SourceGitHub, Ref: "refs/heads/main", Commit: "1f0b2d84bf92f3577b34da6a3ce929d0e0e47367", Name: "test", Summary: "3 of 120 tests failed", URL: "https://github.com/tocsin-bus/tocsin/actions/runs/1"}
	for i := range 3 {
		r.Failures = append(r.Failures, ci.Failure{Name: fmt.Sprintf("src/auth.test.ts > login > case %d", i), Message: "AssertionError: expected 500 to equal 200\n    at src/auth.test.ts:42:17"})
	}
	b.ReportAllocs()
	for b.Loop() {
		e.Result(&r)
	}
}

// hostile are texts that invite a rule to look far ahead or back from every byte.
var hostile = []string{
	"=", ":", `"a":`, `"token":`, `token:"`, `"token":[`, `"token":{"`, "%25", "%25%", "%41", "%3Dtoken", "eyJ", "eyJaaaaaa.", "eyJaaaaaaaa.eyJ.", "sk-", "sk-a", `\`, `\\"`, `token=\`, `"\":`, "4", "4 ", "4111-",
	"a", "A", "token", "token=", "token: ", "tokens:", "tokens: ", "tokens:[ ", "auth: ", "auth:a=", "Bearer ", "bearer+", "bearer", "Basic ", "basic aaaaaaaaa ", "Basic+aaaa", "-----BEGIN ", "-----BEGIN PUBLIC", "//", "//a:", "//a:@", "/", `/\/`, "/a@:",
	"<token>", "<token ", "<", "name=\"pin\"", "name=\"pin\"\n\r\n", "SG.", "SG.aaaaaaaaaaaaaaaaa.", "SK", "SK0", "ghp_", "gl", "glpat-", "xoxb-", "AKIA", "AIza", "npm_", "&", "&sid=", "a=&", " ", " =", " \n=", "\n:", "'", "token='", "|,", "token=)", "token=,a",
	"cookie: a=\"", "Cookie: a=1;", "\xff", "€", "[", "[4111111111111111,", "<token><![CDATA[", "\"a\" : 4111111111111111", "hooks.slack.com/services/",
	"\u200d", "a\u200d", "ghp_\u200d", "to\u200dken=", "%E2%80%8D", "pass%E2%80%8D=", "\"a\u200d\":", "4\ufe0f", "4111.", "+4111", "//a1", "https://a1b@", "hf_", "shpat_", "tokenCount=", "\"tokenCount\":5", "tokenCount:5.", "bearer abcdefghijkl",
	"name:\"", "name:\"token\",", "{\"name\":\"token\",\"a\":1,", "\"value\":\"a", "\"value\":\"a\",\"name\":\"", "name=token ", "data:", "kind: Secret\ndata:", "data:{\"a\":\"b\",", "variables:{", "\"variables\":{\"a\":1,", "password:$a,variables:{", "$", "login(password: $p",
	"[\"token\",\"", "\",\"", "\\\",\\\"", "('token','", "->", "token ->", "token -> a1b2", "|", "| token |", "| token | a", "\t", "token\t", "\\t", "token\\ta", " is ", "token is ", "API key is ", "provided ", "used used ", "provided: ", "API key: ",
	"--token", "--token ", "--token a ", "--user a:", " -p", "mysql -p", "mysql -p ", "curl -u ", "docker login -p ", " -u a:", "http -a ", "values(", ") values (", "(token) values ('a',", "(token) values (", "identified by ", "identified with a by ", "password '", "auth plain ", "AUTH LOGIN aaaaaaaa",
	"@tcp(", "a:b@tcp(", "@//", "a/b@//", "//a:b#", "//a:b/", "x://a:b/@", "http://a:b/c@", "//a:b\"c", "SUAM", "SU", ":AA", "1234567:AA", "Q~", "1Q~", ".atlasv1.", "discord", "discord.com/api/webhooks/", "webhookb2/", "base64:", "base64:aaaaaaaaaaaaaaaaaaaaaaaa",
	"-----END", "-----END RSA PRIVATE KEY-----", "AAAAAAAAAAAAAAAA\n-----END ", "AAAA\n", "token: |\n  ", "token: |\n  a\n", "token:\n  ", "token = a b ", "token = ", "token=Some(", "token=b\"", "token=\"\"\"", "token<<EOF\n", "token<<", "+", "%41+", "+token:+", "Cookie:%20a=",
	"lin_api_", "dapi", "ops_eyJ", "ops_eyJa", "LTAI", "pat.", "sc_", "sc_aaaaa.", "ZXlK", "ZXlKaGJHY2lPaU", "eyJrIjoi", "EAAMa", "xkeysib-", "key-", "patAAAAAAAAAAAAAA.", "QUtJQ", "LS0tLS1CRUdJTi", "glc_a", "hvb.", "fm2_", "s-s4t2ud-", "sha256~", " sc_aaaaa.aaaa.acc-",
	"kind: Secret\n", "stringData:\n a: b\n", "name=\"token\"\n\n", "\\n", "\\r\\n", "a\\nb:", "\\", "arn:", "arn:token:", "field: token value ",
}

// The time that a text costs must grow with its length only: the bytes come
// from untrusted pages. Compare the ns/B of one name.
func BenchmarkHostile(b *testing.B) {
	e := redact.New()
	for _, piece := range hostile {
		for _, size := range []int{1 << 10, 64 << 10} {
			s := strings.Repeat(piece, size/len(piece))
			b.Run(fmt.Sprintf("%.20q/%dK", piece, size>>10), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					e.Body(s)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(s)), "ns/B")
			})
		}
	}
}

// Linear time is milliseconds here, quadratic time many seconds. The bound leaves room for a slow
// machine and the race detector.
func TestHostileTextTakesLinearTime(t *testing.T) {
	t.Parallel()
	const size, most = 128 << 10, 3 * time.Second
	e := redact.New()
	for _, piece := range hostile {
		long := strings.Repeat(piece, size/len(piece))
		for _, before := range []string{"", "token=", `{"x":"`} {
			took := least(most, func() {
				e.Body(before + long)
				e.URL(before + long)
			})
			if took > most {
				t.Errorf("%d bytes of %q behind %q took %v, want at most %v", size, piece, before, took, most)
			}
		}
	}
}

// least returns the shortest time that f takes in up to 3 tries, and of the first that takes no
// longer than enough.
func least(enough time.Duration, f func()) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for range 3 {
		began := time.Now()
		f()
		if shortest = min(shortest, time.Since(began)); shortest <= enough {
			break
		}
	}
	return shortest
}
