package senders

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	raised "github.com/prometheus/alertmanager/alert"
	amcommon "github.com/prometheus/alertmanager/config/common"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/notify/webhook"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// notifier is Alertmanager's own sender of webhooks.
type notifier struct{ *webhook.Notifier }

func newNotifier(t *testing.T, ingest string, maxAlerts uint64) notifier {
	t.Helper()
	tmpl, err := template.FromGlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	if tmpl.ExternalURL, err = url.Parse("http://alertmanager.example"); err != nil {
		t.Fatal(err)
	}
	http := config.DefaultHTTPClientConfig
	http.EnableHTTP2 = false
	n, err := webhook.New(&webhook.WebhookConfig{
		URL: amcommon.SecretTemplateURL(ingest + "/webhooks/alertmanager"), HTTPConfig: &http, MaxAlerts: maxAlerts,
	}, tmpl, slog.New(slog.DiscardHandler), config.WithKeepAlivesDisabled())
	if err != nil {
		t.Fatal(err)
	}
	return notifier{n}
}

// send sends a group and reports whether Alertmanager would retry.
func (n notifier) send(t *testing.T, alerts ...*raised.Alert) (retry bool, err error) {
	t.Helper()
	ctx := notify.WithGroupKey(t.Context(), `{}:{alertname="HighErrorRate"}`)
	ctx = notify.WithGroupLabels(ctx, model.LabelSet{"alertname": "HighErrorRate"})
	ctx = notify.WithReceiverName(notify.WithNow(ctx, time.Now()), "tocsin")
	return n.Notify(ctx, alerts...)
}

func (n notifier) must(t *testing.T, alerts ...*raised.Alert) {
	t.Helper()
	if retry, err := n.send(t, alerts...); err != nil || retry {
		t.Fatalf("send: retry %v, error %v, want neither", retry, err)
	}
}

// firing returns an alert of the app that has been firing since a time.
func firing(app, severity string, since time.Time) *raised.Alert {
	return &raised.Alert{Alert: model.Alert{
		Labels:      model.LabelSet{"alertname": "HighErrorRate", "severity": model.LabelValue(severity), "app": model.LabelValue(app)},
		Annotations: model.LabelSet{"summary": "too many errors", "description": model.LabelValue("of " + app)},
		StartsAt:    since, EndsAt: since.Add(time.Hour), GeneratorURL: "http://prometheus.example/graph?g0.expr=up",
	}, UpdatedAt: since}
}

// TestAlertmanagerNotifier checks that each change of each alert of a group is
// delivered once.
func TestAlertmanagerNotifier(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	n := newNotifier(t, sys.Bus.IngestURL, 2)
	sys.Call(t, "configure_streaming", map[string]any{"action": "enable", "events": []string{"errors"}, "throttle_seconds": 1})
	since := time.Now().Add(-time.Minute)
	checkout, cart, third := firing("checkout", "critical", since), firing("cart", "warning", since), firing("search", "info", since)

	n.must(t, checkout)
	delivered := sys.NextNotification(t, 10*time.Second)
	if delivered.Level != "error" || delivered.Data.Category != "threshold" || delivered.Data.Source != "alertmanager" || delivered.Data.Title != "Alert firing: HighErrorRate on checkout" {
		t.Fatalf("got %+v, want Level \"error\", Category \"threshold\", Source \"alertmanager\" and Title \"Alert firing: HighErrorRate on checkout\"", delivered)
	}
	a := sys.TakeAlerts(t, 1)[0]
	key := "alertmanager:" + checkout.Fingerprint().String() + ":firing"
	if a.App != "checkout" || a.Severity != alert.Error || a.DedupKey != key || a.URL != checkout.GeneratorURL || a.Detail != "too many errors; of checkout" ||
		a.Context["state"] != "firing" || a.Context["severity"] != "critical" || a.Context["receiver"] != "tocsin" || a.Context["starts_at"] != alert.FormatTime(since) {
		t.Fatalf("got %+v, want App \"checkout\", Severity %v, DedupKey %v, URL %v, Detail \"too many errors; of checkout\", Context[\"state\"] \"firing\", Context[\"severity\"] \"critical\", Context[\"receiver\"] \"tocsin\" and Context[\"starts_at\"] %v", a, alert.Error, key, checkout.GeneratorURL, alert.FormatTime(since))
	}
	if group, _ := a.Context["group"].(map[string]any); len(group) != 1 || group["alertname"] != "HighErrorRate" {
		t.Fatalf("group %v, want map[alertname:HighErrorRate]", a.Context["group"])
	}

	// The group grows past max_alerts, and is sent twice.
	for range 3 {
		n.must(t, checkout, cart, third)
	}
	a = sys.TakeAlerts(t, 1)[0]
	if a.App != "cart" || a.Severity != alert.Warning || a.Count > 1 || !strings.HasSuffix(a.Detail, "; alertmanager left out more alerts of this group: 1") {
		t.Fatalf("got %+v, want App \"cart\", Severity %v, Count of at most 1 and Detail that ends with \"; alertmanager left out more alerts of this group: 1\"", a, alert.Warning)
	}

	// One alert is resolved, then all are, and it starts again.
	over := *checkout
	over.EndsAt = time.Now().Add(-time.Second)
	n.must(t, &over, cart)
	n.must(t, &over, cart)
	a = sys.TakeAlerts(t, 1)[0]
	if a.Title != "Alert resolved: HighErrorRate on checkout" || a.Severity != alert.Info || !strings.HasSuffix(a.DedupKey, ":resolved") || a.Count > 1 ||
		a.Context["ends_at"] != alert.FormatTime(over.EndsAt) {
		t.Fatalf("got %+v, want Title \"Alert resolved: HighErrorRate on checkout\", Severity %v, DedupKey that ends with \":resolved\", Count of at most 1 and Context[\"ends_at\"] %v", a, alert.Info, alert.FormatTime(over.EndsAt))
	}
	n.must(t, firing("checkout", "critical", time.Now()))
	if a = sys.TakeAlerts(t, 1)[0]; a.DedupKey != key || a.Count > 1 {
		t.Fatalf("got %+v, want DedupKey %v and Count of at most 1", a, key)
	}
	sys.WaitReceived(t, 12) // with those that only revise
	if o := sys.Observe(t, nil); o.Block != "" {
		t.Fatalf("observe returned %s, want no alert a second time", o.Block)
	}
}

// TestAlertmanagerIsRefused checks what is refused, and whether Alertmanager retries.
func TestAlertmanagerIsRefused(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	long := firing(strings.Repeat("x", 100), "page", time.Now())
	for i := range 11 {
		long.Annotations[model.LabelName("a"+string(rune('a'+i)))] = model.LabelValue(strings.Repeat("x", 100<<10))
	}
	retry, err := newNotifier(t, sys.Bus.IngestURL, 0).send(t, long)
	if retry || err == nil || !strings.Contains(err.Error(), "413") {
		t.Errorf("a message that is too large: retry %v, error %v, want no retry and 413", retry, err)
	}
	if err := sys.Bus.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if retry, err := newNotifier(t, sys.Bus.IngestURL, 0).Notify(notify.WithGroupKey(ctx, "k"), long); !retry || err == nil {
		t.Errorf("away: retry %v, %v, want retry and an error", retry, err)
	}
}
