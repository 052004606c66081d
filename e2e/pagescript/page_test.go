package pagescript

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// hostile has things that pages do before they load the script.
var hostile = map[string]string{
	"an ordinary page": ``,
	"frozen": `for (const o of [Object, Array, Function, Promise, Error, XMLHttpRequest, History, Element, Event, EventTarget, Map, WeakMap, RegExp, String])
		Object.freeze(o) && Object.freeze(o.prototype); Object.freeze(console); Object.freeze(Reflect); Object.freeze(JSON)`,
	"meddling": `Object.prototype.toJSON = () => { throw new Error("toJSON") }; Array.prototype.toJSON = Object.prototype.toJSON;
		Array.prototype.last = function () {}; Object.prototype.extra = 1`,
	"its own console":        `window.said = []; window.console = {error(...all) { said.push(all.length) }, warn(...all) { said.push(all.length) }, info: console.info.bind(console)}`,
	"a console that throws":  `console.error = function error() { throw new Error("no console") }`,
	"a getter for a console": `{const real = console.warn; Object.defineProperty(console, "warn", {get: () => real, configurable: false})}`,
	"no storage":             `Object.defineProperty(window, "sessionStorage", {get() { throw new DOMException("denied", "SecurityError") }})`,
	"no measurements":        `delete window.PerformanceObserver; delete window.PerformanceEventTiming; performance.getEntriesByType = () => { throw new Error("no") }`,
	"a fetch of its own":     `{const real = fetch; window.fetch = async function fetch(...all) { return real.apply(this, all) }}`,
	"a fetch without promise": `{const real = fetch; window.fetch = function fetch(...all) { const p = real.apply(this, all);
		p.catch(() => {}); return {then: (f, g) => p.then(f, g)} }}`,
	"a promise of its own": `window.Promise = class Promise extends window.Promise {}`,
	"no beacon":            `navigator.sendBeacon = () => { throw new Error("no") }`,
	"errors of its own":    `Error.prepareStackTrace = () => ({toString() { throw new Error("stack") }}); Object.defineProperty(Error, "stackTraceLimit", {value: 1, writable: false})`,
	"clocks of its own":    `Date.now = () => NaN; performance.now = () => -1; Date.prototype.toISOString = () => { throw new Error("date") }`,
}

// TestScriptChangesNothing checks that a page behaves with the script as it does
// without it, whether ingest runs or not.
func TestScriptChangesNothing(t *testing.T) {
	t.Parallel()
	s := chromium.NewSite(t)
	b := e2etest.Up(t)
	chromium.NeedScript(t, b.IngestURL)
	battery, err := os.ReadFile(filepath.Join("testdata", "script", "battery.js"))
	if err != nil {
		t.Fatal(err)
	}
	closed := fmt.Sprintf("http://127.0.0.1:%d", e2etest.FreePort(t))
	unreachable := fmt.Sprintf(`<script src="%s/tocsin.js" data-endpoint="%s" data-app="battery"></script>`, b.IngestURL, closed)
	for name, prelude := range hostile {
		t.Run(name, func(t *testing.T) {
			page := func(tag string) (string, []string) {
				s.SetPage("/battery", "<script>"+prelude+"</script>"+tag+shop+"<script>"+string(battery)+"</script>")
				tab := s.NewTab(t)
				messages := chromedp.Console(tab.Ctx)
				tab.Do(t, chromedp.Navigate(s.LocalURL+"/battery"))
				seen := chromium.Eval[string](t, tab, fmt.Sprintf(`battery("%s/closed").then(seen => { console.info("the end"); return seen })`, closed))
				var written []string
				for m, err := range messages {
					if err != nil {
						t.Fatal(err)
					}
					if m.Text == "the end" {
						break
					}
					if m.Source == "" { // otherwise it is the browser's own line about a request
						written = append(written, fmt.Sprintf("%s %s", m.Type, m.Text))
					}
				}
				return seen, written
			}
			want, wantWritten := page("")
			tags := map[string]string{"ingest is there": tag(b.IngestURL, "battery")}
			if prelude == "" {
				tags["ingest is unreachable"] = unreachable
			}
			for which, tag := range tags {
				got, written := page(tag)
				if got != want {
					t.Errorf("%s: the results differ from those without the script: %s\nwant %v", which, difference(want, got), want)
				}
				if a, b := strings.Join(wantWritten, "\n"), strings.Join(written, "\n"); a != b {
					t.Errorf("%s: the console differs from that without the script: %s\nwant %v", which, difference(a, b), a)
				}
			}
		})
	}
	// All of it was sent, and none of it refused.
	sent := false
	for line := range strings.Lines(e2etest.Get(t, b.IngestURL+"/metrics").Body) {
		if !strings.HasPrefix(line, "tocsin_ingest_requests_total") || !strings.Contains(line, `path="/v1/events"`) {
			continue
		}
		sent = true
		if !strings.Contains(line, `code="200"`) {
			t.Errorf("got %s, want \"code=\\\"200\\\"\" in it", line)
		}
	}
	if !sent {
		t.Error("no request was sent to ingest, want some")
	}
}

// difference returns the lines that only one of two texts has.
func difference(want, got string) string {
	var out strings.Builder
	for _, line := range strings.Split(want, "\n") {
		if !strings.Contains(got, line) {
			out.WriteString("\n- " + line)
		}
	}
	for _, line := range strings.Split(got, "\n") {
		if !strings.Contains(want, line) {
			out.WriteString("\n+ " + line)
		}
	}
	return out.String()
}

// TestScriptOnAHostilePage checks that the events of such pages are reported.
func TestScriptOnAHostilePage(t *testing.T) {
	t.Parallel()
	s := chromium.NewSite(t)
	w := &witness{System: e2etest.Start(t)}
	chromium.NeedScript(t, w.Bus.IngestURL)
	appOf := func(name string) string { return strings.ReplaceAll(name, " ", "-") }
	for name, prelude := range hostile {
		app := appOf(name)
		s.SetPage("/"+app, "<script>"+prelude+"</script>"+tag(w.Bus.IngestURL, app)+shop)
		tab := s.Open(t, "/"+app)
		chromium.Eval[bool](t, tab, `setTimeout(() => { throw new RangeError("out of range") }), true`)
	}
	for name := range hostile {
		t.Run(name, func(t *testing.T) {
			w.stored(t, "logs", appOf(name), func(all []telemetry.Event) bool { return logged(all, "RangeError: out of range") != nil })
		})
	}
}

// TestScriptInAStorm checks that a page that logs the same without end is hardly slowed
// down, and that the events that were left out are counted.
func TestScriptInAStorm(t *testing.T) {
	t.Parallel()
	s := chromium.NewSite(t)
	w := &witness{System: e2etest.Start(t)}
	chromium.NeedScript(t, w.Bus.IngestURL)
	s.SetPage("/", `<script>console.error = () => {}</script>`+tag(w.Bus.IngestURL, "storm")+shop)
	tab := s.Open(t, "/")
	times := chromium.Eval[[]float64](t, tab, `(async () => {
		const big = {text: "x".repeat(1e6), list: Array(1e5).fill({a: 1})};
		const start = performance.now();
		for (let i = 0; i < 100000; i++) console.error("storm", i, big, new Date());
		for (let i = 0; i < 1000; i++) setTimeout(() => { throw new Error("timer storm") });
		for (let i = 0; i < 1000; i++) document.querySelector("#buy").click();
		const called = performance.now() - start;
		await new Promise(done => setTimeout(done)); // after the other timers
		return [called, performance.now() - start];
	})()`)
	t.Logf("102,000 calls took %.0f ms, and the storm %.0f ms", times[0], times[1])
	const burst, perSecond = 50, 20 // the bounds of a kind of event, in report.ts
	var got int
	logs := w.stored(t, "logs", "storm", func(all []telemetry.Event) bool {
		got = len(all)
		for i := range all {
			if strings.HasPrefix(all[i].Log.Message, "tocsin.js dropped") {
				got--
			}
		}
		return got >= burst && got < len(all)
	})
	if most := burst + int(perSecond*times[1]/1000); got > most {
		t.Errorf("%d log lines of a storm of %.0f ms, want at most %d", got, times[1], most)
	}
	t.Logf("%s", logged(logs, "tocsin.js dropped").Log.Message)
}

// TestScriptUnderAPolicy checks that a page whose policy allows the script but not its
// requests works, and logs the reason once.
func TestScriptUnderAPolicy(t *testing.T) {
	t.Parallel()
	s := chromium.NewSite(t)
	w := &witness{System: e2etest.Start(t)}
	chromium.NeedScript(t, w.Bus.IngestURL)
	page := func(app string) string {
		return tag(w.Bus.IngestURL, app) + `<script nonce="n1">
			console.error("said");
			Promise.resolve().then(() => { window.alive = true; throw new Error("thrown") });
		</script>`
	}
	policy := "default-src 'none'; require-trusted-types-for 'script'; script-src 'nonce-n1' " + w.Bus.IngestURL + "; connect-src 'self'"
	for app, policy := range map[string]string{"mute": policy, "strict": policy + " " + w.Bus.IngestURL} {
		s.SetPage("/"+app, page(app))
		s.SetPolicy("/"+app, policy)
	}

	tab := s.Open(t, "/strict")
	w.stored(t, "logs", "strict", func(all []telemetry.Event) bool {
		return logged(all, "said") != nil && logged(all, "Error: thrown") != nil
	})
	tab.Close()
	if all := w.storedNow(t, "security", "strict"); len(all) != 0 {
		t.Errorf("violations by the script itself: %s, want none", inJSON(all))
	}

	tab = s.NewTab(t)
	messages := chromedp.Console(tab.Ctx)
	tab.Do(t, chromedp.Navigate(s.LocalURL+"/mute"))
	for m, err := range messages {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(m.Text, "connect-src") && strings.HasPrefix(m.Text, "tocsin.js") {
			break
		}
	}
	if !chromium.Eval[bool](t, tab, `console.error("more"), alive`) {
		t.Error("the page does not run any more, want it alive")
	}
	tab.Close()
	if all := w.storedNow(t, "logs", "mute"); len(all) != 0 {
		t.Errorf("got events %s, want none", inJSON(all))
	}
}
