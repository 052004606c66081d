package redact_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// Names are matched by whole words: authToken is one, author isn't.
func TestFieldNames(t *testing.T) {
	t.Parallel()
	e := redact.New()
	for _, name := range []string{
		"password", "Password", "PASSWORD", "passwd", "pwd", "userPassword", "user_password", "user-password", "newPassword2",
		"password_confirmation", "dbpassword", "PGPASSWORD", "MYSQL_PWD", "passphrase",
		"secret", "client_secret", "clientSecret", "SECRET_KEY", "secret_key_base", "aws_secret_access_key", "AWSSecretAccessKey",
		"token", "authToken", "auth_token", "auth-token", "AUTH_TOKEN", "accessToken", "access_token", "accesstoken",
		"refresh_token", "id_token", "csrfToken", "_csrf", "csrf_token", "xsrfToken", "csrfmiddlewaretoken", "__RequestVerificationToken",
		"GITHUB_TOKEN", "npm_config__authToken", "sessionToken", "deviceToken", "fcm_token",
		"apiKey", "api_key", "apikey", "APIKey", "api-key", "X-API-Key", "private_key", "privateKey", "accessKey", "access_key_id",
		"session_id", "sessionId", "JSESSIONID", "PHPSESSID", "connect.sid", "authorization", "Authorization",
		"credential", "credentials", "cookie", "jwt", "ssn", "cvv", "cvc", "card_number", "cardNumber", "otp_code", "pin",
		"user[password]", "user%5Bpassword%5D", "signature", "X-Amz-Signature", "sig", "encryption_key", "signingKey",
	} {
		check(t, "URL", e.URL, "/p?a=1&"+name+"=hunter2&b=2", "/p?a=1&"+name+"=[REDACTED]&b=2")
		check(t, "Body", e.Body, "a=1&"+name+"=hunter2&b=2", "a=1&"+name+"=[REDACTED]&b=2")
		check(t, "Body", e.Body, `{"a":1,"`+name+`":"hunter2"}`, `{"a":1,"`+name+`":"[REDACTED]"}`)
		check(t, "String", e.String, "with "+name+"=hunter2 set", "with "+name+"=[REDACTED] set")
	}
}

func TestHarmlessNames(t *testing.T) {
	t.Parallel()
	e := redact.New()
	for _, name := range []string{
		"author", "authors", "authored_by", "coauthor", "authority", "authorId", "tokenizer", "tokenize",
		"passwordless", "secretary", "keyboard", "monkey", "key", "keys", "primaryKey", "foreign_key", "keyword", "cookbook",
		"session", "passenger", "passed", "bypass", "compass", "pinned", "spinner", "shipping", "opinion",
		"design", "signal", "sidebar", "side", "card", "cardinality", "cvs", "max_items", "page", "state", "status",
		"name", "email", "id", "user", "username", "code", "hash", "nonce", "version", "cache_key", "sort_key", "oauth_version", "otpion",
	} {
		for _, text := range []string{
			"/p?a=1&" + name + "=hunter2&b=2", `{"a":1,"` + name + `":"hunter2"}`, "with " + name + "=hunter2 set", name + ": hunter2",
		} {
			check(t, "URL", e.URL, text, text)
			check(t, "Body", e.Body, text, text)
			check(t, "String", e.String, text, text)
		}
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	table(t, redact.New().URL, [][2]string{
		{"", ""},
		{"/", "/"},
		{"https://example.com/a?page=2&sort=name#top", "https://example.com/a?page=2&sort=name#top"},
		{"https://example.com/?token=abc", "https://example.com/?token=[REDACTED]"},
		{"https://example.com/?token=abc#top", "https://example.com/?token=[REDACTED]#top"},
		{"https://example.com/?token=", "https://example.com/?token="},
		{"https://example.com/?token", "https://example.com/?token"},
		{"https://example.com/?a=1;token=abc", "https://example.com/?a=1;token=[REDACTED]"},
		{"https://example.com/?token=a=b&c=1", "https://example.com/?token=[REDACTED]&c=1"},
		{"https://example.com/?password=a%20b+c", "https://example.com/?password=[REDACTED]"},
		{"https://example.com/?pass%77ord=abc&b=1", "https://example.com/?pass%77ord=[REDACTED]&b=1"},
		{"https://example.com/?filter[token]=abc", "https://example.com/?filter[token]=[REDACTED]"},
		{"https://example.com/cb#access_token=abc&state=1", "https://example.com/cb#access_token=[REDACTED]&state=1"},
		{"https://u:p@example.com:8443/", "https://[REDACTED:url_credentials]@example.com:8443/"},
		{"https://example.com/?next=%2Fx%3Ftoken%3Dabc", "https://example.com/?next=%2Fx%3Ftoken%3D[REDACTED]"},
		{"https://example.com/r?to=https%3A%2F%2Fu%3Ap%40h%2F", "https://example.com/r?to=https:%2F%2F[REDACTED:url_credentials]%40h%2F"},
		{"https://example.com/u/" + github + "/x", "https://example.com/u/[REDACTED:github]/x"},
		{"/a?mail=ada@example.com", "/a?mail=ada@example.com"},
		{"http://localhost:3000/auth/login?author=ada", "http://localhost:3000/auth/login?author=ada"},
		{"http://localhost:3000/token:exchange", "http://localhost:3000/token:exchange"},
		{"data:image/png;base64,iVBORw0KGgo=", "data:image/png;base64,iVBORw0KGgo="},
	})
}

// TestNoURLs checks that text in the place of a URL is masked as text.
func TestNoURLs(t *testing.T) {
	t.Parallel()
	table(t, redact.New().URL, [][2]string{
		{"password: supersecretvalue", "password: [REDACTED]"},
		{"x-api-key: supersecretvalue", "x-api-key: [REDACTED]"},
		{"x-api-key:supersecretvalue", "x-api-key:[REDACTED]"},
		{"password:12345", "password:[REDACTED]"},
		{"Cookie: a=b; session=supersecretvalue", "Cookie: [REDACTED]"},
		{"{password: supersecretvalue}", "{password: [REDACTED]}"},
		{" password: supersecretvalue", " password: [REDACTED]"},
		{"https://example.com/ password: supersecretvalue", "https://example.com/ password: [REDACTED]"},
		{"/x\nCookie: a=supersecretvalue; b=c", "/x\nCookie: [REDACTED]"},
		{"//example.com/x\tpassword:supersecretvalue", "//example.com/x\tpassword:[REDACTED]"},
		{"https://example.com/?password=a b&n=1", "https://example.com/?password=[REDACTED]&n=1"},
		{"login?password=a b&n=1", "login?password=[REDACTED]&n=1"},
		{"example.com:8080/?token=a#b", "example.com:8080/?token=[REDACTED]#b"},
		{"?token=a\"b#c", "?token=[REDACTED]#c"},
		{"#access_token=a#b", "#access_token=[REDACTED]#b"},
		{"blob:http://localhost:3000/?token=abc", "blob:http://localhost:3000/?token=[REDACTED]"},
		{"auth:8080", "auth:8080"},
		{"localhost:3000", "localhost:3000"},
		{"auth-service:8080/token:exchange", "auth-service:8080/token:exchange"},
		{"bücher.example/token:exchange", "bücher.example/token:exchange"},
		{"inline", "inline"},
		{"about:blank", "about:blank"},
		{"file:///home/ada/my token.txt", "file:///home/ada/my token.txt"},
		{"strict-origin-when-cross-origin", "strict-origin-when-cross-origin"},
	})
}

// How many secrets there are is none; a word under such a name may be one.
func TestCountsOfSecrets(t *testing.T) {
	t.Parallel()
	e := redact.New()
	for _, name := range []string{
		"tokenCount", "token_count", "maxTokens", "max_tokens", "total_tokens", "prompt_tokens", "completionTokens", "tokensUsed",
		"tokens_used", "TokenCount", "inputTokenCount", "tokencount", "token_limit", "tokensRemaining",
	} {
		for _, text := range []string{`{"%":120}`, `{"%" : 5,"a":1}`, `{"b":"{\"%\":12.5}"}`, `{"%":null}`, "with %=5 set", "{ %: 5, a: 1 }", "%=12/4096", "/p?%=5&a=1", "%=5"} {
			text = strings.ReplaceAll(text, "%", name)
			check(t, "String", e.String, text, text)
			check(t, "Body", e.Body, text, text)
			check(t, "URL", e.URL, text, text)
		}
		check(t, "Body", e.Body, `{"`+name+`":"hunter2"}`, `{"`+name+`":"[REDACTED]"}`)
		check(t, "URL", e.URL, "/p?"+name+"=hunter2&a=1", "/p?"+name+"=[REDACTED]&a=1")
	}
	table(t, e.String, [][2]string{
		{"tokenCount=5f0a", "tokenCount=[REDACTED]"},
		{`{"tokenCount":["a"],"secretTokenCount":5}`, `{"tokenCount":"[REDACTED]","secretTokenCount":"[REDACTED]"}`},
		{"tokenCounter=5", "tokenCounter=[REDACTED]"},
	})
	if got := e.Header("x-token-count", "5"); got != "5" {
		t.Errorf("header with a count = %q, want 5", got)
	}
	if got := e.Header("x-token-count", "hunter2"); got != mask {
		t.Errorf("header with a secret = %q, want %q", got, mask)
	}
}

// An invisible character hides neither a token nor a name, and stays where it is part of a
// word or an emoji.
func TestInvisibleCharacters(t *testing.T) {
	t.Parallel()
	e := redact.New()
	for _, unseen := range []string{"\u200d", "\u200c", "\ufe0f", "\u200b", "\u00ad", "\u2060", "\ufeff", "\u200d\ufe0f\u200d", "\U000e0101"} {
		for _, shape := range shapes() {
			for at := range shape.secret {
				text := "a" + unseen + " " + shape.secret[:at] + unseen + shape.secret[at:] + " b" + unseen
				want := "a" + unseen + " [REDACTED:" + shape.rule + "] b" + unseen
				if at == 0 {
					want = "a" + unseen + " " + unseen + "[REDACTED:" + shape.rule + "] b" + unseen
				}
				check(t, "String", e.String, text, want)
			}
		}
		check(t, "Body", e.Body, `{"pass`+unseen+`word":"hunter2","a":1}`, `{"pass`+unseen+`word":"[REDACTED]","a":1}`)
		check(t, "Body", e.Body, `{"my`+unseen+`Token":"hunter2","a":1}`, `{"my`+unseen+`Token":"[REDACTED]","a":1}`)
		check(t, "String", e.String, "pass"+unseen+"word: hunter2 x", "pass"+unseen+"word: [REDACTED] x")
		check(t, "URL", e.URL, "/x?to"+unseen+"ken=hunter2&a=1", "/x?to"+unseen+"ken=[REDACTED]&a=1")
		check(t, "URL", e.URL, "/x?a="+github[:9]+url.PathEscape(unseen)+github[9:], "/x?a=[REDACTED:github]")
		check(t, "URL", e.URL, "/x?to"+url.PathEscape(unseen)+"ken=hunter2", "/x?to"+url.PathEscape(unseen)+"ken=[REDACTED]")
		if got := e.Header("Author"+unseen+"ization", "hunter2"); got != mask {
			t.Errorf("header = %q, want %q", got, mask)
		}
		text := "می" + unseen + "خواهم 👩" + unseen + "💻 author" + unseen + "=ada"
		check(t, "String", e.String, text, text)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	table(t, redact.New().Body, [][2]string{
		{`{"password":"hunter2","a":1}`, `{"password":"[REDACTED]","a":1}`},
		{`{ "password" : "hunter2" , "a" : 1 }`, `{ "password" : "[REDACTED]" , "a" : 1 }`},
		{"{\n  \"password\":\n    \"hunter2\"\n}", "{\n  \"password\":\n    \"[REDACTED]\"\n}"},
		{`{"user":{"auth":{"token":"abc"}}}`, `{"user":{"auth":"[REDACTED]"}}`},
		{`{"user":{"x":{"token":"abc"}}}`, `{"user":{"x":{"token":"[REDACTED]"}}}`},
		{`{"password":"a\"b\\","c":"d"}`, `{"password":"[REDACTED]","c":"d"}`},
		{`{"password":123456,"a":1}`, `{"password":"[REDACTED]","a":1}`},
		{`{"secret":["a","b"],"a":1}`, `{"secret":"[REDACTED]","a":1}`},
		{`{"credentials":{"user":"a","pass":"}b"},"a":1}`, `{"credentials":"[REDACTED]","a":1}`},
		{`{"pa\u0073sword":"hunter2"}`, `{"pa\u0073sword":"[REDACTED]"}`},
		{`{"token":"hunter`, `{"token":"[REDACTED]`},
		{`{"credentials":{"user":"ada","pas`, `{"credentials":"[REDACTED]"`},
		{`{"body":"{\"password\":\"hunter2\",\"a\":1}"}`, `{"body":"{\"password\":\"[REDACTED]\",\"a\":1}"}`},
		{`{"b":"{\"c\":\"{\\\"token\\\":\\\"abc\\\",\\\"n\\\":1}\"}"}`, `{"b":"{\"c\":\"{\\\"token\\\":\\\"[REDACTED]\\\",\\\"n\\\":1}\"}"}`},
		{`{"b":"{\"password\":123}"}`, `{"b":"{\"password\":\"[REDACTED]\"}"}`},
		{`[{"name":"a","token":"abc"},{"token":"def"}]`, `[{"name":"a","token":"[REDACTED]"},{"token":"[REDACTED]"}]`},
		{`{"token":""}`, `{"token":""}`},
		{`{"max_tokens":4096,"usage":{"total_tokens":17}}`, `{"max_tokens":4096,"usage":{"total_tokens":17}}`},
		{`{"tokens":["abc","def"]}`, `{"tokens":"[REDACTED]"}`},
		{`{"url":"/x?a=1\u0026token=abc\u0026b=2","key":"\u003c` + anthropic + `\u003e"}`, `{"url":"/x?a=1\u0026token=[REDACTED]\u0026b=2","key":"\u003c[REDACTED:anthropic]\u003e"}`},
		{`{"url":"https://example.com/?token=abc&x=1","n":1}`, `{"url":"https://example.com/?token=[REDACTED]&x=1","n":1}`},
		{`{'password': 'hunter2', 'a': 1}`, `{'password': '[REDACTED]', 'a': 1}`},
		{`{password: "hunter2", a: 1}`, `{password: "[REDACTED]", a: 1}`},
		{"{\"token\":\"abc\"}\n{\"token\":\"def\"}", "{\"token\":\"[REDACTED]\"}\n{\"token\":\"[REDACTED]\"}"},
	})
}

func TestForms(t *testing.T) {
	t.Parallel()
	table(t, redact.New().Body, [][2]string{
		{"user=ada&password=hunter2&go=1", "user=ada&password=[REDACTED]&go=1"},
		{"user=ada&password=hunter2,}'x)&go=1", "user=ada&password=[REDACTED]&go=1"},
		{"user=ada&pass=a&n=1", "user=ada&pass=[REDACTED]&n=1"},
		{"card=4111" + "+1111+1111+1111&n=1", "card=[REDACTED:card]&n=1"},
		{"password=a%26b&x=1", "password=[REDACTED]&x=1"},
		{"user%5Bpassword%5D=hunter2", "user%5Bpassword%5D=[REDACTED]"},
		{"data=%7B%22token%22%3A%22abc%22%7D", "data=%7B%22token%22:%22[REDACTED]%22%7D"},
		{"--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nhunter2\r\n--b--",
			"--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n[REDACTED]\r\n--b--"},
		{"<login><user>ada</user><password>hunter2</password></login>", "<login><user>ada</user><password>[REDACTED]</password></login>"},
	})
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	table(t, redact.New().String, [][2]string{
		{"login failed password=hunter2 user=ada", "login failed password=[REDACTED] user=ada"},
		{"login failed: password: hunter2", "login failed: password: [REDACTED]"},
		{`level=info token="a b" n=1`, `level=info token="[REDACTED]" n=1`},
		{"DB_PASSWORD=hunter2\nPORT=80", "DB_PASSWORD=[REDACTED]\nPORT=80"},
		{"(token=abc)", "(token=[REDACTED])"},
		{"token=abc, user=ada", "token=[REDACTED], user=ada"},
		{"GET /x?token=abc&b=1 500", "GET /x?token=[REDACTED]&b=1 500"},
		{"password => 'hunter2'", "password => '[REDACTED]'"},
		{"mysql --password=hunter2 -u ada", "mysql --password=[REDACTED] -u ada"},
		{"X-Auth-Token: abc", "X-Auth-Token: [REDACTED]"},
		{`["Cookie: a==",{"password":["b"],"c":1}]`, `["Cookie: [REDACTED]",{"password":"[REDACTED]","c":1}]`},
		{`{"h":"Cookie: a=","password":"b"}`, `{"h":"Cookie: [REDACTED]","password":"[REDACTED]"}`},
		{`{"h":"Authorization: Digest a=\"b c\", d","e":"f"}`, `{"h":"Authorization: [REDACTED]","e":"f"}`},
		{"PRIVATE_KEY=" + pem + " set", "PRIVATE_KEY=[REDACTED] set"},
		{"a=%2CBearer " + pem + " b", "a=%2CBearer%20[REDACTED:bearer] b"},
		{"Bearer " + pem + " set", "Bearer [REDACTED:bearer] set"},
		{"private_key: x" + pem, "private_key: [REDACTED]"},
		{"card_number: 4111" + " 1111 1111 1111 declined", "card_number: [REDACTED] declined"},
		{`{"log":"bad token: 'x","password":"it's b"}`, `{"log":"bad token: '[REDACTED]","password":"[REDACTED]"}`},
		{`{"log":"in <secret>","password":"a</b c"}`, `{"log":"in <secret>","password":"[REDACTED]"}`},
		{`["Cookie: a==\\","b"]`, `["Cookie: [REDACTED]","b"]`},
		{`"Set-Cookie: sid=abc; Path=/\r\nHost: x"`, `"Set-Cookie: [REDACTED]\r\nHost: x"`},
		{"<password><![CDATA[a<b]]></password>", "<password><![CDATA[[REDACTED]]]></password>"},
		{`{"pass":"a","pass":12,"dbPass":"b","passRate":"98%"}`, `{"pass":"[REDACTED]","pass":12,"dbPass":"[REDACTED]","passRate":"98%"}`},
		{"a=%3D" + pem + " b", "a=%3D[REDACTED:private_key] b"},
		{"{\n \"log\": \"token: \"\n}\n", "{\n \"log\": \"token: \"\n}\n"},
		{`{"log":"token: ","n":1,"m":["sid=","a"],"o":"{\"p\":\"token=\",\"q\":1}"}`, `{"log":"token: ","n":1,"m":["sid=","[REDACTED]"],"o":"{\"p\":\"token=\",\"q\":1}"}`},
		{jwt + ": expired", "[REDACTED:jwt]: expired"},
		{pem + pem, "[REDACTED:private_key][REDACTED:private_key]"},
		{"Set-Cookie: sid=abc; Path=/; HttpOnly", "Set-Cookie: [REDACTED]"},
	})
}

func check(t *testing.T, call string, mask func(string) string, text, want string) {
	t.Helper()
	if got := mask(text); got != want {
		t.Errorf("%s(%q)\n got %q\nwant %q", call, text, got, want)
	}
}
