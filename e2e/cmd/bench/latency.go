package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

const (
	// backgroundEvents is the number of events a second that are sent during measurements,
	// in batches of backgroundBatch.
	backgroundEvents = 1000
	backgroundBatch  = 50
	// samplePause is the time for background events between two samples.
	samplePause = 20 * time.Millisecond
	// patience bounds the wait for one notification.
	patience = 10 * time.Second
)

// meter measures latencies on a running bus and gateway.
type meter struct {
	bin     string
	bus     *harness.Bus
	agent   *harness.Agent
	samples int
	// commits makes every CI result unique.
	commits int
}

// poster keeps its connection, as senders do.
var poster = &http.Client{Timeout: patience}

func (m *meter) post(ctx context.Context, path string, body []byte) error {
	return post(ctx, poster, m.bus.IngestURL+path, "application/json", body)
}

// post sends a body and expects 200.
func post(ctx context.Context, client *http.Client, url, media string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", media)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s", url, resp.StatusCode, answer)
	}
	return nil
}

// failure returns a new failed CI result.
func (m *meter) failure() []byte {
	m.commits++
	return fmt.Appendf(nil, `{"status":"failure","source":"custom","name":"bench","ref":"main","commit":"c%06d","summary":"1 failed","failures":[{"name":"t","message":"m"}]}`, m.commits)
}

// notification measures the time from a POST to its notification in the client, while other
// events are sent. Each sample enables streaming again, which resets throttle and rate
// limit.
func (m *meter) notification(ctx context.Context) ([]harness.Figure, error) {
	var fromSent, fromAccepted []time.Duration
	measure := func(ctx context.Context) error {
		tick := time.NewTicker(samplePause)
		defer tick.Stop()
		for range m.samples {
			<-tick.C
			if _, err := m.agent.Call(ctx, "configure_streaming", map[string]any{"action": "enable", "events": []string{"ci"}}); err != nil {
				return err
			}
			sent := time.Now()
			if err := m.post(ctx, "/ci-result", m.failure()); err != nil {
				return err
			}
			accepted := time.Now()
			n, err := m.agent.Next(ctx, patience)
			if err != nil {
				return err
			}
			fromSent = append(fromSent, n.At.Sub(sent))
			fromAccepted = append(fromAccepted, max(0, n.At.Sub(accepted)))
		}
		return nil
	}
	rate, err := m.underLoad(ctx, measure)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("to the notification, %.0f events/s background", rate)
	return []harness.Figure{
		{What: "POST accepted " + what, Asked: "p99 < 5 ms", Measured: harness.Quantiles(fromAccepted)},
		{What: "POST sent " + what, Measured: harness.Quantiles(fromSent)},
	}, nil
}

// underLoad runs f while background events are sent, and returns how many a second.
func (m *meter) underLoad(ctx context.Context, f func(context.Context) error) (rate float64, err error) {
	batch := background()
	loading, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	var sent atomic.Int64
	started := time.Now()
	group.Go(func() error {
		tick := time.NewTicker(time.Second * backgroundBatch / backgroundEvents)
		defer tick.Stop()
		for {
			select {
			case <-loading.Done():
				return nil
			case <-tick.C:
			}
			if err := m.post(ctx, "/v1/events", batch); err != nil {
				return err
			}
			sent.Add(backgroundBatch)
		}
	})
	group.Go(func() error { defer stop(); return f(ctx) })
	err = group.Wait()
	return float64(sent.Load()) / time.Since(started).Seconds(), err
}

// background returns a batch of usual events.
func background() []byte {
	events := make([]map[string]any, backgroundBatch)
	for i := range events {
		switch i % 3 {
		case 0:
			events[i] = map[string]any{"kind": "log", "app": "web", "session": "s1", "log": map[string]any{"level": "info", "message": fmt.Sprintf("rendered %d items of the cart", i)}}
		case 1:
			events[i] = map[string]any{"kind": "network", "app": "web", "session": "s1", "network": map[string]any{"method": "GET", "url": fmt.Sprintf("http://localhost:3000/api/items/%d?page=2", i), "status": 200, "duration_ms": 12}}
		default:
			events[i] = map[string]any{"kind": "action", "app": "web", "session": "s1", "action": map[string]any{"type": "click", "target": fmt.Sprintf("li.item-%d", i)}}
		}
	}
	data, err := json.Marshal(events)
	if err != nil {
		panic(err) // maps of texts and numbers always encode
	}
	return data
}

// ciResult measures the answer to a CI result.
func (m *meter) ciResult(ctx context.Context) ([]harness.Figure, error) {
	times := make([]time.Duration, m.samples)
	for i := range times {
		body := m.failure()
		started := time.Now()
		if err := m.post(ctx, "/ci-result", body); err != nil {
			return nil, err
		}
		times[i] = time.Since(started)
	}
	return []harness.Figure{{What: "/ci-result response", Asked: "p99 < 5 ms", Measured: harness.Quantiles(times)}}, nil
}

// configure measures an answer of the tool configure.
func (m *meter) configure(ctx context.Context) ([]harness.Figure, error) {
	times := make([]time.Duration, m.samples)
	for i := range times {
		started := time.Now()
		if _, err := m.agent.Call(ctx, "configure", map[string]any{"action": "streaming", "streaming_action": "status"}); err != nil {
			return nil, err
		}
		times[i] = time.Since(started)
	}
	return []harness.Figure{{What: "configure answer", Asked: "< 10 ms", Measured: harness.Quantiles(times)}}, nil
}

// toolsList measures the size of the list of tools.
func (m *meter) toolsList(ctx context.Context) ([]harness.Figure, error) {
	list, err := m.agent.Session.ListTools(ctx, nil)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{{What: "tools/list", Asked: "< 8 KB", Measured: fmt.Sprintf("%d bytes", len(data))}}, nil
}
