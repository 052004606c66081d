package pagescript

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestScriptReportsAPage checks that an agent gets everything that happens in a page
// that closes right afterwards.
func TestScriptReportsAPage(t *testing.T) {
	t.Parallel()
	s := chromium.NewSite(t)
	w := &witness{System: e2etest.Start(t)}
	chromium.NeedScript(t, w.Bus.IngestURL)
	s.SetPage("/cart", tag(w.Bus.IngestURL, "web")+shop+`<script>function pay() { throw new TypeError("the card is gone") }</script>`)
	s.SetPolicy("/cart", "img-src 'self'")
	closedPort := fmt.Sprintf("http://127.0.0.1:%d/closed", e2etest.FreePort(t))

	tab := s.Open(t, "/cart?token=abc123secret")
	chromium.Eval[bool](t, tab, `new Promise(done => {
		const box = document.createElement("p");
		box.style.height = "300px";
		requestAnimationFrame(() => setTimeout(() => {
			document.body.prepend(box);
			setTimeout(() => done(true), 200);
		}, 100));
	})`)
	tab.Do(t, chromedp.Click(chromedp.CSS("#buy b")))
	// Three more in a row: on a busy machine, clicks of the mouse may be too slow for a burst.
	chromium.Eval[bool](t, tab, `[1, 2, 3].every(() => { document.querySelector("#buy b").click(); return true; })`)
	tab.Do(t, chromedp.Click(chromedp.CSS("#order .send")))
	chromium.Eval[bool](t, tab, `(async () => {
		history.pushState({}, "", "/checkout?step=2");
		setTimeout(pay);
		Promise.reject(new RangeError("out of range"));
		console.error("cart %s has", "c1", {items: 2}, new Error("no stock"));
		console.warn("low on paper");
		await fetch("/api/good", {method: "post"});
		await fetch("/api/broken?api_key=sk_live_hidden");
		await fetch("`+closedPort+`").catch(() => {});
		const leaving = new AbortController();
		setTimeout(() => leaving.abort(), 20);
		await fetch("/api/slow?given-up", {signal: leaving.signal}).catch(() => {});
		await fetch("/api/slow?late", {signal: AbortSignal.timeout(20)}).catch(() => {});
		const xhr = (method, url) => new Promise(done => {
			const x = new XMLHttpRequest();
			x.onloadend = done;
			x.open(method, url);
			x.send();
		});
		await xhr("PUT", "/api/broken?xhr");
		await xhr("GET", "`+closedPort+`?xhr");
		const img = new Image();
		const gone = new Promise(done => img.onerror = done);
		img.src = "http://127.0.0.1:9/pixel.png";
		await gone;
		return true;
	})()`)
	tab.Close()

	requests := w.stored(t, "network", "web", func(all []telemetry.Event) bool { return requested(all, "/closed?xhr") != nil })
	for _, tt := range []struct {
		method, end string
		status      int
	}{
		{"POST", "/api/good", 200}, {"GET", "/api/broken?api_key=[REDACTED]", 500}, {"GET", "/closed", 0},
		{"GET", "/api/slow?late", 0}, {"PUT", "/api/broken?xhr", 500}, {"GET", "/closed?xhr", 0},
	} {
		e := requested(requests, tt.end)
		if e == nil || e.Network.Method != tt.method || e.Network.Status != tt.status || e.Network.DurationMS < 0 ||
			(tt.status == 0) != (e.Network.Error != "") {
			t.Errorf("%s %s: got %s, want status %d, a duration, and an error only with status 0", tt.method, tt.end, inJSON(e), tt.status)
		}
	}
	if requested(requests, "given-up") != nil || requested(requests, "/v1/events") != nil {
		t.Errorf("requests %s, want none that the page aborted (given-up) or the script made (/v1/events)", inJSON(requests))
	}

	logs := w.storedNow(t, "logs", "web")
	session := requests[0].Session
	for _, tt := range []struct{ message, level, stack, source string }{
		{"Uncaught TypeError: the card is gone", "error", "at pay", "/cart"},
		{"Unhandled rejection: RangeError: out of range", "error", "RangeError", ""},
		{`cart c1 has {"items":2} Error: no stock`, "error", "no stock", ""},
		{"low on paper", "warn", "", ""},
	} {
		e := logged(logs, tt.message)
		if e == nil || string(e.Log.Level) != tt.level || !strings.Contains(e.Log.Stack, tt.stack) || !strings.Contains(e.Log.Source, tt.source) ||
			strings.Contains(e.Log.Stack, "tocsin.js") || e.Session != session || session == "" {
			t.Errorf("%s: got %s, want level %s, %q in the stack and no tocsin.js, %q in the source, session %q, which is not empty", tt.message, inJSON(e), tt.level, tt.stack, tt.source, session)
		} else if e.URL != s.LocalURL+"/checkout?step=2" {
			t.Errorf("%s: URL %s, want %s", tt.message, e.URL, s.LocalURL+"/checkout?step=2")
		}
	}
	if e := logged(logs, "cart c1"); e != nil && len(e.Log.Args) != 4 {
		t.Errorf("args = %v, want 4 of them", e.Log.Args)
	}

	actions := map[string]int{}
	for _, e := range w.storedNow(t, "actions", "web") {
		actions[e.Action.Type+" "+e.Action.Target]++
	}
	if actions["click #buy"] != 4 || actions["submit #order"] != 1 || actions["navigate /checkout"] != 1 || strings.Contains(inJSON(actions), "secret") {
		t.Errorf("actions: %v, want click #buy:4, submit #order:1, navigate /checkout:1, and no secret", actions)
	}

	loads := w.stored(t, "vitals", "web", func(all []telemetry.Event) bool { return len(all) > 0 })
	v := loads[0].Vitals
	switch {
	case len(loads) != 1 || v.FCP == nil || v.LCP == nil || v.TTFB == nil || v.Load == nil || v.CLS == nil || *v.CLS == 0:
		t.Errorf("vitals = %s, want one load with FCP, LCP, TTFB, load time and a CLS above 0", inJSON(loads))
	case loads[0].URL != s.LocalURL+"/cart?token=[REDACTED]":
		t.Errorf("URL of the load = %s, want %s", loads[0].URL, s.LocalURL+"/cart?token=[REDACTED]")
	case v.Device != telemetry.DeviceDesktop: // a browser without a screen has a mouse
		t.Errorf("device of the load = %q, want %q", v.Device, telemetry.DeviceDesktop)
	}
	if violations := w.storedNow(t, "security", "web"); len(violations) != 1 || violations[0].Security.Type != "csp" ||
		violations[0].Security.BlockedURL != "http://127.0.0.1:9/pixel.png" {
		t.Errorf("violations: %s, want one of type csp, which blocked http://127.0.0.1:9/pixel.png", inJSON(violations))
	}
	w.waitForCategories(t, alert.Errors, alert.NetworkErrors, alert.UserFrustration, alert.Security)
}

// TestScriptReportsTheLastEvents checks that they are sent, whether a person closes the
// tab or the page navigates by itself.
func TestScriptReportsTheLastEvents(t *testing.T) {
	t.Parallel()
	s := chromium.NewSite(t)
	w := &witness{System: e2etest.Start(t)}
	chromium.NeedScript(t, w.Bus.IngestURL)
	s.SetPage("/short", tag(w.Bus.IngestURL, "short")+`<p>hi</p><script>throw new Error("closed at once")</script>`)
	s.SetPage("/leaving", tag(w.Bus.IngestURL, "leaving")+`<p>hi</p><script>
		fetch("/api/good");
		onload = () => setTimeout(() => {
			fetch("/api/slow?fetched");
			const x = new XMLHttpRequest();
			x.open("GET", "/api/slow?xhr");
			x.send();
			setTimeout(() => { location.href = "/elsewhere"; throw new Error("left at once") }, 50);
		})</script>`)
	s.SetPage("/elsewhere", "elsewhere")

	s.Open(t, "/short").Close()
	s.Open(t, "/leaving")
	for app, message := range map[string]string{"short": "closed at once", "leaving": "left at once"} {
		w.stored(t, "logs", app, func(all []telemetry.Event) bool { return logged(all, message) != nil })
		w.stored(t, "vitals", app, func(all []telemetry.Event) bool { return len(all) == 1 })
	}
	// A request that the page cancelled by leaving is not a failed one.
	if all := w.storedNow(t, "network", "leaving"); len(all) != 1 || requested(all, "/api/good") == nil {
		t.Errorf("requests: %s, want one, of /api/good", inJSON(all))
	}
}

// TestScriptReportsALoadOnce checks that a page that is hidden, shown and hidden again
// is one load. A page that comes back from the browser's cache is another, without
// timings.
func TestScriptReportsALoadOnce(t *testing.T) {
	t.Parallel()
	s := chromium.NewSite(t)
	w := &witness{System: e2etest.Start(t)}
	chromium.NeedScript(t, w.Bus.IngestURL)
	s.SetPage("/load", tag(w.Bus.IngestURL, "load")+shop+`<script>addEventListener("pageshow", e => window.cached = e.persisted)</script>`)
	s.SetPage("/next", "next")

	tab := s.Open(t, "/load")
	chromium.Eval[bool](t, tab, `(async () => {
		const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
		await new Promise(done => new PerformanceObserver(list => {
			if (list.getEntriesByName("first-contentful-paint").length) done();
		}).observe({type: "paint", buffered: true}));
		for (const state of ["hidden", "visible", "hidden", "visible"]) {
			await frame();
			await frame();
			Object.defineProperty(document, "visibilityState", {get: () => state, configurable: true});
			document.dispatchEvent(new Event("visibilitychange", {bubbles: true}));
		}
		delete document.visibilityState;
		return true;
	})()`)
	tab.Do(t, chromedp.Navigate(s.LocalURL+"/next"))
	// A page from the cache has no load event to wait for.
	chromium.Eval[bool](t, tab, `setTimeout(() => history.back()), true`)
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { return chromium.Eval[string](t, tab, "location.pathname") == "/load" }) {
		t.Fatal("timed out waiting for the page /load after history.back()")
	}
	restored := chromium.Eval[bool](t, tab, `new Promise(done => setTimeout(() => done(cached), 300))`)
	tab.Close()

	want := 2
	loads := w.stored(t, "vitals", "load", func(all []telemetry.Event) bool { return len(all) >= want })
	if len(loads) != want {
		t.Fatalf("loads %s, want %d", inJSON(loads), want)
	}
	if second, first := loads[0].Vitals, loads[1].Vitals; first.FCP == nil || first.Load == nil || second.CLS == nil ||
		restored && (second.FCP != nil || second.LCP != nil || second.TTFB != nil || second.Load != nil) {
		t.Errorf("restored: %t, loads %s, want FCP and load time of the first, CLS of the second, and no more of a restored one", restored, inJSON(loads))
	}
	t.Logf("restored from the browser's cache: %t", restored)
}

// TestScriptTags checks that the script finds its own tag however it was loaded, and
// runs once.
func TestScriptTags(t *testing.T) {
	t.Parallel()
	s := chromium.NewSite(t)
	w := &witness{System: e2etest.Start(t)}
	chromium.NeedScript(t, w.Bus.IngestURL)
	src := w.Bus.IngestURL + "/tocsin.js"
	pages := map[string]string{
		"async":    `<script async src="%s" data-app="async"></script>`,
		"defer":    `<script defer src="%s" data-app="defer"></script>`,
		"module":   `<script type="module" src="%s" data-app="module"></script>`,
		"injected": `<script>{const s = document.createElement("script"); s.src = "%s"; s.dataset.app = "injected"; document.head.append(s)}</script>`,
		"twice":    `<script src="%[1]s" data-app="twice"></script><script src="%[1]s?again" data-app="twice"></script>`,
		"release":  `<script src="%s" data-app="release" data-release="web@2.0"></script>`,
		"endpoint": `<script src="%s" data-app="endpoint" data-endpoint="` + strings.Replace(w.Bus.IngestURL, "127.0.0.1", "localhost", 1) + `"></script>`,
	}
	for app, page := range pages {
		s.SetPage("/"+app, fmt.Sprintf(page, src))
		tab := s.Open(t, "/"+app)
		chromium.Eval[bool](t, tab, `new Promise(done => { console.error("hello"); setTimeout(() => done(true)) })`)
	}
	for app := range pages {
		w.stored(t, "logs", app, func(all []telemetry.Event) bool { return logged(all, "hello") != nil })
		all := w.storedNow(t, "logs", app)
		if len(all) != 1 || (app == "release") != (all[0].Release == "web@2.0") {
			t.Errorf("%s: got %s, want one event, and release web@2.0 only of the app release", app, inJSON(all))
		}
	}
}

// TestScriptWithAToken checks that the script sends the token, also from a page that
// ends, and that a page without it logs that once.
func TestScriptWithAToken(t *testing.T) {
	t.Parallel()
	s := chromium.NewSite(t)
	b := e2etest.Up(t, "--token=open sesame")
	w := &witness{System: &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "e2e")}}
	chromium.NeedScript(t, b.IngestURL)
	s.SetPage("/with", fmt.Sprintf(`<script src="%s/tocsin.js" data-app="with" data-token="open sesame"></script>`, b.IngestURL))
	s.SetPage("/without", tag(b.IngestURL, "without"))

	tab := s.Open(t, "/with")
	chromium.Eval[bool](t, tab, `console.error("first"), true`)
	w.stored(t, "logs", "with", func(all []telemetry.Event) bool { return logged(all, "first") != nil })
	chromium.Eval[bool](t, tab, `console.error("last"), true`)
	tab.Close()
	w.stored(t, "logs", "with", func(all []telemetry.Event) bool { return logged(all, "last") != nil })

	tab = s.NewTab(t)
	messages := chromedp.Console(tab.Ctx)
	tab.Do(t, chromedp.Navigate(s.LocalURL+"/without"))
	chromium.Eval[bool](t, tab, `console.error("unheard"), true`)
	for m, err := range messages {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(m.Text, "answers 401 (the script tag has data-token for it)") && strings.Contains(m.Text, "TOCSIN_TOKEN") {
			break
		}
	}
	if all := w.storedNow(t, "logs", "without"); len(all) != 0 {
		t.Errorf("got events %s, want none", inJSON(all))
	}
}

// TestScriptWhileIngestIsDown checks that events wait until ingest is back, and
// are sent once.
func TestScriptWhileIngestIsDown(t *testing.T) {
	t.Parallel()
	s := chromium.NewSite(t)
	dir, addr := t.TempDir(), fmt.Sprintf("--ingest-addr=127.0.0.1:%d", e2etest.FreePort(t))
	first := e2etest.UpIn(t, dir, addr)
	chromium.NeedScript(t, first.IngestURL)
	s.SetPage("/", tag(first.IngestURL, "patient")+shop)
	tab := s.Open(t, "/")
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := chromium.Eval[string](t, tab, `(async () => {
		for (let i = 0; i < 1000; i++) console.error("away " + i);
		await new Promise(done => setTimeout(done, 1500)); // a try that fails
		return (await fetch("/api/good")).text();
	})()`); got != `{"good":true}` {
		t.Errorf("the page got %s, want {\"good\":true}", got)
	}
	again := e2etest.UpIn(t, dir, addr)
	w := &witness{System: &e2etest.System{Bus: again, Agent: e2etest.Join(t, again, "e2e")}}
	const reported = 1000
	var stored []string
	var dropped int
	logs := w.stored(t, "logs", "patient", func(all []telemetry.Event) bool {
		stored, dropped = nil, 0
		for i := range all {
			var n int
			if _, err := fmt.Sscanf(all[i].Log.Message, "tocsin.js dropped %d events", &n); err == nil {
				dropped += n
				continue
			}
			stored = append(stored, all[i].Log.Message)
		}
		return len(stored)+dropped >= reported
	})
	count := map[string]int{}
	for _, message := range stored {
		count[message]++
	}
	// Which ones of the rest were dropped depends on how long the page took to report them.
	burst := 0
	for burst < reported && count[fmt.Sprintf("away %d", burst)] == 1 {
		burst++
	}
	if burst < 50 || len(count) != len(stored) || len(stored)+dropped != reported {
		t.Errorf("%d logs: %q, and %d dropped, want each once, among them the first 50, and %d in all", len(logs), stored, dropped, reported)
	}
	tab.Close()
}

// TestScriptIsServed checks that the script is served to pages of this machine and of
// configured origins. A page that loads it as a plain script names no origin: its
// events are checked when they arrive.
func TestScriptIsServed(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	chromium.NeedScript(t, b.IngestURL)
	for _, tt := range []struct {
		name   string
		status int
		change func(*http.Request)
	}{
		{"a foreign page", 200, func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Dest", "script")
		}},
		{"a module of a local page", 200, func(r *http.Request) { r.Header.Set("Origin", "http://localhost:3000") }},
		{"a module of a foreign page", 403, func(r *http.Request) { r.Header.Set("Origin", "https://shop.example") }},
		{"a rebound name", 403, func(r *http.Request) { r.Host = "rebound.example" }},
		{"a post", 405, func(r *http.Request) { r.Method = http.MethodPost }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.IngestURL+"/tocsin.js", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			tt.change(r)
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != tt.status {
				t.Errorf("got %d %v, want StatusCode %v", resp.StatusCode, resp.Header, tt.status)
			}
		})
	}
}
