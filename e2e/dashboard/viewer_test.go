package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/chromium"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// viewer drives the dashboard in a tab.
type viewer struct{ *chromium.Tab }

// beforePage runs before the page's scripts: it records errors and policy violations, and lets
// a test close websockets and keep them closed.
const beforePage = `
	window.wrong = [];
	addEventListener("securitypolicyviolation", e => wrong.push("policy: " + e.effectiveDirective + " " + e.blockedURI + " " + e.sample));
	addEventListener("error", e => wrong.push("error: " + e.message));
	addEventListener("unhandledrejection", e => wrong.push("rejection: " + e.reason));
	window.sockets = [];
	window.noSockets = false;
	window.WebSocket = class extends WebSocket {
		constructor(...args) {
			super(...args);
			sockets.push(this);
			if (noSockets) this.close();
		}
	};`

// needsPage skips the test if the binary was built without the page.
func needsPage(t *testing.T, dashboard string) {
	t.Helper()
	if a := e2etest.Get(t, dashboard+"/"); a.Status == http.StatusOK && strings.Contains(a.Body, "built without") {
		t.Skip("the binary has no page: run make page, which needs Node")
	}
}

// view opens the dashboard in a new tab.
func view(browser context.Context, t *testing.T, url string) *viewer {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800)); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: beforePage}); err != nil {
		t.Fatal(err)
	}
	v := &viewer{&chromium.Tab{Ctx: ctx, Close: cancel}}
	t.Cleanup(func() { v.fine(t) })
	v.Do(t, chromedp.Navigate(url))
	return v
}

// fine fails the test if the browser recorded errors or policy violations.
func (v *viewer) fine(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(v.Ctx, 5*time.Second)
	defer cancel()
	wrong, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`window.wrong`))
	if err == nil && len(wrong) > 0 {
		t.Errorf("errors and policy violations in the browser = %q, want none", wrong)
	}
}

// sees waits until an expression is true.
func (v *viewer) sees(t *testing.T, what, expression string) {
	t.Helper()
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { return chromium.Eval[bool](t, v.Tab, `Boolean(`+expression+`)`) }) {
		t.Fatalf("the page after 20s lacks %s, want it:\n%s", what, chromium.Eval[string](t, v.Tab, `document.body.innerText`))
	}
}

// press presses keys one after the other.
func (v *viewer) press(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		v.Do(t, chromedp.KeyEvent(key))
	}
}

func (v *viewer) click(t *testing.T, selector string) {
	t.Helper()
	v.sees(t, selector, fmt.Sprintf(`document.querySelector(%q)`, selector))
	chromium.Eval[bool](t, v.Tab, fmt.Sprintf(`(document.querySelector(%q).click(), true)`, selector))
}

// button clicks the button with a label.
func (v *viewer) button(t *testing.T, label string) {
	t.Helper()
	found := fmt.Sprintf(`[...document.querySelectorAll("dialog button, dialog label, button, label")].find(b => b.textContent.trim() === %q)`, label)
	v.sees(t, label, found)
	chromium.Eval[bool](t, v.Tab, `(`+found+`.click(), true)`)
}

// ids returns the ids of the alerts in the list, titles their titles.
func (v *viewer) ids(t *testing.T) []string { t.Helper(); return v.lines(t, `row.dataset.id`) }

func (v *viewer) titles(t *testing.T) []string {
	t.Helper()
	return v.lines(t, `row.querySelector(".title").textContent`)
}

// lines scrolls through the list, because the document has only its visible rows.
func (v *viewer) lines(t *testing.T, what string) []string {
	t.Helper()
	return chromium.Eval[[]string](t, v.Tab, `(async () => {
		const list = document.querySelector(".rows");
		if (list === null) return [];
		const seen = new Map();
		const note = () => {
			for (const row of list.querySelectorAll("[role=row]")) seen.set(Number(row.getAttribute("aria-rowindex")), `+what+`);
		};
		const back = list.scrollTop;
		for (let top = 0; ; top += list.clientHeight / 2) {
			list.scrollTop = top;
			await new Promise(done => requestAnimationFrame(() => setTimeout(done, 20)));
			note();
			if (top >= list.scrollHeight - list.clientHeight) break;
		}
		list.scrollTop = back;
		return [...seen].sort((a, b) => a[0] - b[0]).map(([, text]) => text);
	})()`)
}

const shownTitles = `[...document.querySelectorAll(".rows .title")].map(e => e.textContent)`

// has waits until a title is in the list.
func (v *viewer) has(t *testing.T, title string) {
	t.Helper()
	v.sees(t, title, fmt.Sprintf(`%s.includes(%q)`, shownTitles, title))
}

// live waits until alerts arrive by a transport.
func (v *viewer) live(t *testing.T, transport string) {
	t.Helper()
	v.sees(t, "the label live over the "+transport, fmt.Sprintf(`document.querySelector(".live.on")?.textContent.includes(%q)`, transport))
}

// scheme makes the browser prefer light or dark.
func (v *viewer) scheme(t *testing.T, name string) {
	t.Helper()
	if _, err := chromedp.Call(v.Ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	}); err != nil {
		t.Fatal(err)
	}
}

// publisher publishes alerts as a detector does, or anyone with its key.
func publisher(t *testing.T, b *harness.Bus) jetstream.JetStream {
	t.Helper()
	auth, err := nats.NkeyOptionFromSeed(statedir.At(b.StateDir).Credential(string(bus.RoleDetector)))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(b.NATSURL, auth, nats.CustomInboxPrefix("_INBOX_detector"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func publish(t *testing.T, js jetstream.JetStream, fields map[string]any) {
	t.Helper()
	a := map[string]any{
		"severity": "error", "category": "errors", "title": "an alert", "detail": "", "timestamp": alert.FormatTime(time.Now()),
		"source": "error_tracker", "app": "web", "url": "", "context": map[string]any{}, "dedup_key": fields["id"], "correlation_id": fields["id"],
	}
	for name, value := range fields {
		a[name] = value
	}
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "alerts.web.errors.error", Data: data}); err != nil {
		t.Fatal(err)
	}
}

// stored returns the ids of the alerts on the bus, the newest first.
func stored(t *testing.T, b *harness.Bus) []string {
	t.Helper()
	var page struct {
		Alerts []struct{ Alert struct{ ID, Revises string } }
	}
	if err := e2etest.Get(t, b.DashboardURL+"/api/alerts?limit=1000").JSON(&page); err != nil {
		t.Fatal(err)
	}
	ids := make([]string, 0, len(page.Alerts))
	for _, a := range page.Alerts {
		ids = append(ids, a.Alert.ID)
	}
	return ids
}
