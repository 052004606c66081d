package browserreports

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var update = flag.Bool("update", false, "write the golden file")

var now = time.Date(2026, 11, 21, 11, 0, 0, 0, time.UTC)

// TestChromium decodes recorded reports of Chromium 156.
func TestChromium(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d recordings, error %v, want at least one", len(files), err)
	}
	var got bytes.Buffer
	out := json.NewEncoder(&got)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Decode("web", data, now)
		if err != nil || d.LeftOut > 0 {
			t.Fatalf("%s: error %v, %d left out, want none", file, err, d.LeftOut)
		}
		if err := out.Encode(map[string]any{"file": filepath.Base(file), "events": d.Events}); err != nil {
			t.Fatal(err)
		}
	}
	const golden = "testdata/chromium.golden"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("events differ from %s (-want +got):\n%s", golden, cmp.Diff(string(want), got.String()))
	}
}

// line returns an event as one line, for tables.
func line(e telemetry.Event) string {
	switch {
	case e.Security != nil:
		return fmt.Sprintf("%s %s [%s]", e.Security.Type, e.Security.Message, e.Security.BlockedURL)
	case e.Network != nil:
		return fmt.Sprintf("%s %s %d %gms %s", e.Network.Method, e.Network.URL, e.Network.Status, e.Network.DurationMS, e.Network.Error)
	default:
		return fmt.Sprintf("%s %s [%s]", e.Log.Level, e.Log.Message, e.Log.Source)
	}
}

func TestReports(t *testing.T) {
	of := func(kind, body string) string {
		return `{"type":"` + kind + `","age":1500,"url":"https://a/cart","user_agent":"x","body":{` + body + `}}`
	}
	for _, tt := range []struct{ name, report, want string }{
		{"csp: a URL", of("csp-violation", `"effectiveDirective":"img-src","blockedURL":"https://b/x.png","disposition":"enforce"`), "csp img-src: https://b/x.png [https://b/x.png]"},
		{"csp: a word", of("csp-violation", `"effectiveDirective":"script-src-elem","blockedURL":"inline","disposition":"report","sourceFile":"https://a/cart","lineNumber":1,"columnNumber":40,"sample":"alert(1)"`),
			"csp script-src-elem: inline at https://a/cart:1:40, sample: alert(1) (report only) []"},
		{"csp: the older name", of("csp-violation", `"violatedDirective":"style-src"`), "csp style-src []"},
		{"csp by report-uri", `{"csp-report":{"document-uri":"https://a/cart","effective-directive":"img-src","blocked-uri":"eval","disposition":"report","source-file":"f.js","line-number":3,"script-sample":"x"}}`,
			"csp img-src: eval at f.js:3, sample: x (report only) []"},
		{"permissions policy", of("permissions-policy-violation", `"policyId":"geolocation","message":"not allowed","disposition":"enforce","sourceFile":"f.js","lineNumber":1,"columnNumber":2`),
			"permissions-policy-violation geolocation: not allowed at f.js:1:2 []"},
		{"document policy", of("document-policy-violation", `"policyId":"sync-xhr","disposition":"report"`), "document-policy-violation sync-xhr (report only) []"},
		{"coep", of("coep", `"type":"corp","blockedURL":"https://b/x","destination":"image","disposition":"enforce"`), "coep corp [https://b/x]"},
		{"coop", of("coop", `"type":"navigation-from-response","disposition":"reporting"`), "coop navigation-from-response (report only) []"},
		{"integrity", of("integrity-violation", `"blockedURL":"https://b/x.js","destination":"script"`), "integrity-violation script [https://b/x.js]"},
		{"deprecation", of("deprecation", `"id":"UnloadHandler","message":"gone soon","sourceFile":"f.js","lineNumber":1,"columnNumber":1`), "warn gone soon [f.js:1:1]"},
		{"intervention without words", of("intervention", `"id":"SlowPage","lineNumber":1`), "warn SlowPage []"},
		{"a crash", of("crash", `"reason":"oom"`), "error Page crashed: oom []"},
		{"a crash for no known reason", of("crash", ``), "error Page crashed: for no known reason []"},
		{"a request with a status", of("network-error", `"type":"http.error","method":"POST","status_code":502,"elapsed_time":30,"phase":"application"`), "POST https://a/cart 502 30ms http.error (application)"},
		{"a request without an answer", of("network-error", `"type":"tcp.timed_out","method":"GET","status_code":0,"elapsed_time":-1,"phase":"connection"`), "GET https://a/cart 0 0ms tcp.timed_out (connection)"},
		{"a request that broke off", of("network-error", `"type":"abandoned","status_code":200`), "GET https://a/cart 0 0ms abandoned"},
		{"a request that went well", of("network-error", `"type":"ok","method":"GET","status_code":200,"elapsed_time":12,"phase":"application"`), "GET https://a/cart 200 12ms"},
		{"an unknown type", of("news", `"a":1`), "info Report news []"},
		{"a body that is none", `{"type":"crash","body":7}`, "error Page crashed: for no known reason []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, data := range []string{tt.report, " [" + tt.report + "]\n"} {
				if strings.Contains(data, "csp-report\"") && data[1] == '[' {
					continue // that form stands alone
				}
				d, err := Decode("", []byte(data), now)
				if err != nil || len(d.Events) != 1 {
					t.Fatalf("error %v, %d events, %d left out, want one event", err, len(d.Events), d.LeftOut)
				}
				if got := strings.TrimSpace(line(d.Events[0])); got != tt.want || d.Events[0].App != telemetry.DefaultApp {
					t.Errorf("got\n%s, want\n%s", got, tt.want)
				}
			}
		})
	}
}

func TestEnvelope(t *testing.T) {
	d, err := Decode("shop", []byte(`[{"type":"crash","age":1500,"url":"https://a/cart"},{"type":"network-error","age":-1,"url":"https://a/x","body":{"referrer":"https://a/cart"}},{"type":"crash","age":1e300},7,{},{"type":"network-error"}]`), now)
	if err != nil || len(d.Events) != 3 || d.LeftOut != 3 {
		t.Fatalf("error %v, %d events, %d left out, want 3 and 3", err, len(d.Events), d.LeftOut)
	}
	for i, want := range []time.Time{now.Add(-1500 * time.Millisecond), now, now} {
		if e := d.Events[i]; !e.Time.Equal(want) || e.App != "shop" || i < 2 && e.URL != "https://a/cart" {
			t.Errorf("event %d: %s, app %q, URL %q, want %s, \"shop\" and \"https://a/cart\"", i, e.Time, e.App, e.URL, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for given, want := range map[string]string{
		"":                         "empty",
		"{}":                       "type is required",
		`{"csp-report":null}`:      "type is required",
		"[":                        "malformed JSON",
		`[{"type":"crash"]`:        "report 0: malformed JSON",
		`[] []`:                    "follows the array",
		`7`:                        "must be a JSON object",
		`{"type":"crash"} {}`:      "malformed JSON",
		`[{"type":"crash"},{"a":}`: "report 1: malformed JSON",
	} {
		if _, err := Decode("", []byte(given), now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Decode(%s): error %v, want %q", given, err, want)
		}
	}
	if _, err := Decode("", []byte(`7`), now); err == nil || err.Error() != "malformed JSON: it must be a JSON object" {
		t.Errorf("Decode(7): error %v, want \"malformed JSON: it must be a JSON object\", without Go types", err)
	}
	if _, err := Decode("", []byte("["+strings.Repeat("{},", decoding.MaxItems)+"{}]"), now); !errors.Is(err, decoding.ErrTooMany) {
		t.Errorf("too many reports: error %v, want ErrTooMany", err)
	}
}

func FuzzReports(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("web", data)
	}
	f.Add("", []byte(`[{"type":"network-error","age":1e9,"body":{"type":"ok","status_code":1e2}},{"type":"x-violation"},{"type":"crash","body":{"a":[[]]}}]`))
	f.Fuzz(func(t *testing.T, app string, data []byte) {
		d, err := Decode(app, data, now)
		if len(d.Events)+d.LeftOut > decoding.MaxItems || err != nil && len(d.Events) > 0 {
			t.Fatalf("%d events, %d left out, error %v, want at most %d, and none with an error", len(d.Events), d.LeftOut, err, decoding.MaxItems)
		}
		for _, e := range d.Events {
			if err := e.Validate(); err != nil || e.App == "" || e.Time.After(now) || e.Time.Before(now.Add(-maxAge)) {
				t.Fatalf("event of app %q at %s: %v, want a valid one of an app, from %s to %s", e.App, e.Time, err, now.Add(-maxAge), now)
			}
		}
	})
}

func BenchmarkReports(b *testing.B) {
	data, err := os.ReadFile("testdata/chromium-reports-2.json")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if d, err := Decode("web", data, now); err != nil || len(d.Events) != 4 {
			b.Fatal(len(d.Events), err)
		}
	}
}
