package senders

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// forbidding is a page that does what its policies do not allow, and something
// deprecated.
const forbidding = `<!doctype html><title>a shop</title><script>document.title = "inline"</script><img src="http://127.0.0.1:9/pixel.png"><script src="/old.js"></script>`

const oldScript = `addEventListener("unload", () => {}); fetch("/broken");`

// TestBrowserReports lets Chromium send reports by itself, as headers configure it. It
// reads Reporting-Endpoints from pages over TLS only, and sends to TLS only: to a
// development server, for example, which passes the reports on.
func TestBrowserReports(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	ingestURL, err := url.Parse(sys.Bus.IngestURL)
	e2etest.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(ingestURL) }}
	var site *httptest.Server
	site = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/reports":
			proxy.ServeHTTP(rw, r)
		case "/broken":
			rw.WriteHeader(http.StatusInternalServerError)
		case "/old.js":
			rw.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(rw, oldScript) // the browser reports errors
		default:
			endpoint := fmt.Sprintf("https://localhost:%s/v1/reports?app=shop", e2etest.PortOf(t, site.URL))
			rw.Header().Set("Content-Type", "text/html")
			rw.Header().Set("Reporting-Endpoints", fmt.Sprintf(`default=%q, csp=%q`, endpoint, endpoint))
			rw.Header().Set("Report-To", fmt.Sprintf(`{"group":"nel","max_age":600,"endpoints":[{"url":%q}]}`, endpoint))
			rw.Header().Set("NEL", `{"report_to":"nel","max_age":600}`)
			rw.Header().Set("Content-Security-Policy", "default-src 'self'; report-to csp")
			_, _ = io.WriteString(rw, forbidding)
		}
	}))
	defer site.Close()
	// The browser trusts this certificate as one that it has verified: with ignored
	// errors it would not log those of the network.
	key := sha256.Sum256(site.Certificate().RawSubjectPublicKeyInfo)
	browser := chromium.Start(t, chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])), chromedp.Flag("short-reporting-delay", true))
	page := fmt.Sprintf("https://localhost:%s/cart", e2etest.PortOf(t, site.URL))
	e2etest.NoError(t, chromedp.Do(browser, chromedp.Navigate(page)))

	alerts := deliveredByKey(t, sys, 3)
	reported(t, alerts, page, "shop", "")
	if failed := alerts["GET:/broken:500"]; failed.App != "shop" || failed.Category != alert.NetworkErrors {
		t.Errorf("%+v of %d alerts, want App \"shop\" and Category %v", failed, len(alerts), alert.NetworkErrors)
	}
	until(t, sys, "logs", func(all []telemetry.Event) bool {
		return slices.ContainsFunc(all, func(e telemetry.Event) bool {
			return e.Log.Level == telemetry.LevelWarn && strings.Contains(e.Log.Message, "deprecated") && strings.Contains(e.Log.Source, "/old.js:1") && e.URL == page && e.App == "shop"
		})
	})
}

// TestReportURI checks the older header, which works from any page.
func TestReportURI(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	browser := chromium.Start(t)
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		rw.Header().Set("Content-Security-Policy-Report-Only", "default-src 'self'; report-uri "+sys.Bus.IngestURL+"/v1/reports?app=till")
		_, _ = io.WriteString(rw, forbidding) // the browser reports errors
	}))
	defer site.Close()
	page := fmt.Sprintf("http://localhost:%s/cart", e2etest.PortOf(t, site.URL))
	e2etest.NoError(t, chromedp.Do(browser, chromedp.Navigate(page)))
	reported(t, deliveredByKey(t, sys, 2), page, "till", " (report only)")
}

// reported finds the two violations of forbidding.
func reported(t *testing.T, alerts map[string]alert.Alert, page, app, end string) {
	t.Helper()
	var got []string
	for _, a := range alerts {
		if a.Category == alert.Security && a.App == app && a.URL == page {
			got = append(got, a.Detail)
		}
	}
	slices.Sort(got)
	want := []string{
		"img-src: http://127.0.0.1:9/pixel.png at " + page + ":1:",
		"script-src-elem: inline at " + page + ":1:",
	}
	for i, prefix := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], prefix) || !strings.HasSuffix(got[i], end) {
			t.Errorf("got %q, want those that begin with %q", got, want)
		}
	}
}
