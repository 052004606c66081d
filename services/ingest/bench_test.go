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
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// small returns one small event, the i-th of a batch.
func small(i int) string {
	return fmt.Sprintf(`{"kind":"log","app":"web","session":"s1","time":"2026-01-28T14:30:00.000Z","url":"http://localhost:3000/cart","log":{"level":"info","message":"loaded %d items of the cart"}}`, i)
}

// hundred returns a batch of 100 small events.
func hundred() string {
	events := make([]string, 100)
	for i := range events {
		events[i] = small(i)
	}
	return "[" + strings.Join(events, ",") + "]"
}

func benchBus(b *testing.B) *embedded.Server {
	dir, err := statedir.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	s, err := embedded.Start(b.Context(), embedded.Config{Dir: dir, Addr: "127.0.0.1:0", Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

// senders is the number of concurrent senders.
const senders = 16

// BenchmarkIngest sends batches of 100 small events, acknowledged, to file storage. In the
// same run, the same process publishes the same messages to the same stream
// asynchronously: "x-raw" compares the throughput with that, "x-raw-single" with
// publishing each event as one message, as a program without batches would.
func BenchmarkIngest(b *testing.B) {
	server := benchBus(b)
	overHTTP(b, server, pathEvents, hundred(), 100, senders)
	each := b.Elapsed() / time.Duration(b.N)
	message := post(b, pathEvents, hundred())[0].Data
	n := max(b.N, 2000)
	b.ReportMetric(float64(raw(b, server, message, n)/time.Duration(n))/float64(each), "x-raw")
	single := post(b, pathEvents, small(0))[0].Data
	b.ReportMetric(float64(100*raw(b, server, single, 100*min(n, 2000))/time.Duration(100*min(n, 2000)))/float64(each), "x-raw-single")
}

// One sender waits for each answer: the time is what it sees.
func BenchmarkIngestOneSender(b *testing.B) {
	overHTTP(b, benchBus(b), pathEvents, hundred(), 100, 1)
}

// BenchmarkCIResultOverHTTP updates one of ten results: each answer waits for two writes,
// one read of the ten, and a deletion. Its sub-benchmarks differ in the size of the other
// results.
func BenchmarkCIResultOverHTTP(b *testing.B) {
	for _, cases := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("failures=%d", cases), func(b *testing.B) {
			server := benchBus(b)
			fillView(b, server, ci.MaxResults-1, cases)
			overHTTP(b, server, pathCIResult, failure, 1, 1)
		})
	}
}

// BenchmarkCIResultsAtOnce is the same with many concurrent senders.
func BenchmarkCIResultsAtOnce(b *testing.B) {
	server := benchBus(b)
	fillView(b, server, ci.MaxResults-1, 0)
	overHTTP(b, server, pathCIResult, failure, 1, senders)
}

// fillView stores n results of other commits with that many failures.
func fillView(b *testing.B, server *embedded.Server, n, cases int) {
	c, err := bus.Connect(b.Context(), bus.Config{Name: "fill", Role: bus.RoleIngest, Server: server, Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for i := range n {
		result := ci.Result{Status: ci.StatusFailure, Source: ci.SourceCustom, Commit: fmt.Sprint(i)}
		for range cases {
			result.Failures = append(result.Failures, ci.Failure{Name: "test_login", Message: "Expected 200, got 401"})
		}
		writes, err := messagesOfResult(result)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.JS.PublishMsg(b.Context(), writes.view); err != nil {
			b.Fatal(err)
		}
	}
}

// raw publishes n messages and returns how long it took until the last one was
// acknowledged.
func raw(b *testing.B, server *embedded.Server, data []byte, n int) time.Duration {
	c, err := bus.Connect(b.Context(), bus.Config{Name: "raw", Role: bus.RoleIngest, Server: server, Logger: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	js, err := jetstream.New(c.NC, jetstream.WithPublishAsyncMaxPending(publishWindow))
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	acks := make([]jetstream.PubAckFuture, 0, n)
	for range n {
		f, err := js.PublishMsgAsync(&nats.Msg{Subject: "telemetry.web.log", Data: data}, jetstream.WithStallWait(10*time.Second))
		if err != nil {
			b.Fatal(err)
		}
		acks = append(acks, f)
	}
	for _, f := range acks {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

func overHTTP(b *testing.B, server *embedded.Server, path, body string, events, senders int) {
	ready := make(chan string, 1)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	cfg := Config{
		Bus: bus.Config{Server: server}, Addr: "127.0.0.1:0", Masker: redact.New(), Logger: quiet(),
		Ready: func(at Listening) { ready <- at.Ingest },
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
