package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

const (
	// foreignBatches of batchEvents each are sent in a round by each sender.
	foreignBatches = 1000
	// foreignErrors is the number of errors with a stack, each in a request of its own.
	foreignErrors = 3000
)

// foreignRatios compares foreign formats with Tocsin's own: the same log lines in batches, and
// errors with a stack, one in each request.
func foreignRatios(ctx context.Context, m measured) ([]harness.Figure, error) {
	protobuf, json, err := otlpLogs()
	if err != nil {
		return nil, err
	}
	return m.compare(ctx,
		format{"/v1/events", payload{"/v1/events", "application/json", smallEvents()}, foreignBatches, batchEvents},
		format{"OTLP logs in protobuf, batches of 100", payload{"/v1/logs", "application/x-protobuf", protobuf}, foreignBatches, batchEvents},
		format{"OTLP logs in JSON, batches of 100", payload{"/v1/logs", "application/json", json}, foreignBatches, batchEvents},
		format{"Sentry envelopes of 100 logs", payload{"/api/1/envelope/", "application/x-sentry-envelope", sentryLogs()}, foreignBatches, batchEvents},
		format{"/v1/events, one error with a stack", payload{"/v1/events", "application/json", ownError()}, foreignErrors, 1},
		format{"Sentry envelopes of one such error", payload{"/api/1/envelope/", "application/x-sentry-envelope", sentryError()}, foreignErrors, 1},
	)
}

// format is a format and how much of it is sent in a round.
type format struct {
	name             string
	payload          payload
	requests, events int
}

// compare measures the formats in turn, and compares each with the first one that has as many
// events in a request.
func (m measured) compare(ctx context.Context, formats ...format) ([]harness.Figure, error) {
	rates := make([][]float64, len(formats))
	for range rounds {
		for i, r := range formats {
			each, err := rate(r.requests*r.events, func() error { return m.postAll(ctx, r.payload, r.requests) })
			if err != nil {
				return nil, fmt.Errorf("send %s: %w", r.name, err)
			}
			rates[i] = append(rates[i], each)
		}
	}
	own := map[int]int{}
	all := make([]harness.Figure, 0, len(formats))
	for i, r := range formats {
		first, known := own[r.events]
		if !known {
			own[r.events] = i
			continue
		}
		all = append(all, harness.Figure{What: r.name, Asked: "a ratio to " + formats[first].name, Measured: fmt.Sprintf(
			"%.2fx: %.0f events/s, %.0f", harness.Median(ratios(rates[i], rates[first])), harness.Median(rates[i]), harness.Median(rates[first]))})
	}
	return all, nil
}

// otlpLogs returns the lines of smallEvents as an OpenTelemetry collector sends them.
func otlpLogs() (protobuf, json []byte, err error) {
	logs := plog.NewLogs()
	resource := logs.ResourceLogs().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", "web")
	resource.Resource().Attributes().PutStr("service.instance.id", "s1")
	records := resource.ScopeLogs().AppendEmpty().LogRecords()
	for i := range batchEvents {
		r := records.AppendEmpty()
		r.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		r.SetSeverityNumber(plog.SeverityNumberInfo)
		r.SetSeverityText("INFO")
		r.Body().SetStr(line(i))
	}
	request := plogotlp.NewExportRequestFromLogs(logs)
	if protobuf, err = request.MarshalProto(); err != nil {
		return nil, nil, err
	}
	json, err = request.MarshalJSON()
	return protobuf, json, err
}

func line(i int) string { return fmt.Sprintf("loaded %d items of the cart", i) }

// sentryLogs returns the same lines as a Sentry SDK sends them.
func sentryLogs() []byte {
	var items bytes.Buffer
	sep := byte('[')
	for i := range batchEvents {
		items.WriteByte(sep)
		_, _ = fmt.Fprintf(&items, `{"timestamp":%d.25,"trace_id":"4c79f60c11214eb38604f4ae0781bfb2","level":"info","body":"%s","severity_number":9,"attributes":{}}`, time.Now().Unix(), line(i))
		sep = ','
	}
	items.WriteByte(']')
	return fmt.Appendf(nil, `{"sent_at":"%s","sdk":{"name":"sentry.javascript.node","version":"11.0.0"}}
{"type":"log","item_count":%d,"content_type":"application/vnd.sentry.items.log+json"}
{"items":%s}
`, time.Now().UTC().Format(time.RFC3339), batchEvents, items.Bytes())
}

const frames = 12

func ownError() []byte {
	var stack bytes.Buffer
	for i := range frames {
		_, _ = fmt.Fprintf(&stack, `    at render%d (file:///srv/app/cart.js:%d:17)\n`, i, 100+i)
	}
	return fmt.Appendf(nil, `{"kind":"log","app":"web","session":"s1","log":{"level":"error","message":"TypeError: cart is undefined","stack":"%s","source":"cart.js:100:17"}}`, stack.Bytes())
}

func sentryError() []byte {
	var list bytes.Buffer
	for i := range frames {
		if i > 0 {
			list.WriteByte(',')
		}
		_, _ = fmt.Fprintf(&list, `{"function":"render%d","filename":"file:///srv/app/cart.js","lineno":%d,"colno":17,"in_app":true}`, i, 100+i)
	}
	event := fmt.Appendf(nil, `{"event_id":"9ec79c33ec9942ab8353589fcb2e04dc","timestamp":%d.5,"platform":"node","release":"web@1.0.0","level":"error","exception":{"values":[{"type":"TypeError","value":"cart is undefined","stacktrace":{"frames":[%s]}}]},"contexts":{"trace":{"trace_id":"4c79f60c11214eb38604f4ae0781bfb2","span_id":"b0e6f15b45c36b12"}}}`, time.Now().Unix(), list.Bytes())
	return fmt.Appendf(nil, `{"event_id":"9ec79c33ec9942ab8353589fcb2e04dc","sent_at":"%s"}
{"type":"event","length":%d}
%s
`, time.Now().UTC().Format(time.RFC3339), len(event), event)
}
