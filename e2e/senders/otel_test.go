package senders

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// stored returns the events of a kind that the agent can see, oldest first.
func stored(t *testing.T, sys *e2etest.System, what string) []telemetry.Event {
	t.Helper()
	var events []telemetry.Event
	entries, _, err := sys.Agent.ObserveAll(t.Context(), what, map[string]any{"limit": 200})
	if err != nil {
		return nil // a busy machine: the detector did not answer in time
	}
	for _, entry := range slices.Backward(entries) {
		var e telemetry.Event
		if err := json.Unmarshal(entry, &e); err != nil {
			t.Fatalf("decode an event: %v: %s", err, entry)
		}
		events = append(events, e)
	}
	return events
}

// TestOpenTelemetryForGo runs the SDK for Go as an app uses it: traces, logs and
// metrics over OTLP/HTTP with gzip, and HTTP instrumented on both sides.
func TestOpenTelemetryForGo(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	ctx := t.Context()
	ends := sys.Bus.IngestURL + "/v1/"
	of := resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.String("service.instance.id", "shop-1"))

	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(ends+"traces"), otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	e2etest.NoError(t, err)
	lines, err := otlploghttp.New(ctx, otlploghttp.WithEndpointURL(ends+"logs"), otlploghttp.WithCompression(otlploghttp.GzipCompression))
	e2etest.NoError(t, err)
	figures, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(ends+"metrics"), otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
	e2etest.NoError(t, err)
	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(of))
	logs := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(lines)), sdklog.WithResource(of))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(figures)), sdkmetric.WithResource(of))

	sell(ctx, t, traces, logs, meters)
	e2etest.NoError(t, errors.Join(traces.Shutdown(ctx), logs.Shutdown(ctx), meters.Shutdown(ctx)))

	alerts := sys.TakeAlertsUntil(t, "GET:/api/stock/:id:500", "threshold:shop:memory:hard")
	errorTitles := titles(alerts, alert.Errors)
	if len(errorTitles) != 2 || !strings.Contains(errorTitles[0], "*errors.errorString: the card could not be read") || !strings.Contains(errorTitles[1], "order A-<n> was lost") {
		t.Errorf("errors: %q, want one with \"*errors.errorString: the card could not be read\", then one with \"order A-<n> was lost\"", errorTitles)
	}
	failed := alerts["GET:/api/stock/:id:500"]
	if failed.App != "shop" || failed.Title != "Server error: GET /api/stock/:id → 500" || failed.Severity != alert.Error || failed.Occurrences() != 2 {
		t.Errorf("got %+v, want App \"shop\", Title \"Server error: GET /api/stock/:id → 500\", Severity %v and Occurrences 2", failed, alert.Error) // by the client and by the server
	}
	if len(alerts) != 4 {
		t.Errorf("%d alerts: %q, want 4", len(alerts), slices.Sorted(maps.Keys(alerts)))
	}
	requests := stored(t, sys, "network")
	if len(requests) != 4 {
		t.Fatalf("%d requests: %s, want 4", len(requests), sys.Observe(t, map[string]any{"what": "network"}).First)
	}
	for _, e := range requests {
		if e.Session != "shop-1" || e.Network.DurationMS <= 0 || e.Time.IsZero() || !strings.HasPrefix(e.Network.URL, "http://127.0.0.1:") {
			t.Errorf("got %+v of %+v, want session shop-1, a duration, a time and a URL of 127.0.0.1", e.Network, e)
		}
	}
	for _, e := range stored(t, sys, "logs") {
		switch {
		case e.Log.Message == "stock of kettles is low":
			if e.Log.Level != telemetry.LevelWarn || len(e.Log.Args) != 1 || e.Log.Args[0].(map[string]any)["left"] != 2.0 {
				t.Errorf("got %+v, want level %s and args [map[left:2]]", e.Log, telemetry.LevelWarn)
			}
		case strings.HasPrefix(e.Log.Message, "*errors.errorString") && !strings.Contains(e.Log.Stack, "otel_test.go"):
			t.Errorf("got %+v, want otel_test.go in Stack", e.Log)
		}
	}
}

// sell does what the test then checks.
func sell(ctx context.Context, t *testing.T, traces trace.TracerProvider, logs log.LoggerProvider, meters metric.MeterProvider) {
	t.Helper()
	shop := httptest.NewServer(otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/stock") {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}), "shop", otelhttp.WithTracerProvider(traces)))
	defer shop.Close()
	client := &http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport, otelhttp.WithTracerProvider(traces))}
	for _, path := range []string{"/api/stock/7?colour=red", "/home"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, shop.URL+path, http.NoBody)
		e2etest.NoError(t, err)
		resp, err := client.Do(req)
		e2etest.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		e2etest.NoError(t, errors.Join(err, resp.Body.Close()))
	}

	_, span := traces.Tracer("shop").Start(ctx, "checkout")
	err := errors.New("the card could not be read")
	span.RecordError(err, trace.WithStackTrace(true))
	span.SetStatus(codes.Error, err.Error())
	span.End()

	for _, l := range []struct {
		severity log.Severity
		text     string
	}{{log.SeverityWarn, "stock of kettles is low"}, {log.SeverityError, "order A-1 was lost"}} {
		var r log.Record
		r.SetTimestamp(time.Now())
		r.SetSeverity(l.severity)
		r.SetBody(attribute.StringValue(l.text))
		r.AddAttributes(attribute.Int("left", 2))
		logs.Logger("shop").Emit(ctx, r)
	}

	meter := meters.Meter("shop")
	used, err := meter.Int64UpDownCounter("container.memory.usage", metric.WithUnit("By"))
	e2etest.NoError(t, err)
	limit, err := meter.Int64Gauge("container.memory.limit", metric.WithUnit("By"))
	e2etest.NoError(t, err)
	used.Add(ctx, 950<<20)
	limit.Record(ctx, 1000<<20)
}

// titles returns those of a category, in order.
func titles(alerts map[string]alert.Alert, c alert.Category) []string {
	var all []string
	for _, a := range alerts {
		if a.Category == c {
			all = append(all, a.Title)
		}
	}
	slices.Sort(all)
	return all
}

// TestOpenTelemetryForNode runs the SDK for Node, which is configured by its
// environment only: with the defaults, and in each encoding.
func TestOpenTelemetryForNode(t *testing.T) {
	t.Parallel()
	dir := e2etest.NodeModules(t, "otel")
	e2etest.NeedNode(t, 20)
	for name, env := range map[string][]string{
		"as it is":       nil,
		"in JSON":        {"OTEL_EXPORTER_OTLP_PROTOCOL=http/json"},
		"protobuf, gzip": {"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			sys := e2etest.Start(t)
			node := exec.CommandContext(t.Context(), "node", "shop.mjs")
			node.Dir = dir
			node.Env = append(append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+sys.Bus.IngestURL, "OTEL_SERVICE_NAME=shop"), env...)
			if out, err := node.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("node shop.mjs: %v, want no error and no output, got\n%s", err, out)
			}
			alerts := sys.TakeAlertsUntil(t, "GET:/api/stock/:id:500", "GET:/parcels:0")
			errorTitles := titles(alerts, alert.Errors)
			if len(errorTitles) != 2 || !strings.Contains(errorTitles[0], "RangeError: order A-<n> was lost") || !strings.Contains(errorTitles[1], "TypeError: the card could not be read") {
				t.Errorf("errors: %q, want one with \"RangeError: order A-<n> was lost\", then one with \"TypeError: the card could not be read\"", errorTitles)
			}
			if failed := alerts["GET:/parcels:0"]; failed.App != "shop" || !strings.Contains(failed.Detail, "ECONNREFUSED") {
				t.Errorf("got %+v, want App \"shop\" and \"ECONNREFUSED\" in Detail", failed)
			}
			if len(alerts) != 4 {
				t.Errorf("%d alerts: %q, want 4", len(alerts), slices.Sorted(maps.Keys(alerts)))
			}
			if requests := stored(t, sys, "network"); len(requests) != 5 { // two on both sides
				t.Errorf("%d requests, want 5", len(requests))
			}
			for _, e := range stored(t, sys, "logs") {
				if e.Log.Level == telemetry.LevelError && !strings.Contains(e.Log.Stack, "shop.mjs") {
					t.Errorf("got %+v, want shop.mjs in Stack", e.Log)
				}
			}
		})
	}
}

// TestOpenTelemetryToTheDefaultPort checks an exporter without a configured endpoint.
func TestOpenTelemetryToTheDefaultPort(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	if sys.Bus.OTLPURL == "" || sys.Bus.OTLPURL == sys.Bus.IngestURL {
		t.Fatalf("got %+v, want a OTLPURL and OTLPURL other than %v", sys.Bus.Runtime, sys.Bus.IngestURL)
	}
	lines, err := otlploghttp.New(t.Context(), otlploghttp.WithEndpointURL(sys.Bus.OTLPURL+"/v1/logs"))
	e2etest.NoError(t, err)
	logs := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(lines)))
	var r log.Record
	r.SetSeverity(log.SeverityFatal)
	r.SetBody(attribute.StringValue("order A-1 was lost"))
	logs.Logger("shop").Emit(t.Context(), r)
	e2etest.NoError(t, logs.Shutdown(t.Context()))
	if a := sys.TakeAlerts(t, 1)[0]; a.Detail != "order A-1 was lost" || !strings.HasPrefix(a.App, "unknown_service:") {
		t.Errorf("got %+v, want Detail \"order A-1 was lost\" and App that begins with \"unknown_service:\"", a)
	}
}
