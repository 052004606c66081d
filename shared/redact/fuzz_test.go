package redact_test

import (
	"testing"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

func FuzzString(f *testing.F) { fuzz(f, redact.New().String, growth) }

func FuzzURL(f *testing.F) { fuzz(f, redact.New().URL, growth) }

func FuzzBody(f *testing.F) {
	fuzz(f, redact.New().Body, func(n int) int { return min(growth(n), redact.MaxBody) })
}

// growth bounds a masked text: at worst a name and one byte become a name and a
// mask of both quotes and their backslashes, over and over.
func growth(n int) int { return 16*n + 64 }

func fuzz(f *testing.F, mask func(string) string, most func(int) int) {
	f.Helper()
	for _, shape := range shapes() {
		f.Add(shape.secret)
	}
	for _, s := range []string{
		`{"a":"{\"token\":\"x\"}","password":12}`, "a=1&pass%77ord=%7B%22%", "https://u:p@h/?token=a#sid=b", "Authorization: Digest a=\"b\", c", "<secret>x</secret>",
		"password => 'x', tokens: [\"a", `\\\\"sid\\\\": [{]}`, "name=\"pin\"\r\n\r\nx\r\n--b", "4111 1111-1111 1111", "%25%32%35=jwt:eyJ.",
		"pass\u200dword=a\ufe0fb", "x: Bearer a", "Cookie: a=b; c", "host:80 token:1", "https://a1b2c3d4e5f6g7h8i9j0@h", `{"tokenCount":5}`, "+4111.1111.1111.1111",
	} {
		f.Add(s)
	}
	for _, s := range hostile {
		f.Add(s + "a1b2 " + s)
	}
	for _, s := range []string{
		`{"name":"token","value":"x"},{"value":"a","name":"sid"}`, "- name: token\n  value: a b\n", `["token","a1b2",["cookie: ","b"]]`, "mysql -u a -pb1 'x'", "curl --user 'a:b' -u c:d", "insert into a (b, token) values ('x', 'y'), (1, $2)",
		"identified by 'x' password \"y\"", "kind: Secret\ndata:\n  a: b\n  token: c\n", `{"query":"a(token: $b)","variables":{"b":"c"}}`, "//a:b/c#d@e.f:1 //u:p@h", "a:b@tcp(c) x/y@//z", "token: |\n  a\n  b\nc: d", "token -> a1b2 | token | a1b2 |\ttoken\ta1b2",
		"k=-----BEGIN+EC+PRIVATE+KEY-----%0AAAAA%0A-----END+EC+PRIVATE+KEY-----", "AAAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----", "api key is a1b2c3d4, token is 'x1'",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := mask(s)
		if twice := mask(once); twice != once {
			t.Errorf("%q becomes %q, masked again %q, want no change", s, once, twice)
		}
		if len(once) > most(len(s)) {
			t.Errorf("%d bytes become %d, want at most %d: %q becomes %q", len(s), len(once), most(len(s)), s, once)
		}
	})
}
