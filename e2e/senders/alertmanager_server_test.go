package senders

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// alertmanagerYML is the configuration in docs/senders/alertmanager.md.
const alertmanagerYML = `route:
  receiver: tocsin
receivers:
  - name: tocsin
    webhook_configs:
      - url: http://127.0.0.1:7400/webhooks/alertmanager
        max_alerts: 500
        http_config: # where TOCSIN_TOKEN is set
          authorization:
            credentials: the value of TOCSIN_TOKEN`

// buildWithin bounds the build of Alertmanager.
const buildWithin = 5 * time.Minute

// alertmanagerBinary builds Alertmanager from the module that this one requires. The
// module has no files of its web interface, which are built separately and embedded: an
// empty page takes their place. The test is skipped where its dependencies are missing.
func alertmanagerBinary(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildWithin)
	defer cancel()
	from, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/alertmanager").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(strings.TrimSpace(string(from)))); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "ui", "app", "dist", "index.html")
	if err := os.MkdirAll(filepath.Dir(page), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	offline := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		return cmd.CombinedOutput()
	}
	if out, err := offline("list", "-deps", "./cmd/alertmanager"); err != nil {
		t.Skipf("the modules that Alertmanager needs are not to be had: %v\n%s", err, out)
	}
	bin := filepath.Join(dir, "alertmanager.bin")
	// The folder differs each time. With -trimpath the build is found in the cache
	// anyway.
	if out, err := offline("build", "-trimpath", "-o", bin, "./cmd/alertmanager"); err != nil {
		t.Fatalf("build Alertmanager: %v\n%s", err, out)
	}
	return bin
}

// startAlertmanager starts it with a configuration and returns its URL.
func startAlertmanager(t *testing.T, config string) string {
	t.Helper()
	bin, dir := alertmanagerBinary(t), t.TempDir()
	file := filepath.Join(dir, "alertmanager.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, log := fmt.Sprintf("127.0.0.1:%d", e2etest.FreePort(t)), &harness.Log{}
	cmd := exec.Command(bin, "--config.file="+file, "--storage.path="+dir, "--web.listen-address="+addr, "--cluster.listen-address=")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // nothing of it is kept
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("alertmanager:\n%s", log)
		}
	})
	url := "http://" + addr
	if !harness.Poll(t.Context(), 30*time.Second, func() bool { return e2etest.Get(t, url+"/-/ready").Status == http.StatusOK }) {
		t.Fatalf("timed out waiting for Alertmanager:\n%s", log)
	}
	return url
}

// raise posts alerts to Alertmanager's API, as Prometheus does.
func raise(t *testing.T, url, alerts string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v2/alerts", strings.NewReader(alerts))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if a, err := harness.Do(req); err != nil || a.Status != http.StatusOK {
		t.Fatalf("%v: got %d %s, want Status 200", err, a.Status, a.Body)
	}
}

// lossy is a proxy before an ingest service, and counts the messages that ingest accepted.
// It refuses the first; it loses the answer to the second and sends a 503 instead.
func lossy(t *testing.T, ingestURL string) (url string, taken func() int64) {
	t.Helper()
	var came, ok atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := came.Add(1)
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		on, err := http.NewRequestWithContext(r.Context(), r.Method, ingestURL+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		on.Header = r.Header.Clone()
		a, err := harness.Do(on)
		if err != nil || a.Status != http.StatusOK {
			t.Errorf("%v: got %d %s, want Status 200", err, a.Status, a.Body)
			return
		}
		if n == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		ok.Add(1)
		w.WriteHeader(a.Status)
		_, _ = io.WriteString(w, a.Body) // it may have given up
	}))
	t.Cleanup(s.Close)
	return s.URL, ok.Load
}

// TestAlertmanager runs Alertmanager as docs/senders/alertmanager.md describes, except
// for the addresses, the token and the repeat interval. Each of its alerts reaches the
// agent once, also if it is repeated, or an answer is lost on the way.
func TestAlertmanager(t *testing.T) {
	t.Parallel()
	if page := e2etest.Page(t, "docs/senders/alertmanager.md"); !strings.Contains(page, alertmanagerYML) {
		t.Errorf("docs/senders/alertmanager.md lacks the configuration of this test, want it there:\n%s", alertmanagerYML)
	}
	const token = "a-token-of-ours"
	b, err := harness.Up(t.Context(), e2etest.Binary(t), t.TempDir(), "--token="+token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("tocsin up ended with %v, want no error\n%s", err, b.Log)
		}
		e2etest.CheckLog(t, b.Log)
	})
	sys := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "e2e")}
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "events": []string{"errors"}, "severity_min": "info", "throttle_seconds": 1})
	front, taken := lossy(t, b.IngestURL)
	am := startAlertmanager(t, strings.NewReplacer(
		"http://127.0.0.1:7400", front, "the value of TOCSIN_TOKEN", token,
		"receiver: tocsin\n", "receiver: tocsin\n  group_wait: 100ms\n  group_interval: 200ms\n  repeat_interval: 200ms\n",
	).Replace(alertmanagerYML))

	const checkout = `{"labels":{"alertname":"HighErrorRate","severity":"critical","service":"checkout"},
		"annotations":{"summary":"5% of requests fail","runbook_url":"https://runbooks.example/errors"},
		"startsAt":"2026-01-28T14:30:00Z","generatorURL":"http://prometheus.example/graph"`
	const cart = `{"labels":{"alertname":"SlowQueries","job":"cart"}`
	raise(t, am, "["+checkout+"},"+cart+"}]")
	output := map[string]alert.Alert{}
	for _, a := range sys.TakeAlerts(t, 2) {
		output[a.Title] = a
	}
	a := output["Alert firing: HighErrorRate on checkout"]
	if a.Severity != alert.Error || a.App != "checkout" || a.Source != alert.SourceAlertmanager || a.Category != alert.Threshold || a.Count > 1 ||
		a.Detail != "5% of requests fail" || a.URL != "http://prometheus.example/graph" || a.Context["runbook_url"] != "https://runbooks.example/errors" ||
		a.Context["starts_at"] != "2026-01-28T14:30:00.000Z" {
		t.Fatalf("got %+v, want Severity %v, App \"checkout\", Source %v, Category %v, Count of at most 1, Detail \"5%% of requests fail\", URL \"http://prometheus.example/graph\", Context[\"runbook_url\"] \"https://runbooks.example/errors\" and Context[\"starts_at\"] \"2026-01-28T14:30:00.000Z\"", output, alert.Error, alert.SourceAlertmanager, alert.Threshold)
	}
	if a := output["Alert firing: SlowQueries on cart"]; a.Severity != alert.Warning || a.App != "cart" || a.Count > 1 {
		t.Fatalf("got %+v, want Severity %v, App \"cart\" and Count of at most 1", output, alert.Warning)
	}
	if n := sys.NextNotification(t, 10*time.Second); n.Data.Category != "threshold" && n.Data.Category != "batch" {
		t.Fatalf("notification %+v, want category threshold or batch", n)
	}

	// It repeats them again and again. Then one of the two is resolved.
	delivered := taken()
	if !harness.Poll(t.Context(), 30*time.Second, func() bool { return taken() >= delivered+3 }) {
		t.Fatalf("timed out waiting for repeats: %d deliveries, want %d", taken(), delivered+3)
	}
	raise(t, am, "["+checkout+`,"endsAt":"`+time.Now().UTC().Format(time.RFC3339Nano)+`"}]`)
	a = sys.TakeAlerts(t, 1)[0]
	if a.Title != "Alert resolved: HighErrorRate on checkout" || a.Severity != alert.Info || a.Count > 1 || a.Detail != "was: 5% of requests fail" {
		t.Fatalf("got %+v, want Title \"Alert resolved: HighErrorRate on checkout\", Severity %v, Count of at most 1 and Detail \"was: 5%% of requests fail\"", a, alert.Info)
	}
	delivered = taken()
	if !harness.Poll(t.Context(), 30*time.Second, func() bool { return taken() >= delivered+3 }) {
		t.Fatalf("timed out waiting for repeats: %d deliveries, want %d", taken(), delivered+3)
	}
	if o := sys.Observe(t, nil); o.Block != "" {
		t.Fatalf("observe returned %s, want no alert a second time", o.Block)
	}
}
