package ingest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// hundred is a batch of 100 small events.
func hundred() string {
	events := make([]string, 100)
	for i := range events {
		events[i] = fmt.Sprintf(`{"kind":"log","app":"web","session":"s1","time":"2026-01-28T14:30:00.000Z","url":"http://localhost:3000/cart","log":{"level":"info","message":"loaded %d items of the cart"}}`, i)
	}
	return "[" + strings.Join(events, ",") + "]"
}

func benchBus(b *testing.B) *bus.Server {
	dir, err := statedir.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	s, err := bus.StartServer(b.Context(), bus.ServerConfig{Dir: dir, Addr: "127.0.0.1:0", Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

// senders is how many send at once.
const senders = 16

// BenchmarkRaw is what the same process publishes straight to the stream: the
// measure for BenchmarkOverHTTP.
func BenchmarkRaw(b *testing.B) {
	c, err := bus.Connect(b.Context(), bus.ConnConfig{Name: "raw", Role: bus.RoleIngest, Server: benchBus(b), Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	data := post(b, pathEvents, hundred())[0].Data
	b.SetBytes(int64(len(data)))
	var acks []func() error
	for b.Loop() {
		f, err := c.JS.PublishMsgAsync(&nats.Msg{Subject: "telemetry.web.log", Data: data})
		if err != nil {
			b.Fatal(err)
		}
		acks = append(acks, func() error {
			select {
			case <-f.Ok():
				return nil
			case err := <-f.Err():
				return err
			}
		})
		if len(acks) == 256 {
			if err := acks[0](); err != nil {
				b.Fatal(err)
			}
			acks = acks[1:]
		}
	}
	for _, ack := range acks {
		if err := ack(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkOverHTTP(b *testing.B)    { overHTTP(b, pathEvents, hundred(), 100, senders) }
func BenchmarkOverHTTPOne(b *testing.B) { overHTTP(b, pathEvents, hundred(), 100, 1) }
func BenchmarkCIOverHTTP(b *testing.B)  { overHTTP(b, pathCIResult, failure, 1, 1) }

func overHTTP(b *testing.B, path, body string, events, senders int) {
	ready := make(chan string, 1)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	cfg := Config{
		Bus: bus.ConnConfig{Server: benchBus(b)}, Addr: "127.0.0.1:0", Masker: fakeMasker{}, Logger: quiet(),
		Ready: func(url string) { ready <- url },
	}
	go func() { done <- Run(ctx, cfg) }()
	url := <-ready + path
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	work, failed := make(chan struct{}), make(chan error, senders)
	times := make([][]time.Duration, senders)
	for i := range senders {
		go func() {
			var err error
			for range work {
				start := time.Now()
				if e := postOnce(client, url, body); e != nil {
					err = e
				}
				times[i] = append(times[i], time.Since(start))
			}
			failed <- err
		}()
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	for range senders {
		if err := <-failed; err != nil {
			b.Error(err)
		}
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	b.ReportMetric(float64(events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
	client.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

func postOnce(client *http.Client, url, body string) error {
	resp, err := client.Post(url, typeJSON, strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%d %s", resp.StatusCode, answer)
	}
	return err
}
