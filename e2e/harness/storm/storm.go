// Package storm sends a storm of failing requests to a running tocsin, and measures how late
// another app's alerts are meanwhile. It fails no test: it returns the measurements.
package storm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const (
	// urls is the number of different requests.
	urls = 9999
	// probeEvery is the pause between two requests of calm apps.
	probeEvery = 250 * time.Millisecond
	// calm is the prefix of the names of those apps. They take turns. Each time another
	// request fails.
	calm     = "calm"
	calmApps = 8
	// senders is the number of concurrent senders.
	senders = 4
	// patience bounds the wait for the last alert.
	patience = 60 * time.Second
)

// Config configures a storm.
type Config struct {
	// Rate is the number of failing requests a second, of all Apps together. Batch is the
	// number in one POST.
	Apps, Rate, Batch int
	For               time.Duration
	Seed              uint64
}

// Result holds the measurements.
type Result struct {
	// Sent is the number of failing requests that were accepted, Rate the number a second.
	Sent int
	Rate float64
	// Alerts is the number of alerts about them, Counted the sum of their counts.
	Alerts, Counted int
	// Delays are the times from a calm app's accepted POST to its alert. Missing is the
	// number of such alerts that did not arrive.
	Delays  []time.Duration
	Missing int
}

// Run sends a storm and waits until its alerts count every request.
func Run(ctx context.Context, b *harness.Bus, cfg Config) (Result, error) {
	conn, err := bus.Connect(ctx, bus.Config{
		Name: "storm", Role: bus.RoleGateway, Dir: statedir.At(b.StateDir), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return Result{}, fmt.Errorf("read alerts: %w", err)
	}
	defer conn.Close()
	w := &watch{seen: map[string]time.Time{}}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	group, reading := errgroup.WithContext(reading)
	group.Go(func() error {
		err := conn.Follow(reading, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: slog.New(slog.DiscardHandler)}, w.take)
		if reading.Err() != nil {
			return nil //nolint:nilerr // the storm is over: Follow was stopped
		}
		return err
	})
	p := &poster{client: &http.Client{Timeout: patience}, url: b.IngestURL + "/v1/events"}
	r, accepted, err := p.storm(ctx, cfg)
	if err == nil {
		harness.Poll(ctx, patience, func() bool {
			alerts, counted := w.counts()
			r.Alerts, r.Counted = alerts, counted
			return counted >= r.Sent && w.missing(accepted) == 0
		})
	}
	stop()
	if err := errors.Join(err, group.Wait()); err != nil {
		return r, err
	}
	r.Missing = w.missing(accepted)
	for url, at := range accepted {
		if seen, ok := w.seen[url]; ok {
			r.Delays = append(r.Delays, max(0, seen.Sub(at)))
		}
	}
	return r, nil
}

// watch collects the alerts.
type watch struct {
	mu              sync.Mutex
	alerts, counted int
	seen            map[string]time.Time // of calm apps, by URL
}

func (w *watch) take(m bus.Message) error {
	var a alert.Alert
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return fmt.Errorf("read an alert: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case a.Category != alert.NetworkErrors:
	case strings.HasPrefix(a.App, calm):
		w.seen[a.URL] = time.Now()
	case strings.HasPrefix(a.App, "storm"):
		w.alerts++
		w.counted += a.Occurrences()
	}
	return nil
}

func (w *watch) counts() (alerts, counted int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.alerts, w.counted
}

func (w *watch) missing(accepted map[string]time.Time) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for url := range accepted {
		if _, ok := w.seen[url]; !ok {
			n++
		}
	}
	return n
}

// poster posts events, and keeps its connections as a sender does.
type poster struct {
	client *http.Client
	url    string
}

type request struct {
	Kind    string         `json:"kind"`
	App     string         `json:"app"`
	Network map[string]any `json:"network"`
}

func failed(app, url string) request {
	return request{"network", app, map[string]any{"method": "GET", "url": url, "status": 500}}
}

// storm posts failing requests of the storm and of calm apps. It returns when each request of
// a calm app was accepted, by URL.
func (p *poster) storm(ctx context.Context, cfg Config) (r Result, accepted map[string]time.Time, err error) {
	accepted = map[string]time.Time{}
	group, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	var mu sync.Mutex
	for sender := range senders {
		group.Go(func() error {
			random := rand.New(rand.NewPCG(cfg.Seed, uint64(sender)))
			pace := time.NewTicker(time.Duration(senders*cfg.Batch) * time.Second / time.Duration(cfg.Rate))
			defer pace.Stop()
			for time.Since(begin) < cfg.For {
				batch := make([]request, cfg.Batch)
				for i := range batch {
					batch[i] = failed(fmt.Sprint("storm", random.IntN(cfg.Apps)), fmt.Sprint("http://localhost:3000/e", random.IntN(urls)))
				}
				if err := p.post(ctx, batch); err != nil {
					return err
				}
				mu.Lock()
				r.Sent += len(batch)
				mu.Unlock()
				select {
				case <-pace.C:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		for i := 0; time.Since(begin) < cfg.For; i++ {
			url := "http://localhost:3000/calm" + word(i)
			if err := p.post(ctx, []request{failed(fmt.Sprint(calm, i%calmApps), url)}); err != nil {
				return err
			}
			accepted[url] = time.Now()
			select {
			case <-time.After(probeEvery):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	err = group.Wait()
	r.Rate = float64(r.Sent) / time.Since(begin).Seconds()
	return r, accepted, err
}

// word returns letters for a number: templates replace digits.
func word(n int) string {
	text := []byte{'a', 'a', 'a'}
	for i := range text {
		text[i] += byte(n % 26)
		n /= 26
	}
	return string(text)
}

func (p *poster) post(ctx context.Context, batch []request) error {
	data, err := json.Marshal(batch)
	if err != nil {
		return fmt.Errorf("encode events: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("post events: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return fmt.Errorf("post events: %w", err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("post events: %s %s", resp.Status, answer)
	}
	return nil
}
