package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/containers"
)

// results checks that the newest CI results are stored, each once.
func (r *rig) results(t *testing.T) {
	blocks, err := r.agent.session.Call(t.Context(), "observe", map[string]any{"what": "ci"})
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		CI []struct{ Commit, Name string } `json:"ci"`
	}
	if err := json.Unmarshal([]byte(blocks[0]), &reply); err != nil {
		t.Fatalf("decode %s: %v", blocks[0], err)
	}
	seen := map[string]bool{}
	for _, result := range reply.CI {
		if seen[result.Commit] {
			t.Errorf("the results have the commit %s twice, want once", result.Commit)
		}
		seen[result.Commit] = true
	}
	if len(reply.CI) == 0 {
		t.Errorf("observe ci = %s, want results", blocks[0])
	}
}

// page checks that a browser shows as many alerts as there are, and the newest of them.
func (r *rig) page(t *testing.T) {
	browser := startBrowser(t)
	all, _ := r.alerts.list()
	newest := all[len(all)-1].Alert
	at := r.Dashboard.URL(containers.PortDashboard) + "/"
	if a, err := get(t.Context(), at, ""); err != nil || strings.Contains(a.Body, "built without") {
		t.Skipf("the page is not built into the image: make page (%v)", err)
	}
	ctx, cancel := context.WithTimeout(browser, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(at),
		chromedp.SendKeys(`.sign-in input[type="password"]`, r.Token+"\r")); err != nil {
		t.Fatal(err)
	}
	text := ""
	if !harness.Poll(ctx, 30*time.Second, func() bool {
		var err error
		text, err = chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
		return err == nil && strings.Contains(text, fmt.Sprintf("of %d alerts", len(all))) && strings.Contains(text, newest.Title)
	}) {
		t.Errorf("text of the page, want \"of %d alerts\" and %q:\n%s", len(all), newest.Title, text)
	}
}

// startBrowser starts a headless Chromium.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("there is no Chromium here")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return ctx
}
