package ingest

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// planted is a request with a text in one place.
type planted struct {
	path, media, body string
	header            []string
}

// places returns requests of all formats, each with the text in another place.
func places(t *testing.T, text string) map[string]planted {
	t.Helper()
	j, x := quotedJSON(t, text), escapedXML(t, text)
	event := func(body string) planted { return planted{pathEvents, typeJSON, body, nil} }
	network := func(field string) planted {
		return event(`{"kind":"network","network":{"method":"GET","url":"/x","status":500,` + field + `}}`)
	}
	result := func(field string) planted {
		return planted{pathCIResult, typeJSON, `{"status":"failure","source":"custom",` + field + `}`, nil}
	}
	envelope := func(kind, payload string) planted {
		return planted{"/api/1/envelope/", "application/x-sentry-envelope", "{}\n" + `{"type":"` + kind + `"}` + "\n" + payload + "\n", nil}
	}
	logs := func(value string) planted {
		return planted{pathOTLPLogs, typeJSON, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":17,"body":` + value + `}]}]}]}`, nil}
	}
	attribute := func(value string) planted {
		return planted{pathOTLPLogs, typeJSON, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"severityNumber":17,"body":{"stringValue":"m"},"attributes":[{"key":"note","value":` + value + `}]}]}]}]}`, nil}
	}
	b64 := base64.StdEncoding.EncodeToString([]byte(text))
	return map[string]planted{
		"log message":          event(`{"kind":"log","log":{"level":"error","message":` + j + `}}`),
		"log stack":            event(`{"kind":"log","log":{"level":"error","message":"m","stack":` + j + `}}`),
		"log argument":         event(`{"kind":"log","log":{"level":"error","message":"m","args":[` + j + `,{"deep":[` + j + `]}]}}`),
		"JSON in JSON":         event(`{"kind":"log","log":{"level":"error","message":` + quotedJSON(t, `{"log":`+j+`,"n":1}`) + `}}`),
		"text around":          event(`{"kind":"log","log":{"level":"error","message":` + quotedJSON(t, "it failed:\n"+text+"\nand went on") + `}}`),
		"request body":         network(`"request_body":` + j),
		"response body":        network(`"response_body":` + j),
		"network error":        network(`"error":` + j),
		"query":                event(`{"kind":"network","network":{"method":"GET","status":500,"url":` + quotedJSON(t, "/x?q="+url.QueryEscape(text)+"&n=1") + `}}`),
		"path":                 event(`{"kind":"network","network":{"method":"GET","status":500,"url":` + quotedJSON(t, "https://h.example/x/"+url.PathEscape(text)+"/y") + `}}`),
		"form":                 network(`"request_body":` + quotedJSON(t, "a=1&v="+url.QueryEscape(text)+"&n=1")),
		"action target":        event(`{"kind":"action","action":{"type":"click","target":` + j + `}}`),
		"circuit reason":       event(`{"kind":"circuit","circuit":{"name":"db","state":"open","reason":` + j + `}}`),
		"security message":     event(`{"kind":"security","security":{"type":"csp","message":` + j + `}}`),
		"result summary":       result(`"summary":` + j),
		"failure name":         result(`"failures":[{"name":` + j + `}]`),
		"failure message":      result(`"failures":[{"name":"n","message":` + j + `}]`),
		"JUnit name":           {pathJUnit, "application/xml", `<testsuite><testcase name="` + x + `"><failure message="m"/></testcase></testsuite>`, nil},
		"JUnit message":        {pathJUnit, "application/xml", `<testsuite><testcase name="a"><failure message="` + x + `"/></testcase></testsuite>`, nil},
		"JUnit text":           {pathJUnit, "application/xml", `<testsuite><testcase name="a"><failure>` + x + `</failure></testcase></testsuite>`, nil},
		"Sentry message":       envelope("event", `{"level":"error","message":`+j+`}`),
		"Sentry exception":     envelope("event", `{"exception":{"values":[{"type":"Error","value":`+j+`}]}}`),
		"Sentry log":           envelope("log", `{"items":[{"timestamp":1,"level":"error","body":`+j+`}]}`),
		"OTLP body":            logs(`{"stringValue":` + j + `}`),
		"OTLP bytes":           logs(`{"bytesValue":"` + b64 + `"}`),
		"OTLP attribute":       attribute(`{"stringValue":` + j + `}`),
		"OTLP attribute bytes": attribute(`{"bytesValue":"` + b64 + `"}`),
		"OTLP protobuf":        {pathOTLPLogs, typeProtobuf, protobufLog(t, text), nil},
		"OTLP exception":       {pathOTLPTraces, typeJSON, `{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"s","events":[{"name":"exception","attributes":[{"key":"exception.type","value":{"stringValue":"E"}},{"key":"exception.message","value":{"stringValue":` + j + `}}]}]}]}]}]}`, nil},
		"GitHub":               {pathGitHub, typeJSON, `{"action":"completed","workflow":{"name":` + j + `},"workflow_run":{"run_number":7,"conclusion":"failure","head_branch":"main","head_sha":"abc123","display_title":` + j + `}}`, []string{"X-GitHub-Event", "workflow_run"}},
		"GitLab":               {pathGitLab, typeJSON, `{"object_kind":"build","ref":"main","sha":"abc123","build_name":` + j + `,"build_stage":"test","build_status":"failed"}`, []string{"X-Gitlab-Event", "Job Hook"}},
		"Alertmanager":         {pathAlertmanager, typeJSON, `{"version":"4","receiver":"r","alerts":[{"status":"firing","labels":{"alertname":"A","note":` + j + `},"annotations":{"summary":` + j + `,"description":` + j + `},"startsAt":"2026-01-28T14:30:00Z"}]}`, nil},
		"report":               {pathReports, typeJSON, `[{"type":"deprecation","url":"http://localhost/","body":{"id":"x","message":` + j + `}}]`, nil},
	}
}

func quotedJSON(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // as senders in other languages have it
	if err := e.Encode(text); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func escapedXML(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func protobufLog(t *testing.T, text string) string {
	t.Helper()
	all := plog.NewLogs()
	record := all.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty().LogRecords().AppendEmpty()
	record.SetSeverityNumber(plog.SeverityNumberError)
	record.Body().SetEmptyBytes().FromRaw([]byte(text))
	record.Attributes().PutStr("note", text)
	data, err := plogotlp.NewExportRequestFromLogs(all).MarshalProto()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// stores sends a request to the handler, and returns everything that it stored.
func stores(t *testing.T, h *handler, s *fakeSink, p planted) string {
	t.Helper()
	s.msgs = nil
	w := answerOf(h, ask("POST", p.path, strings.NewReader(p.body), append([]string{"Content-Type", p.media}, p.header...)...))
	if w.Code != 200 {
		t.Fatalf("%s: got %d %s, want 200", p.body, w.Code, w.Body)
	}
	var b strings.Builder
	for _, m := range s.msgs {
		b.WriteString(m.Subject + "\n")
		for name, values := range m.Header {
			b.WriteString(name + ": " + strings.Join(values, ",") + "\n")
		}
		b.Write(m.Data)
	}
	return b.String()
}

func masking() (*handler, *fakeSink) {
	s := &fakeSink{}
	return testHandler(s, func(c *Config) { c.Masker = redact.New() }), s
}

// holds reports whether a stored text contains a secret: as it is, in JSON, or encoded for
// a URL.
func holds(t *testing.T, stored, secret string) bool {
	t.Helper()
	inJSON := strings.Trim(quotedJSON(t, secret), `"`)
	return strings.Contains(strings.ToLower(stored), strings.ToLower(secret)) || strings.Contains(stored, inJSON) ||
		strings.Contains(stored, strings.Trim(quotedJSON(t, inJSON), `"`)) ||
		strings.Contains(stored, url.QueryEscape(secret)) || strings.Contains(stored, url.PathEscape(secret))
}

// leak is a text with secrets: V stands for a password, and others must not be stored
// either.
type leak struct {
	text string
	// but is a place where the text is not known: signs in it are encoded twice over,
	// or what belongs together stands in several segments.
	but string
}

const password = "HUNTER2crlf9x"

var (
	keyLines = []string{"MIIEowIBAAKCAQEAwq8v0q1k3lXo9", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU", "Zm9vYmFyYmF6cXV4cXV1eDEyMzQ1Ng"}
	seed     = "SU" + strings.Repeat("AM3XQ7K2", 7)
)

func pemOf(label string) string {
	return "-----BEGIN " + label + "-----\n" + strings.Join(keyLines, "\n") + "\n-----END " + label + "-----"
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// withPassword replaces V by the password, except within a word.
func withPassword(text string) string {
	return aPassword.ReplaceAllString(text, password+"$1")
}

var aPassword = regexp.MustCompile(`V([^A-Za-z]|aB3x|$)`)

// leaks are texts in which V stands for the password.
func leaks() map[string]leak {
	r := strings.Repeat
	all := map[string]leak{
		"multipart":                   {text: "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nV\r\n--b--", but: "path"},
		"multipart with a type":       {text: "--b\r\nContent-Disposition: form-data; name=\"token\"\r\nContent-Type: text/plain\r\n\r\nV\r\n--b--\r\n", but: "path"},
		"name and value":              {text: `{"name":"x-api-key","value":"V"}`},
		"name and value, spaced":      {text: `[{"name": "DB_PASSWORD", "value": "V"}]`},
		"value and name":              {text: `{"value":"V","name":"x-api-key"}`},
		"key and value":               {text: `{"key":"api_token","type":"text","value":"V"}`},
		"OTel attribute":              {text: `{"key":"db.password","value":{"stringValue":"V"}}`},
		"name and value in YAML":      {text: "env:\n- name: DB_PASSWORD\n  value: V\n- name: X\n  value: y"},
		"name and value inspected":    {text: "{ name: 'x-api-key', value: 'V' }"},
		"name and value of Go":        {text: "{Name:DB_PASSWORD Value:V ValueFrom:nil}"},
		"name and value in XML":       {text: `<property name="DB_PASSWORD" value="V"/>`},
		"pair":                        {text: `[["authorization","V"]]`},
		"pair, spaced":                {text: `[["host", "x"], ["x-api-key", "V"]]`},
		"raw headers":                 {text: `["Host","x","Authorization","V","Accept","*/*"]`},
		"tuple":                       {text: `[('authorization', 'V')]`},
		"scheme and value":            {text: `["Authorization: Bearer","V"]`},
		"flag and value":              {text: `["--password","V"]`},
		"encoded assignment":          {text: "v=secret_key+%3D+%22V%22"},
		"encoded session token":       {text: "v=aws_session_token+%3D+V"},
		"password with /":             {text: "dial postgres://svc:p#ss/V@db:5432/x"},
		"password with ?":             {text: "dial postgres://svc:p?V@db:5432/x failed"},
		"password with #":             {text: "mongodb://svc:a#V@db.example/x"},
		"password with quote":         {text: `amqp://svc:a"V@mq:5672`},
		"password with \\":            {text: `dial postgres://svc:p\V@db:5432/x failed`},
		"password with \\ at its end": {text: `amqp://svc:V\@mq.example/x`},
		"password with @ and /":       {text: "redis://svc:a@b/V@cache:6379"},
		"https password with /":       {text: "https://svc:a/V@git.example/x.git"},
		"https password with @ and /": {text: "https://svc:a@b/V@git.example/x.git"},
		"block scalar":                {text: "password: |\n  V\nuser: x"},
		"folded scalar":               {text: "a:\n  token: >-\n    V\n    V\n  user: x"},
		"value on the next line":      {text: "password:\n  V\nuser: x"},
		"arrow":                       {text: "password -> V"},
		"table":                       {text: "| user | ann |\n| password | V |"},
		"words":                       {text: "password = ab V", but: "GitLab"},
		"Some":                        {text: `password: Some("V")`},
		"Some of Secret":              {text: `Config { token: Some(Secret("V")), n: 1 }`},
		"bytes":                       {text: `password=b"V"`},
		"triple quotes":               {text: `password = """` + "\nV\n" + `"""`},
		"APP_KEY":                     {text: "APP_KEY=base64:V" + r("aB3x", 7) + "="},
		"base64":                      {text: "KEY is base64:V" + r("aB3x", 7) + "="},
		"GH_PAT":                      {text: "GH_PAT=V"},
		"EXT_PAT":                     {text: "AZURE_DEVOPS_EXT_PAT=V"},
		"tab":                         {text: "aws_secret_access_key\tV"},
		"flag":                        {text: "run --password V --user x"},
		"flag of a token":             {text: "deploy --token V"},
		"flag with quotes":            {text: "deploy --api-key 'V' --force"},
		"mysql":                       {text: "mysql -u root -pV shop"},
		"mysql dump":                  {text: "+ mysqldump -h db -p'V' shop > x"},
		"mariadb":                     {text: "mariadb -uroot -p V"},
		"mongo":                       {text: "mongo -u ann -p V db.example/shop"},
		"sshpass":                     {text: "sshpass -p V ssh ann@host"},
		"redis-cli":                   {text: "redis-cli -h cache -a V ping"},
		"docker login":                {text: "docker login -u ann -p V registry.example"},
		"curl":                        {text: "curl -fsS -u ann:V https://api.example"},
		"curl, flags in one":          {text: "curl -fsSLu ann:V https://api.example"},
		"curl --user":                 {text: "curl --user ann:V https://api.example"},
		"wget":                        {text: "wget --user=ann --password=V https://api.example"},
		"http":                        {text: "http -a ann:V GET api.example"},
		"is":                          {text: "the password is V"},
		"is, quoted":                  {text: `password is "V"`},
		"is, with a colon":            {text: "the password is: V"},
		"k and v":                     {text: `{"k":"password","v":"V"}`},
		"format and value":            {text: `["password: %s","V"]`},
		"provided":                    {text: "Incorrect API key provided: V. You can find your API key at x"},
		"spaced name":                 {text: "using API key: V"},
		"GraphQL":                     {text: `{"query":"mutation($p: String!){ login(password: $p) { id } }","variables":{"p":"V"}}`},
		"GraphQL, reversed":           {text: `{"variables":{"n":1,"p":"V"},"query":"mutation($p: String!){ login(password: $p) { id } }"}`},
		"INSERT":                      {text: "INSERT INTO users (name, password) VALUES ('ann', 'V')"},
		"INSERT of several":           {text: "insert into users (password, name) values ('x1234567', 'ann'), ('V', 'bob');"},
		"IDENTIFIED BY":               {text: "CREATE USER 'x'@'%' IDENTIFIED BY 'V'"},
		"IDENTIFIED WITH":             {text: "CREATE USER x IDENTIFIED WITH caching_sha2_password BY 'V'"},
		"WITH PASSWORD":               {text: "ALTER ROLE app WITH PASSWORD 'V'"},
		"DSN of Go":                   {text: "svc:V@tcp(db:3306)/shop"},
		"Oracle":                      {text: "scott/V@//db:1521/x"},
		"AUTH PLAIN":                  {text: "C: AUTH PLAIN " + b64("\x00ann\x00"+password)},
		"header in brackets":          {text: "t[X-Api-Key: V]"},
		"cookie":                      {text: "Cookie: sid=V"},
		"set-cookie":                  {text: "Set-Cookie: sid=V; Path=/"},
		"api key header":              {text: "X-Api-Key: V"},
		"NKEY seed":                   {text: "loaded " + seed},
		"NKEY seed of an account":     {text: "SA" + seed[2:] + " is in use"},
		"creds":                       {text: "-----BEGIN USER NKEY SEED-----\n" + seed + "\n------END USER NKEY SEED------\n"},
		"Kubernetes Secret":           {text: "apiVersion: v1\ndata:\n  db-url: " + b64(password+"-db") + "\nkind: Secret\nmetadata:\n  name: x\n", but: "path"},
		"Kubernetes Secret first":     {text: "kind: Secret\nmetadata:\n  name: x\ndata:\n  db-url: " + b64(password+"-db") + "\n"},
		"Kubernetes Secret in JSON":   {text: `{"apiVersion":"v1","data":{"db-url":"` + b64(password+"-db") + `"},"kind":"Secret"}`, but: "path"},
		"Kubernetes Secret in clear":  {text: "kind: Secret\nstringData:\n  db-url: V\n"},
		"heredoc":                     {text: "PASSWORD<<EOF\nV\nEOF"},
	}
	for _, label := range []string{"RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK", "ENCRYPTED PRIVATE KEY"} {
		all["PEM: "+label] = leak{text: pemOf(label)}
		all["form with PEM: "+label] = leak{text: "key=" + url.QueryEscape(pemOf(label)) + "&a=1"}
		all["query with PEM: "+label] = leak{text: "http://x.example/?k=" + url.QueryEscape(pemOf(label))}
		all["path with PEM: "+label] = leak{text: "http://x.example/" + url.PathEscape(pemOf(label))}
		all["PEM without its beginning: "+label] = leak{text: strings.SplitN(pemOf(label), "\n", 2)[1]}
		all["base64 of PEM: "+label] = leak{text: b64(pemOf(label))}
	}
	for name, secret := range vendorSecrets() {
		all[name] = leak{text: "with " + secret}
		all[name+" in brackets"] = leak{text: "(" + secret + "), then"}
	}
	return all
}

// vendorSecrets are tokens in the formats of vendors. They are concatenated here so that
// no scanner reports this file.
func vendorSecrets() map[string]string {
	r := strings.Repeat
	hex, alnum := func(n int) string { return r("0a1b2c3d", n)[:n] }, func(n int) string { return r("aB3xY9kQ", n)[:n] }
	return map[string]string{
		"Telegram": "https://api.telegram.org/bot" + "123456789:AA" + alnum(33), "Telegram token": "123456789:" + "AA" + alnum(33),
		"Discord webhook": "https://discord.com/api/" + "webhooks/123456789012345678/" + alnum(68),
		"Teams webhook":   "https://x.webhook.office.com/" + "webhookb2/" + hex(8) + "-0a1b-0a1b-0a1b-" + hex(12) + "@" + hex(8) + "-0a1b-0a1b-0a1b-" + hex(12) + "/IncomingWebhook/" + hex(32) + "/" + hex(8) + "-0a1b-0a1b-0a1b-" + hex(12),
		"Linear":          "lin" + "_api_" + alnum(40), "Notion": "ntn" + "_" + r("12345678901", 1) + alnum(35), "Grafana": "glsa" + "_" + alnum(32) + "_" + hex(8),
		"Databricks": "dapi" + hex(32), "Terraform": alnum(14) + ".atlasv1" + "." + alnum(67), "PlanetScale": "pscale" + "_tkn_" + alnum(43),
		"Fly": "FlyV1" + " fm2_" + alnum(120), "Fly without its scheme": "fm2" + "_" + alnum(120), "Supabase": "sbp" + "_" + hex(40), "Netlify": "nfp" + "_" + alnum(36),
		"xAI": "xai" + "-" + alnum(80), "Replicate": "r8" + "_" + alnum(37), "Perplexity": "pplx" + "-" + alnum(48), "Sentry": "sntrys" + "_eyJpYXQiOjE" + alnum(80) + "_" + alnum(43),
		"RubyGems": "rubygems" + "_" + hex(48), "Heroku": "HRKU" + "-AA" + alnum(58), "Heroku, older": "HRKU" + "-" + hex(8) + "-0a1b-0a1b-0a1b-" + hex(12),
		"Atlassian": "ATATT3" + "x" + alnum(180) + "=" + "0A1B2C3D", "Bitbucket": "ATBB" + alnum(32), "Postman": "PMAK" + "-" + hex(24) + "-" + hex(34), "New Relic": "NRAK" + "-" + r("A1B2C3", 5)[:27],
		"Artifactory": "AKCp" + alnum(69), "Dynatrace": "dt0c01" + "." + strings.ToUpper(alnum(24)) + "." + strings.ToUpper(alnum(64)), "Pulumi": "pul" + "-" + hex(40), "Doppler": "dp" + ".pt." + alnum(43),
		"Tailscale": "tskey" + "-auth-" + alnum(12) + "-" + alnum(32), "CircleCI": "CCIPAT" + "_" + alnum(22) + "_" + hex(40), "Buildkite": "bkua" + "_" + hex(40), "Azure": "aB3" + "8Q~" + alnum(34),
		"Mailgun": "key" + "-" + hex(32), "AWS in base64": b64("AKIA" + "IOSFODNN7EXAMPLE:" + alnum(40)),
		"1Password": "ops" + "_eyJ" + alnum(260), "Duffel": "duffel" + "_live_" + alnum(43), "Shippo": "shippo" + "_live_" + hex(40), "Brevo": "xkeysib" + "-" + hex(64) + "-" + alnum(16),
		"OpenShift": "sha256" + "~" + alnum(43), "Alibaba": "LTAI" + alnum(20), "EasyPost": "EZAK" + alnum(54), "Sentry, of a user": "sntryu" + "_" + hex(64), "Prefect": "pnu" + "_" + alnum(36),
		"Harness": "pat" + "." + alnum(22) + "." + alnum(24) + "." + alnum(20),
	}
}

// TestNothingLeaks sends each text in each place of each format, and checks that no secret
// is stored.
func TestNothingLeaks(t *testing.T) {
	h, s := masking()
	for name, l := range leaks() {
		text := l.text
		secrets := append([]string{password, seed[4:], b64(password + "-db"), b64("\x00ann\x00" + password)}, keyLines...)
		secrets = append(secrets, keyLines[0][4:20])
		if secret, ok := vendorSecrets()[strings.TrimSuffix(name, " in brackets")]; ok {
			secrets = append(secrets, secret[len(secret)-20:])
		} else {
			text = withPassword(text)
		}
		for place, p := range places(t, text) {
			if l.but == place {
				continue
			}
			stored := stores(t, h, s, p)
			for _, secret := range secrets {
				if holds(t, stored, secret) {
					t.Errorf("%s leaks as %s: got %s, want it masked", name, place, stored)
					break
				}
			}
		}
	}
}

// TestNothingLeaksOfArguments checks that a secret that is split over several arguments of
// a console call is masked.
func TestNothingLeaksOfArguments(t *testing.T) {
	h, s := masking()
	token := secrets["token"]
	for _, args := range []string{
		`["x-api-key","V"]`, `["Authorization","V"]`, `["Authorization: Bearer","V"]`, `["Bearer","V"]`, `["password: %s","V"]`, `["user %s password=%s","ann","V"]`, `["password","V"]`, `["password:","V"]`,
		`["--password","V"]`, `["run",["--token","V"]]`, `[["authorization","V"]]`, `[{"name":"x-api-key","value":"V"}]`, `[{"key":"db.password","value":{"stringValue":"V"}}]`,
		`[{"headers":[["x-api-key","V"]]}]`, `[{"rawHeaders":["Host","x","Authorization","V"]}]`, `["mysql","-u","root","-pV"]`, `["mysql","-p","V"]`, `["curl","-u","ann:V"]`,
		`[{"query":"mutation($p: String!){ login(password: $p) }","variables":{"p":"V"}}]`, `[{"env":[{"name":"DB_PASSWORD","value":"V"}]}]`, `["password={}","V"]`,
		`["` + token[:14] + `","` + token[14:] + `"]`, `["token ` + token[:14] + `","` + token[14:30] + `","` + token[30:] + `"]`,
		`["-----BEGIN RSA PRIVATE` + ` KEY-----","` + strings.Join(keyLines, `","`) + `","-----END RSA PRIVATE` + ` KEY-----"]`,
		`["-----BEGIN RSA PRIVATE` + ` KEY-----","` + strings.Join(keyLines, `","`) + `"]`,
		`["` + strings.Join(keyLines, `","`) + `","-----END RSA PRIVATE` + ` KEY-----"]`,
	} {
		args = withPassword(args)
		for place, p := range map[string]planted{
			"log":    {pathEvents, typeJSON, `{"kind":"log","log":{"level":"error","message":"m","args":` + args + `}}`, nil},
			"Sentry": {"/api/1/envelope/", "application/x-sentry-envelope", "{}\n{\"type\":\"event\"}\n" + `{"level":"error","message":"m","breadcrumbs":[{"category":"console","message":"m","data":{"arguments":` + args + `}}]}` + "\n", nil},
		} {
			stored := stores(t, h, s, p)
			for _, secret := range append([]string{password, token[16:28], token[:14], token[30:]}, keyLines...) {
				if holds(t, stored, secret) {
					t.Errorf("%s leaks as arguments of %s: got %s, want it masked", args, place, stored)
					break
				}
			}
		}
	}
}

// TestHeaderArraysAreTaken checks that headers in the forms of Node and of fetch are stored
// and masked.
func TestHeaderArraysAreTaken(t *testing.T) {
	h, s := masking()
	for _, headers := range []string{
		`{"set-cookie":["a=V","b=V"],"x-api-key":["V"],"vary":["accept","origin"]}`,
		`["set-cookie","a=V","set-cookie","b=V","x-api-key","V","vary","accept","vary","origin"]`,
		`[["set-cookie","a=V"],["set-cookie","b=V"],["x-api-key","V"],["vary","accept"],["vary","origin"]]`,
	} {
		stored := stores(t, h, s, planted{pathEvents, typeJSON, `{"kind":"network","network":{"method":"GET","url":"/","status":500,"response_headers":` + strings.ReplaceAll(headers, "V", password) + `}}`, nil})
		for _, want := range []string{`"vary":"accept, origin"`, `"set-cookie":"[REDACTED]"`, `"x-api-key":"[REDACTED]"`} {
			if !strings.Contains(stored, want) {
				t.Errorf("%s: stored %s, want %s", headers, stored, want)
			}
		}
		if holds(t, stored, password) {
			t.Errorf("%s: stored %s, want the password masked", headers, stored)
		}
	}
}

// TestNoHiddenCharacterIsStored sends hidden characters in every format.
func TestNoHiddenCharacterIsStored(t *testing.T) {
	h, s := masking()
	const hidden = "\ufe0f\ufe00\U000e0100\U000e01ef\u034f\u115f\u1160\u3164\uffa0\u17b4\u180b\u200b\u2028\u2029\u202e\U000e0041\ufff0"
	for place, p := range places(t, "a"+hidden+"b") {
		stored := stores(t, h, s, p)
		if i := strings.IndexAny(stored, hidden); i >= 0 {
			t.Errorf("%s: a hidden character is at %d of %q, want none", place, i, stored)
		}
	}
}

// TestCleanLinesStay checks that lines of logs and of CI runs without secrets are stored
// unchanged.
func TestCleanLinesStay(t *testing.T) {
	data, err := os.ReadFile("testdata/clean.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) < 500 {
		t.Errorf("%d lines, want at least 500", len(lines))
	}
	h, s := masking()
	for _, line := range lines {
		for place, p := range map[string]planted{
			"log message":     {pathEvents, typeJSON, `{"kind":"log","log":{"level":"info","message":` + quotedJSON(t, line) + `}}`, nil},
			"log argument":    {pathEvents, typeJSON, `{"kind":"log","log":{"level":"info","message":"m","args":[` + quotedJSON(t, line) + `]}}`, nil},
			"response body":   {pathEvents, typeJSON, `{"kind":"network","network":{"method":"GET","url":"/","status":500,"response_body":` + quotedJSON(t, line) + `}}`, nil},
			"failure message": {pathCIResult, typeJSON, `{"status":"failure","failures":[{"name":"n","message":` + quotedJSON(t, line) + `}]}`, nil},
		} {
			stored := stores(t, h, s, p)
			if !strings.Contains(canonical(t, stored), canonical(t, quotedJSON(t, line))) {
				t.Errorf("%s: got %s, want %q unchanged", place, stored, line)
			}
		}
	}
	// All lines in one text, as in the log of a CI run.
	all := strings.Join(lines, "\n")
	for len(all) > 0 {
		part := all[:min(len(all), 6<<10)]
		if cut := strings.LastIndexByte(part, '\n'); cut > 0 && len(part) < len(all) {
			part = part[:cut+1]
		}
		all = all[len(part):]
		p := planted{pathEvents, typeJSON, `{"kind":"log","log":{"level":"info","message":` + quotedJSON(t, part) + `}}`, nil}
		if stored := stores(t, h, s, p); !strings.Contains(canonical(t, stored), canonical(t, quotedJSON(t, part))) {
			t.Errorf("several lines: got %s, want %q unchanged", stored, part)
		}
	}
}

// canonical removes the differences between JSON encoders.
func canonical(t *testing.T, s string) string {
	t.Helper()
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(s)
}
