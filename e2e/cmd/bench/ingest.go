package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/services/ingest"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const (
	// rounds is the number of rounds. Each measures everything that is compared, so that
	// the state of the machine affects all alike.
	rounds = 5
	// In a round concurrent senders send batches of batchEvents each, and singles as
	// messages of their own.
	batches     = 5000
	batchEvents = 100
	senders     = 16
	singles     = 100_000
)

// measured is an ingest service in this process, and its bus.
type measured struct {
	server *embedded.Server
	conn   *bus.Session
	url    string
	client *http.Client
}

// withIngest runs an ingest service while f measures it.
func withIngest(ctx context.Context, f func(context.Context, measured) ([]harness.Figure, error)) (all []harness.Figure, err error) {
	path, err := os.MkdirTemp("", "tocsin-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(path)) }()
	dir, err := statedir.Open(path)
	if err != nil {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	server, err := embedded.Start(ctx, embedded.Config{Dir: dir, Addr: "127.0.0.1:0", Logger: quiet})
	if err != nil {
		return nil, err
	}
	defer server.Close()
	conn, err := bus.Connect(ctx, bus.Config{Name: "bench", Role: bus.RoleIngest, Server: server, Logger: quiet})
	if err != nil {
		return nil, err
	}
	defer conn.Close()

	serving, stop := context.WithCancel(ctx)
	cfg := ingest.Flags{AddrFlag: ingest.AddrFlag{IngestAddr: "127.0.0.1:0"}}.Config(false, prometheus.NewRegistry())
	url := make(chan string, 1)
	cfg.Bus, cfg.Logger, cfg.Ready = bus.Config{Server: server}, quiet, func(at ingest.Listening) { url <- at.Ingest }
	var group errgroup.Group
	group.Go(func() error { return ingest.Run(serving, cfg) })
	defer func() { stop(); err = errors.Join(err, group.Wait()) }()

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	defer client.CloseIdleConnections()
	return f(ctx, measured{server: server, conn: conn, url: <-url, client: client})
}

// ingestRatio compares ingest over HTTP with asynchronous publishing in the same process to
// the same stream on file storage, with acknowledgements: once with one message for each
// event, and once with the messages that ingest wrote, which needs no decoding, validation
// and masking.
func ingestRatio(ctx context.Context, m measured) ([]harness.Figure, error) {
	body := payload{path: "/v1/events", media: "application/json", data: smallEvents()}
	if err := m.post(ctx, body); err != nil {
		return nil, err
	}
	message, err := stored(ctx, m.server)
	if err != nil {
		return nil, err
	}
	js := m.conn.JS
	single := *message
	single.Data = []byte(`[{"kind":"log","app":"web","session":"s1","log":{"level":"info","message":"loaded 42 items of the cart"}}]`)
	var overHTTP, each, whole []float64
	for range rounds {
		i, err := rate(batches*batchEvents, func() error { return m.postAll(ctx, body, batches) })
		if err != nil {
			return nil, fmt.Errorf("post: %w", err)
		}
		e, err := rate(singles, func() error { return publishRaw(js, single, singles) })
		if err != nil {
			return nil, fmt.Errorf("publish raw events: %w", err)
		}
		w, err := rate(batches*batchEvents, func() error { return publishRaw(js, *message, batches) })
		if err != nil {
			return nil, fmt.Errorf("publish raw batches: %w", err)
		}
		overHTTP, each, whole = append(overHTTP, i), append(each, e), append(whole, w)
	}
	what := fmt.Sprintf("ingest, batches of %d small events, file storage, acknowledged", batchEvents)
	return []harness.Figure{
		{What: what, Asked: "at least 0.5x of raw", Measured: fmt.Sprintf("%.2fx: %.0f events/s, raw %.0f as one message each", harness.Median(ratios(overHTTP, each)), harness.Median(overHTTP), harness.Median(each))},
		{What: "  the same, raw in messages of 100 encoded beforehand", Measured: fmt.Sprintf("%.2fx: raw %.0f events/s", harness.Median(ratios(overHTTP, whole)), harness.Median(whole))},
	}, nil
}

// ratios divides the values of the same round.
func ratios(over, under []float64) []float64 {
	all := make([]float64, len(over))
	for i := range over {
		all[i] = over[i] / under[i]
	}
	return all
}

// rate returns the number of events a second if f sends n.
func rate(n int, f func() error) (float64, error) {
	started := time.Now()
	err := f()
	return float64(n) / time.Since(started).Seconds(), err
}

// stored returns the message that ingest wrote for one batch.
func stored(ctx context.Context, server *embedded.Server) (*nats.Msg, error) {
	quiet := slog.New(slog.DiscardHandler)
	conn, err := bus.Connect(ctx, bus.Config{Name: "bench reader", Role: bus.RoleDetector, Server: server, Logger: quiet})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var first *nats.Msg
	err = conn.Follow(ctx, bus.FollowConfig{Stream: bus.StreamTelemetry, Logger: quiet}, func(m bus.Message) error {
		first = &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
		return bus.ErrStop
	})
	if first == nil && errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("timed out waiting for a message of ingest")
	}
	return first, err
}

// publishRaw publishes m n times, with at most window acknowledgements outstanding.
func publishRaw(js jetstream.JetStream, m nats.Msg, n int) error {
	const window = 1000
	acks := make([]jetstream.PubAckFuture, 0, n)
	acked := func(f jetstream.PubAckFuture) error {
		select {
		case <-f.Ok():
			return nil
		case err := <-f.Err():
			return err
		}
	}
	for i := range n {
		f, err := js.PublishMsgAsync(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		if err != nil {
			return err
		}
		acks = append(acks, f)
		if i >= window {
			if err := acked(acks[i-window]); err != nil {
				return err
			}
		}
	}
	for _, f := range acks[max(0, n-window):] {
		if err := acked(f); err != nil {
			return err
		}
	}
	return nil
}

// payload is a sender's request.
type payload struct {
	path, media string
	data        []byte
}

// postAll sends a request n times, from many concurrent senders.
func (m measured) postAll(ctx context.Context, p payload, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(senders)
	for range n {
		group.Go(func() error { return m.post(ctx, p) })
	}
	return group.Wait()
}

func (m measured) post(ctx context.Context, p payload) error {
	return post(ctx, m.client, m.url+p.path, p.media, p.data)
}

func smallEvents() []byte {
	var b bytes.Buffer
	sep := byte('[')
	for i := range batchEvents {
		b.WriteByte(sep)
		_, _ = fmt.Fprintf(&b, `{"kind":"log","app":"web","session":"s1","log":{"level":"info","message":"%s"}}`, line(i))
		sep = ','
	}
	b.WriteByte(']')
	return b.Bytes()
}
