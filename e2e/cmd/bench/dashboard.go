package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const (
	// streamReaders is the number of concurrent readers of /events/stream.
	streamReaders = 200
	// floodAlerts is the number of alerts sent as fast as the bus accepts them.
	floodAlerts = 5000
	// readersTimeout bounds the whole measurement.
	readersTimeout = 5 * time.Minute
)

// streamReader is a reader of /events/stream. It records when each alert arrived.
type streamReader struct {
	at      chan time.Time
	dropped int
	close   func() error
}

// readStream opens a stream with room for n alerts, and reads it to its end.
func readStream(ctx context.Context, group *errgroup.Group, dashboard string, n int) (*streamReader, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, dashboard+"/events/stream", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("/events/stream: %s", resp.Status), resp.Body.Close())
	}
	r := &streamReader{at: make(chan time.Time, n), close: resp.Body.Close}
	group.Go(func() error {
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			switch line := lines.Bytes(); {
			case bytes.HasPrefix(line, []byte("id: ")):
				r.at <- time.Now()
			case bytes.HasPrefix(line, []byte(`data: {"dropped":`)):
				lost, err := strconv.Atoi(string(bytes.TrimSuffix(bytes.TrimPrefix(line, []byte(`data: {"dropped":`)), []byte("}"))))
				if err != nil {
					return fmt.Errorf("read how many alerts were dropped: %w", err)
				}
				r.dropped += lost
				for range lost {
					r.at <- time.Now()
				}
			}
		}
		return nil // the caller closes the stream when it has read enough
	})
	return r, nil
}

// withReaders runs f with the readers of /events/stream, each with room for n alerts.
func (m *meter) withReaders(ctx context.Context, n int, f func([]*streamReader) error) error {
	var group errgroup.Group
	readers := make([]*streamReader, 0, streamReaders)
	for range streamReaders {
		r, err := readStream(ctx, &group, m.bus.DashboardURL, n)
		if err != nil {
			return err
		}
		readers = append(readers, r)
	}
	err := f(readers)
	for _, r := range readers {
		err = errors.Join(err, r.close())
	}
	return errors.Join(err, group.Wait())
}

// next waits for the next alert of a reader and returns when it arrived.
func (r *streamReader) next(ctx context.Context) (time.Time, error) {
	select {
	case at := <-r.at:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, errors.New("timed out waiting for the next alert of a reader of the dashboard")
	}
}

// eventStreams measures the time from a POST to each of many readers of the dashboard, and
// how many alerts a second they receive when the bus gets alerts as fast as it accepts them.
func (m *meter) eventStreams(ctx context.Context) ([]harness.Figure, error) {
	ctx, cancel := context.WithTimeout(ctx, readersTimeout)
	defer cancel()
	var times []time.Duration
	err := m.withReaders(ctx, m.samples, func(readers []*streamReader) error {
		tick := time.NewTicker(samplePause) // like most alerts, they are apart
		defer tick.Stop()
		for range m.samples {
			<-tick.C
			sent := time.Now()
			if err := m.post(ctx, "/ci-result", m.failure()); err != nil {
				return err
			}
			for _, r := range readers {
				at, err := r.next(ctx)
				if err != nil {
					return err
				}
				times = append(times, at.Sub(sent))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	rate, dropped, err := m.flood(ctx)
	if err != nil {
		return nil, err
	}
	return []harness.Figure{
		{What: fmt.Sprintf("POST sent to each of %d readers of the dashboard", streamReaders), Measured: harness.Quantiles(times)},
		{What: fmt.Sprintf("alerts to %d readers, %d at once", streamReaders, floodAlerts), Measured: fmt.Sprintf("%.0f alerts/s, %.0f deliveries/s, %d dropped", rate, rate*streamReaders, dropped)},
	}, nil
}

// flood sends alerts as a detector does. It returns how many a second reach all readers, and
// how many were dropped for slow readers.
func (m *meter) flood(ctx context.Context) (rate float64, dropped int, err error) {
	key, err := nats.NkeyOptionFromSeed(statedir.At(m.bus.StateDir).Credential(string(bus.RoleDetector)))
	if err != nil {
		return 0, 0, err
	}
	nc, err := nats.Connect(m.bus.NATSURL, key, nats.CustomInboxPrefix("_INBOX_"+string(bus.RoleDetector)))
	if err != nil {
		return 0, 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(256))
	if err != nil {
		return 0, 0, err
	}
	err = m.withReaders(ctx, floodAlerts, func(readers []*streamReader) error {
		started := time.Now()
		for i := range floodAlerts {
			a := alert.Alert{
				ID: fmt.Sprintf("flood%d", i), Severity: alert.Error, Category: alert.NetworkErrors, Title: "Server error: POST /api/users → 500",
				Detail: "POST http://localhost:3000/api/users answered 500 after 12 ms", Timestamp: time.Now(), Source: alert.SourceNetwork,
				App: "web", URL: "http://localhost:3000/api/users", DedupKey: fmt.Sprintf("POST:/api/users/%d:500", i), CorrelationID: fmt.Sprintf("flood%d", i),
				Context: map[string]any{"method": "POST", "url": "/api/users", "status": 500, "duration_ms": 12},
			}
			data, err := json.Marshal(a)
			if err != nil {
				return err
			}
			if _, err := js.PublishAsync(bus.AlertSubject(a), data, jetstream.WithStallWait(patience)); err != nil {
				return err
			}
		}
		last := started
		for _, r := range readers {
			for range floodAlerts {
				at, err := r.next(ctx)
				if err != nil {
					return err
				}
				if at.After(last) {
					last = at
				}
			}
			dropped += r.dropped
		}
		rate = floodAlerts / last.Sub(started).Seconds()
		return nil
	})
	return rate, dropped, err
}
