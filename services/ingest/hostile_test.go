package ingest

import (
	"bytes"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// numbered repeats a text as a list. In each copy, # is replaced by another number.
func numbered(n int, text string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(text, "#", strconv.Itoa(i))
	}
	return strings.Join(parts, ",")
}

// TestHostileBodies checks that the memory for one request is bounded. A few compressed KB
// would become gigabytes if each of many items got a copy of a long shared text, or if
// there were a million items.
func TestHostileBodies(t *testing.T) {
	const (
		most = 256 << 20 // bytes for one request, in all
		long = 4 << 20
		many = 9000
	)
	r := strings.Repeat
	envelope := func(header, item, payload string) string { return header + "\n" + item + "\n" + payload + "\n" }
	spans := func(attributes, spans string) string {
		return `{"resourceSpans":[{"resource":{"attributes":[` + attributes + `]},"scopeSpans":[{"spans":[` + spans + `]}]}]}`
	}
	junit := []string{"Content-Type", "application/xml"}
	workflow := []string{"Content-Type", typeJSON, "X-GitHub-Event", "workflow_job"}
	pipeline := []string{"Content-Type", typeJSON, "X-Gitlab-Event", "Pipeline Hook"}
	for name, c := range map[string]struct {
		path, body string
		header     []string
		status     int
	}{
		"Sentry: the page of many spans": {"/api/1/envelope/", envelope(`{}`, `{"type":"transaction"}`,
			`{"type":"transaction","request":{"url":"http://`+r("h", long)+`/p"},"contexts":{"trace":{"op":"pageload"}},"start_timestamp":1,"timestamp":2,"spans":[`+
				numbered(many, `{"op":"http.client","start_timestamp":1,"timestamp":2,"description":"GET /a#","data":{"http.response.status_code":500}}`)+`]}`), nil, 200},
		"Sentry: the release of many logs": {"/api/1/envelope/", envelope(`{"trace":{"release":"`+r("r", long)+`@1"}}`, `{"type":"log","item_count":1}`,
			`{"items":[`+numbered(many, `{"timestamp":1,"level":"error","body":"b#"}`)+`]}`), nil, 200},
		"Sentry: the app of many breadcrumbs": {"/api/1/envelope/", envelope(`{}`, `{"type":"event"}`,
			`{"tags":{"app":"`+r("a", long)+`"},"timestamp":100,"breadcrumbs":[`+numbered(many, `{"category":"ui.input","message":"m#","timestamp":100}`)+`]}`), nil, 200},
		"Sentry: a time of digits": {"/api/1/envelope/", `{"sent_at":"` + r("9", long) + `"}` + "\n" + r(`{"type":"check_in"}`+"\n"+`{"status":"error"}`+"\n", many), nil, 200},
		"Sentry: items of nothing": {"/api/1/envelope/", "{}\n" + r("{}\n{}\n", 1_000_000), nil, 413},
		"OTLP: the service of many exceptions": {pathOTLPTraces, spans(`{"key":"service.name","value":{"stringValue":"`+r("s", long)+`"}}`,
			numbered(many, `{"events":[{"name":"exception"}]}`)), nil, 200},
		"OTLP: the session of many exceptions": {pathOTLPTraces, spans("", `{"attributes":[{"key":"session.id","value":{"stringValue":"`+r("s", long)+`"}}],"events":[`+
			numbered(many, `{"name":"exception"}`)+`]}`), nil, 200},
		"OTLP: a million spans":      {pathOTLPTraces, spans("", r("{},", 1_000_000)+"{}"), nil, 413},
		"OTLP: a million attributes": {pathOTLPLogs, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"attributes":[` + r("{},", 1_000_000) + `{}]}]}]}]}`, nil, 413},
		"OTLP: deep":                 {pathOTLPLogs, `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":` + r(`{"arrayValue":{"values":[`, 200_000), nil, 413},
		"reports: the app of many":   {pathReports + "?app=" + r("a", 30_000), "[" + numbered(many, `{"type":"csp-violation","url":"http://a/#","body":{"blockedURL":"x"}}`) + "]", nil, 200},
		"reports: many of nothing":   {pathReports, "[" + r("{},", 300_000) + "{}]", nil, 413},
		"JUnit: the suite of many":   {pathJUnit, `<testsuites><testsuite name="` + r("n", long) + `">` + r(`<testcase><error/></testcase>`, 90_000) + `</testsuite></testsuites>`, junit, 200},
		"JUnit: a million elements":  {pathJUnit, `<testsuites>` + r(`<a/>`, 1_500_000) + `</testsuites>`, junit, 413},
		"JUnit: deep":                {pathJUnit, `<testsuites>` + r(`<testsuite>`, 500_000), junit, 413},
		"GitHub: many steps":         {pathGitHub, `{"action":"completed","workflow_job":{"conclusion":"failure","steps":[` + r(`{},`, 300_000) + `{}]}}`, workflow, 413},
		"GitLab: many builds":        {pathGitLab, `{"object_kind":"pipeline","object_attributes":{"status":"failed"},"builds":[` + r(`{},`, 300_000) + `{}]}`, pipeline, 413},
		"Alertmanager: the receiver of many": {pathAlertmanager, `{"version":"4","receiver":"` + r("r-", 250_000) + `","alerts":[` +
			numbered(many, `{"status":"firing","labels":{"a":"#"}}`) + `]}`, nil, 200},
	} {
		t.Run(name, func(t *testing.T) {
			h := testHandler(&fakeSink{}, func(cfg *Config) { cfg.Masker = redact.New() })
			header, data := c.header, []byte(c.body)
			if header == nil {
				header = []string{"Content-Type", typeJSON}
			}
			if len(data) > maxBody {
				data = packed(t, "gzip", data)
				header = append(header, "Content-Encoding", "gzip")
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			w := answerOf(h, ask(http.MethodPost, c.path, bytes.NewReader(data), header...))
			runtime.ReadMemStats(&after)
			if w.Code != c.status {
				t.Errorf("got %d %.300s, want %d", w.Code, w.Body, c.status)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%d bytes, packed: %d MB allocated, want at most %d", len(data), took>>20, most>>20)
			}
		})
	}
}
