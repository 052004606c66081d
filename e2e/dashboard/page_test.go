package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestPage checks that the page shows alerts as they are raised, and can be filtered
// and navigated by keyboard alone.
func TestPage(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	sys := e2etest.Start(t)
	needsPage(t, sys.Bus.DashboardURL)
	v := view(browser, t, sys.Bus.DashboardURL)
	v.sees(t, "No alerts yet", `document.querySelector(".empty")?.textContent.includes("No alerts yet")`)
	v.live(t, "websocket")

	sys.PostCI(t, map[string]any{"status": "failure", "name": "test", "ref": "main", "commit": "abc123", "summary": "2 failed", "failures": []map[string]any{{"name": "test_login", "message": "got 401"}}})
	v.has(t, "CI failure: test on main")
	sys.PostEvents(t,
		map[string]any{"kind": "action", "app": "web", "action": map[string]any{"type": "click", "target": "#buy"}},
		map[string]any{"kind": "network", "app": "web", "network": map[string]any{"method": "POST", "url": "/api/users", "status": 500, "duration_ms": 12}})
	sys.PostServerError(t, "checkout", "/pay")
	sys.PostEvents(t, map[string]any{"kind": "network", "app": "web", "network": map[string]any{"method": "GET", "url": "/api/session", "status": 401}})
	for _, title := range []string{"Server error: POST /api/users → 500", "Server error: GET /pay → 500"} {
		v.has(t, title)
	}
	v.sees(t, "four rows", `document.querySelectorAll(".rows [role=row]").length === 4`)

	shown := func(t *testing.T, v *viewer, what string, want ...string) {
		t.Helper()
		slices.Sort(want)
		v.sees(t, what, fmt.Sprintf(`JSON.stringify(%s.sort()) === %q`, shownTitles, inLine(want)))
	}
	const users, pay, ci = "Server error: POST /api/users → 500", "Server error: GET /pay → 500", "CI failure: test on main"
	// Each part has its own tab, so that a failure does not affect the next part.
	open := func(t *testing.T) *viewer {
		t.Helper()
		v := view(browser, t, sys.Bus.DashboardURL)
		v.live(t, "websocket")
		v.has(t, users)
		v.has(t, ci)
		return v
	}
	unauthorised := chromium.Eval[string](t, v.Tab, shownTitles+`.find(x => x.includes("401"))`)

	t.Run("filters", func(t *testing.T) {
		v := open(t)
		v.click(t, `.severities button:nth-child(2)`)
		shown(t, v, "only warnings", unauthorised)
		v.button(t, "Show all")
		v.sees(t, "the address without a filter", `location.hash === "#/alerts" || location.hash === ""`)
		v.click(t, `.multi-select:nth-of-type(3) > button, .multi-select button`)
		v.sees(t, "the focus in the panel", `document.activeElement.closest(".multi-select-panel")`)
		v.press(t, kb.Escape)
		chromium.Eval[bool](t, v.Tab, `(location.hash = "#/alerts?app=checkout", true)`)
		shown(t, v, "the alerts of the app in the address", pay)
		chromium.Eval[bool](t, v.Tab, `(location.hash = "#/alerts?category=ci", true)`)
		shown(t, v, "the alerts of the category in the address", ci)
		v.button(t, "Show all")
		shown(t, v, "all alerts", ci, users, pay, unauthorised)
	})

	t.Run("search by keys", func(t *testing.T) {
		v := open(t)
		v.press(t, "/")
		v.sees(t, "the focus in the search", `document.activeElement.id === "search"`)
		// The test's keyboard also types the slash if the focus was faster. A real one
		// does not.
		chromium.Eval[bool](t, v.Tab, `(document.activeElement.value = "", true)`)
		v.press(t, "server post -pay")
		shown(t, v, "the matching alert", users)
		v.press(t, kb.Escape)
		shown(t, v, "all alerts", ci, users, pay, unauthorised)
	})

	t.Run("keys", func(t *testing.T) {
		v := open(t)
		focused := `document.activeElement.getAttribute("aria-rowindex")`
		v.press(t, "j")
		v.sees(t, "the focus in row 1", focused+` === "2"`)
		v.press(t, "j", kb.ArrowDown)
		v.sees(t, "the focus in row 3", focused+` === "4"`)
		v.press(t, kb.End)
		v.sees(t, "the focus in the last row", focused+` === "5"`)
		v.press(t, kb.Home, "k")
		v.sees(t, "the focus in row 1", focused+` === "2"`)
		v.sees(t, "one row that Tab reaches", `document.querySelectorAll('.rows [tabindex="0"]').length === 1`)
		v.press(t, kb.Enter)
		v.sees(t, "the focus in the drawer", `document.activeElement.closest("aside[aria-label=Alert] h2")`)
		v.press(t, kb.Escape)
		v.sees(t, "the focus in the list again", `!document.querySelector("aside") && `+focused+` === "2"`)
		v.press(t, "?")
		v.sees(t, "the help", `document.querySelector("dialog[open]")?.textContent.includes("silence")`)
		v.press(t, kb.Escape)
		v.sees(t, "no help", `!document.querySelector("dialog")`)
		for i, name := range []string{"Alerts", "CI", "Charts", "Silences & noise", "Agent messages", "Services"} {
			v.press(t, fmt.Sprint(i+1))
			v.sees(t, name, fmt.Sprintf(`document.querySelector("main").getAttribute("aria-label") === %q && document.querySelector("nav [aria-current=page]").textContent.startsWith(%q)`, name, name))
		}
		v.press(t, "1")
	})

	t.Run("drawer", func(t *testing.T) {
		v := open(t)
		v.has(t, users)
		id := chromium.Eval[string](t, v.Tab, fmt.Sprintf(`[...document.querySelectorAll(".rows [role=row]")].find(r => r.textContent.includes(%q)).dataset.id`, users))
		v.click(t, fmt.Sprintf(`[data-id="%s"]`, id))
		v.sees(t, "the context", `["method", "POST", "/api/users", "500"].every(x => document.querySelector("aside section[aria-label=Context]")?.textContent.includes(x))`)
		v.sees(t, "the events around the alert", `["click #buy", "POST /api/users → 500"].every(x => document.querySelector("aside .events")?.textContent.includes(x))`)
		v.click(t, "aside .close")
		v.sees(t, "no drawer", `!document.querySelector("aside")`)
	})

	t.Run("pause", func(t *testing.T) {
		v := open(t)
		v.press(t, "p")
		v.sees(t, "the button Resume", `document.querySelector(".pause").textContent.includes("Resume")`)
		sys.PostServerError(t, "checkout", "/later")
		v.sees(t, "one alert that waits", `document.querySelector(".pause .number").textContent === "+1"`)
		shown(t, v, "the alerts of before the pause", ci, users, pay, unauthorised)
		v.press(t, "p")
		v.has(t, "Server error: GET /later → 500")
	})

	t.Run("CI by ref", func(t *testing.T) {
		v := open(t)
		sys.PostCI(t, map[string]any{"status": "success", "name": "lint", "ref": "main", "commit": "abc123", "summary": "clean"})
		sys.PostCI(t, map[string]any{"status": "success", "name": "test", "ref": "topic", "commit": "def456", "summary": "14 passed"})
		v.press(t, "2")
		v.sees(t, "both refs", `[...document.querySelectorAll(".ref h2")].map(e => e.textContent).sort().join() === "main,topic"`)
		v.sees(t, "the number of failed pipelines", `document.querySelector('.ref[aria-label="Ref main"]').textContent.includes("1 failed, 1 passed")`)
		v.button(t, "test")
		v.sees(t, "the drawer", `document.querySelector("aside h2")?.textContent.startsWith("CI ")`)
		v.press(t, kb.Escape, "1")
	})

	t.Run("notices and services", func(t *testing.T) {
		v := open(t)
		sys.Call(t, "notify", map[string]any{"message": "the cart works again", "level": "warn"})
		v.sees(t, "a badge", `document.querySelector('nav a[href^="#/notices"] .badge')?.textContent.startsWith("1")`)
		v.press(t, "5")
		v.sees(t, "the notice", `document.querySelector(".notices")?.textContent.includes("the cart works again")`)
		v.sees(t, "no badge", `!document.querySelector('nav a[href^="#/notices"] .badge')`)
		sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "events": []string{"ci"}})
		v.press(t, "6")
		for _, service := range []string{"ingest", "dashboard"} {
			v.sees(t, service, fmt.Sprintf(`[...document.querySelectorAll("main tbody tr")].find(r => r.querySelector("th").textContent === %q)?.textContent.includes("healthy")`, service))
		}
		v.sees(t, "the gateway and its notifications", `[...document.querySelectorAll("main tbody tr")].find(r => r.querySelector("th").textContent.includes("e2e"))?.textContent.includes("on ci")`)
	})

	t.Run("charts", func(t *testing.T) {
		v := open(t)
		for range 4 {
			sys.PostVitals(t, "/cart", 2500)
		}
		sys.PostVitals(t, "/cart", 3900)
		v.press(t, "3")
		v.sees(t, "the description of the chart", `document.querySelector('.vital [role=img]')?.getAttribute("aria-label").includes("3900 ms")`)
		v.sees(t, "the alert in the description", `document.querySelector('.vital [role=img]').getAttribute("aria-label").includes("1 alert")`)
		v.sees(t, "the chart", `document.querySelector(".vital canvas")`)
		v.click(t, ".vital .toggle")
		v.sees(t, "the table of the chart", `document.querySelector(".vital table")?.textContent.includes("LCP regressed")`)
		v.sees(t, "the alert rate", `document.querySelector(".rate canvas")`)
	})
}

func inLine(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = `"` + text + `"`
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

// TestPageSilences checks that an alert that is silenced on the page is not delivered
// to agents until the silence ends, and that an acknowledged alert is marked.
func TestPageSilences(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	sys := e2etest.Start(t)
	needsPage(t, sys.Bus.DashboardURL)
	v := view(browser, t, sys.Bus.DashboardURL)
	sys.PostServerError(t, "checkout", "/before")
	v.has(t, "Server error: GET /before → 500")
	sys.WaitReceived(t, 1)

	v.press(t, "j", "s")
	v.sees(t, "the dialog", `document.querySelector("dialog[open] form")`)
	v.button(t, "Everything in checkout")
	chromium.Eval[bool](t, v.Tab, `(document.querySelector("dialog input[name=reason]").value = "deploy <b>2</b>", true)`)
	v.click(t, "dialog button[type=submit]")
	v.sees(t, "the confirmation", `!document.querySelector("dialog") && document.querySelector(".toast:not(.bad)")?.textContent.includes("Silenced")`)
	sys.Configure(t, map[string]any{"action": "silence_list"}) // the agent knows it now

	sys.PostServerError(t, "checkout", "/silenced")
	sys.PostServerError(t, "web", "/other")
	v.sees(t, "the tag of the alert", `[...document.querySelectorAll(".rows [role=row]")].find(r => r.textContent.includes("/silenced"))?.querySelector(".tag")?.textContent === "silenced"`)
	sys.WaitReceived(t, 3)
	if got := e2etest.Titles(sys.Observe(t, nil).Alerts); got != "Server error: GET /before → 500, Server error: GET /other → 500" {
		t.Errorf("alerts of the agent = %s, want those of /before and /other", got)
	}

	v.press(t, "4")
	v.sees(t, "the silence", `document.querySelector("main table")?.textContent.includes("deploy <b>2</b>")`)
	v.button(t, "Remove")
	v.sees(t, "No active silences", `document.querySelector("main").textContent.includes("No active silences")`)
	if list := sys.Configure(t, map[string]any{"action": "silence_list"}); len(list.Silences) != 0 {
		t.Errorf("got %+v, want no entry in Silences", list)
	}

	v.press(t, "1")
	v.has(t, "Server error: GET /other → 500")
	v.press(t, "j", "a")
	v.sees(t, "the tag of the alert", `document.querySelector('.rows [role=row][tabindex="0"] .tag')?.textContent === "acknowledged"`)
	v.press(t, "c")
	v.sees(t, "open alerts only", `document.querySelectorAll(".rows [role=row]").length === 2`)

	v.press(t, "4")
	v.sees(t, "the form", `document.querySelector("main input[name=pattern]")`)
	for _, rule := range []string{"websocket closed", "<script>"} {
		chromium.Eval[bool](t, v.Tab, fmt.Sprintf(`(document.querySelector("main input[name=pattern]").value = %q, document.querySelector("main form button").click(), true)`, rule))
		v.sees(t, "the rule", fmt.Sprintf(`[...document.querySelectorAll("th.pattern")].some(e => e.textContent === %q)`, rule))
	}
	v.click(t, `[aria-label="Remove the rule <script>"]`)
	v.sees(t, "one rule", `document.querySelectorAll("th.pattern").length === 1`)
}

// TestPageToken checks that changes need the token, reads do not, and the page asks for it once.
func TestPageToken(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	bus := e2etest.Up(t, "--token=s3cret")
	needsPage(t, bus.DashboardURL)
	v := view(browser, t, bus.DashboardURL+"/#/silences")
	v.live(t, "websocket")
	add := func(rule string) {
		chromium.Eval[bool](t, v.Tab, fmt.Sprintf(`(document.querySelector("main input[name=pattern]").value = %q, document.querySelector("main form button").click(), true)`, rule))
	}
	token := func(token string) {
		v.sees(t, "the token dialog", `document.querySelector("dialog[open] input[type=password]")`)
		chromium.Eval[bool](t, v.Tab, fmt.Sprintf(`(document.querySelector("dialog input").value = %q, document.querySelector("dialog button[type=submit]").click(), true)`, token))
	}
	v.sees(t, "the form", `document.querySelector("main input[name=pattern]")`)
	add("one")
	token("guessed")
	v.sees(t, "the error about the token", `document.querySelector("dialog")?.textContent.includes("The token is not valid")`)
	token("s3cret")
	v.sees(t, "the rule", `[...document.querySelectorAll("th.pattern")].some(e => e.textContent === "one")`)
	add("two")
	v.sees(t, "the second rule without a dialog", `[...document.querySelectorAll("th.pattern")].some(e => e.textContent === "two")`)
	if kept := chromium.Eval[bool](t, v.Tab, `JSON.stringify(localStorage).includes("s3cret") || document.cookie !== ""`); kept {
		t.Error("a script can read the token or a cookie, want neither")
	}
}

// TestPageFallsBackToTheEventStream checks that the page reads the event stream while
// the websocket is closed, and the websocket when it is possible again. No alert is
// missing or shown twice.
func TestPageFallsBackToTheEventStream(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	sys := e2etest.Start(t)
	needsPage(t, sys.Bus.DashboardURL)
	v := view(browser, t, sys.Bus.DashboardURL)
	v.live(t, "websocket")
	v.click(t, `.list-options button:nth-child(2)`) // without groups
	n := 0
	raise := func(more int) {
		for range more {
			n++
			unauthorised(t, sys, n)
		}
	}
	raise(3)
	chromium.Eval[bool](t, v.Tab, `(noSockets = true, sockets.forEach(s => s.close()), true)`)
	raise(3)
	v.live(t, "event stream")
	raise(3)
	v.sees(t, "nine rows", `document.querySelectorAll(".rows [role=row]").length === 9`)
	chromium.Eval[bool](t, v.Tab, `(noSockets = false, true)`)
	raise(3)
	v.live(t, "websocket")
	raise(3)
	same(t, v, sys.Bus, 15)
}

// unauthorised raises the n-th warning. Warnings do not count for error spikes.
func unauthorised(t *testing.T, sys *e2etest.System, n int) {
	t.Helper()
	sys.PostEvents(t, map[string]any{"kind": "network", "app": "web", "network": map[string]any{"method": "GET", "url": fmt.Sprintf("/page%c", 'a'+n), "status": 401}})
}

// same waits until the list has the stored alerts, each once and in order.
func same(t *testing.T, v *viewer, b *harness.Bus, n int) {
	t.Helper()
	var got, want []string
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		got, want = v.ids(t), stored(t, b)
		return len(want) == n && slices.Equal(got, want)
	}) {
		t.Errorf("the page has %d alerts, the bus %d, want %d\n%v\n%v", len(got), len(want), n, got, want)
	}
}

// TestPageOverRestarts restarts the bus on another websocket port, and then with an empty
// store. The page reconnects each time and shows every alert once.
func TestPageOverRestarts(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	dir, at := t.TempDir(), fmt.Sprintf("--dashboard-addr=127.0.0.1:%d", e2etest.FreePort(t))
	b := e2etest.UpIn(t, dir, at)
	needsPage(t, b.DashboardURL)
	v := view(browser, t, b.DashboardURL)
	v.live(t, "websocket")
	v.click(t, `.list-options button:nth-child(2)`)
	n := 0
	raise := func(b *harness.Bus, more int) {
		for range more {
			n++
			unauthorised(t, &e2etest.System{Bus: b}, n)
		}
	}
	raise(b, 5)
	same(t, v, b, 5)

	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	e2etest.CheckLog(t, b.Log)
	v.sees(t, "the label Disconnected", `document.querySelector(".live.off")?.textContent.includes("Disconnected")`)
	v.sees(t, "the banner about the disconnection", `document.querySelector(".banner")?.textContent.includes("Disconnected since")`)
	if got := len(v.ids(t)); got != 5 {
		t.Errorf("alerts on the page while disconnected = %d, want 5", got)
	}
	before := b.NATSWSURL
	b = e2etest.UpIn(t, dir, at)
	raise(b, 3)
	v.live(t, "websocket")
	if b.NATSWSURL == before {
		t.Logf("the websocket got the same port %s again by chance", before)
	}
	raise(b, 3)
	same(t, v, b, 11)

	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	e2etest.CheckLog(t, b.Log)
	b = e2etest.UpIn(t, t.TempDir(), at)
	v.live(t, "websocket")
	raise(b, 2)
	same(t, v, b, 2)
	v.sees(t, "the banner about the new store", `document.querySelector(".banner")?.textContent.includes("new store")`)
}

// TestPageShowsHostileText checks that all text of alerts is text on the page, even
// from a publisher that does not sanitize it.
func TestPageShowsHostileText(t *testing.T) {
	t.Parallel()
	browser := chromium.Start(t)
	b := e2etest.Up(t)
	needsPage(t, b.DashboardURL)
	js := publisher(t, b)
	hostile := map[string]string{ // as published, and as shown
		`<img src=x onerror="document.title='owned'">`:  `<img src=x onerror="document.title='owned'">`,
		`<script>document.title='owned'</script>`:       `<script>document.title='owned'</script>`,
		`"><svg onload=alert(1)><iframe srcdoc="<p>x">`: `"><svg onload=alert(1)><iframe srcdoc="<p>x">`,
		"\x1b[31mred\x1b[0m \u009b31m bell\a":           "␛[31mred␛[0m \\u009b31m bell␇",
		"\u202egpj.exe\u202c \u2066iso\u2069\u200f":     "gpj.exe iso",
		"a\nb\tc\r":                   "a␊b␉c␍",
		"ze\u200bro \U000e0041\ufeff": "zero ",
		`{{constructor.constructor("alert(1)")()}} ${7*7} %n`: `{{constructor.constructor("alert(1)")()}} ${7*7} %n`,
		"__proto__":               "__proto__",
		strings.Repeat("W", 5000): strings.Repeat("W", 199) + "…",
		strings.Repeat("ه", 300) + "\u0300" + "مرحبا": strings.Repeat("ه", 199) + "…",
		"javascript:document.title='owned'":           "javascript:document.title='owned'",
	}
	n := 0
	for text := range hostile {
		for _, category := range []string{"errors", "ci", text} {
			n++
			publish(t, js, map[string]any{
				"id": fmt.Sprintf("h%d%s", n, text[:min(20, len(text))]), "title": text, "detail": text, "app": text, "url": text, "source": text, "category": category,
				"dedup_key": fmt.Sprint(n) + text, "correlation_id": text,
				"context": map[string]any{"status": text, "ref": text, "name": text, "commit": text, text: map[string]any{text: text}, "failures": []map[string]any{{"name": text, "message": text}}},
			})
		}
	}
	for _, broken := range []string{`{`, `null`, `[]`, `{"id":7}`, `{"id":"x","severity":"fatal","timestamp":"now"}`, `"text"`} {
		if _, err := js.Publish(t.Context(), "alerts.web.errors.error", []byte(broken)); err != nil {
			t.Fatal(err)
		}
	}
	v := view(browser, t, b.DashboardURL)
	v.live(t, "websocket")
	for turn := range 2 { // read from the store, and live
		v.sees(t, "the number of all alerts", fmt.Sprintf(`document.querySelector(".foot")?.textContent.includes("of %d alerts")`, n+turn*len(hostile)))
		all := v.titles(t)
		for _, shown := range hostile {
			if !slices.Contains(all, shown) {
				t.Errorf("titles = %q, want %q among them", all, shown)
			}
		}
		for text := range hostile {
			publish(t, js, map[string]any{"id": "live" + text[:min(20, len(text))], "title": text, "dedup_key": "live" + text})
		}
	}
	v.press(t, "j", kb.Enter)
	for range n {
		v.press(t, "k", "j", "j") // the details of each
	}
	v.press(t, kb.Escape)
	for _, key := range []string{"2", "3", "4", "5", "6", "1"} {
		v.press(t, key)
		v.sees(t, "a view", `document.querySelector("main").children.length > 0`)
	}
	chromium.Eval[bool](t, v.Tab, `new Promise(done => setTimeout(done, 300, true))`)
	if got := chromium.Eval[string](t, v.Tab, `document.title`); got != "Alerts · Tocsin" {
		t.Errorf("title = %q, want %q", got, "Alerts · Tocsin")
	}
	if got := chromium.Eval[int](t, v.Tab, `document.querySelectorAll("#page img, #page script, #page iframe, #page svg:not(.shape), #page a[href^='javascript'], #page [onerror], #page [onload]").length`); got != 0 {
		t.Errorf("elements from text of alerts = %d, want 0", got)
	}
	if over := chromium.Eval[int](t, v.Tab, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
		t.Errorf("the page is %d px wider than the window, want 0", over)
	}
}
