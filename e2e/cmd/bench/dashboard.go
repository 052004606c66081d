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
	// pageReaders is the number of concurrent readers of /events/stream.
	pageReaders = 200
	// flood is how many alerts they get as fast as the bus accepts them.
	flood = 5000
	// pagesPatience bounds the whole measurement.
	pagesPatience = 5 * time.Minute
)

// reading is one reader of /events/stream, which notes when each alert arrived.
type reading struct {
	at      chan time.Time
	dropped int
	close   func() error
}

// readPage opens a stream with room for n alerts, and reads it to its end.
func readPage(ctx context.Context, group *errgroup.Group, dashboard string, n int) (*reading, error) {
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
	r := &reading{at: make(chan time.Time, n), close: resp.Body.Close}
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
		return nil // the stream is closed when enough was read
	})
	return r, nil
}

// onPages runs f with n readers of /events/stream, each with room for n alerts.
func (m *meter) onPages(ctx context.Context, n int, f func([]*reading) error) error {
	var group errgroup.Group
	readings := make([]*reading, 0, pageReaders)
	for range pageReaders {
		r, err := readPage(ctx, &group, m.bus.DashboardURL, n)
		if err != nil {
			return err
		}
		readings = append(readings, r)
	}
	err := f(readings)
	for _, r := range readings {
		err = errors.Join(err, r.close())
	}
	return errors.Join(err, group.Wait())
}

// came waits until a reader has its next alert.
func (r *reading) came(ctx context.Context) (time.Time, error) {
	select {
	case at := <-r.at:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, errors.New("a reader of the dashboard lacks alerts")
	}
}

// pages measures the time from a POST to each of many readers of the dashboard, and how
// many alerts a second they get when these arrive as fast as the bus accepts them.
func (m *meter) pages(ctx context.Context) ([]harness.Figure, error) {
	ctx, cancel := context.WithTimeout(ctx, pagesPatience)
	defer cancel()
	var times []time.Duration
	err := m.onPages(ctx, m.samples, func(readings []*reading) error {
		tick := time.NewTicker(samplePause) // apart, as alerts usually are
		defer tick.Stop()
		for range m.samples {
			<-tick.C
			sent := time.Now()
			if err := m.post(ctx, "/ci-result", m.failure()); err != nil {
				return err
			}
			for _, r := range readings {
				at, err := r.came(ctx)
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
		{What: fmt.Sprintf("POST sent to each of %d readers of the dashboard", pageReaders), Measured: harness.Quantiles(times)},
		{What: fmt.Sprintf("alerts to %d readers, %d at once", pageReaders, flood), Measured: fmt.Sprintf("%.0f alerts/s, %.0f deliveries/s, %d dropped", rate, rate*pageReaders, dropped)},
	}, nil
}

// flood sends alerts as a detector does, and returns how many a second all readers get,
// and how many were dropped for slow ones.
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
	err = m.onPages(ctx, flood, func(readings []*reading) error {
		started := time.Now()
		for i := range flood {
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
		for _, r := range readings {
			for range flood {
				at, err := r.came(ctx)
				if err != nil {
					return err
				}
				if at.After(last) {
					last = at
				}
			}
			dropped += r.dropped
		}
		rate = flood / last.Sub(started).Seconds()
		return nil
	})
	return rate, dropped, err
}
