package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// start runs an ingest service. stop ends it and checks that Run returns no error.
func start(t *testing.T, cfg Config) (url string, stop func()) {
	t.Helper()
	cfg.Addr, cfg.Logger = "127.0.0.1:0", quiet()
	if cfg.Masker == nil {
		cfg.Masker = fakeMasker{}
	}
	ready := make(chan string, 1)
	cfg.Ready = func(at Listening) { ready <- at.Ingest }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg) }()
	stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want no error", err)
		}
		done <- nil
		http.DefaultClient.CloseIdleConnections()
	}
	t.Cleanup(stop)
	select {
	case url = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	return url, stop
}

// send makes a request and returns status, header and body.
func send(t *testing.T, method, url, body string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// stored reads a stream until enough returns true.
func stored(t *testing.T, dir statedir.Dir, role bus.Role, stream string, enough func([]bus.Message) bool) []bus.Message {
	t.Helper()
	c, err := bus.Connect(t.Context(), bus.Config{Name: "test", Role: role, Dir: dir, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var msgs []bus.Message
	err = bustest.Follow(ctx, c, bus.FollowConfig{Stream: stream, Logger: quiet()}, func(m bus.Message) error {
		msgs = append(msgs, m)
		if enough(msgs) {
			cancel()
		}
		return nil
	})
	if err != nil || !enough(msgs) {
		t.Fatalf("%d messages in %s, error %v, want enough of them", len(msgs), stream, err)
	}
	return msgs
}

func TestAcceptedIsOnTheBus(t *testing.T) {
	dir := bustest.Start(t).Dir
	var accepted atomic.Int64
	url, _ := start(t, Config{Bus: bus.Config{Dir: dir}, Accepted: func() { accepted.Add(1) }})
	bustest.Eventually(t, "readiness", func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 })

	if status, _, body := send(t, "POST", url+"/v1/events", "["+logEvent+","+logEvent+"]"); status != 200 || body != `{"ok":true,"accepted":2}` {
		t.Fatalf("events: got %d %s, want 200 and 2 accepted", status, body)
	}
	for _, summary := range []string{"first", "second"} {
		body := strings.Replace(failure, "{", `{"summary":"`+summary+`",`, 1)
		if status, _, answer := send(t, "POST", url+"/ci-result", body); status != 200 || answer != `{"ok":true}` {
			t.Fatalf("CI result: got %d %s, want 200", status, answer)
		}
	}
	if accepted.Load() != 3 {
		t.Errorf("Accepted was called %d times, want 3", accepted.Load())
	}

	log := stored(t, dir, bus.RoleDetector, bus.StreamTelemetry, func(m []bus.Message) bool { return len(m) == 3 })
	if log[0].Subject != "telemetry.default.log" || log[1].Subject != bus.SubjectIntakeCI || log[2].Subject != bus.SubjectIntakeCI {
		t.Errorf("log = %v, want one message of events and two of CI results", log)
	}
	if events, err := telemetry.DecodeMessage(log[0].Data); err != nil || len(events) != 2 || events[0].Time.IsZero() {
		t.Errorf("events in the log = %v, %v, want two with a time", events, err)
	}
	view := stored(t, dir, bus.RoleGateway, bus.StreamCI, func(m []bus.Message) bool { return len(m) == 1 })
	if view[0].Subject != "ci.result.github-actions.abc123.build.failure" || !strings.Contains(string(view[0].Data), "second") {
		t.Errorf("view = %s %s, want the second result", view[0].Subject, view[0].Data)
	}
}

// TestBatchWithOneAppPerEvent sends a batch of more messages than may be in flight at once.
func TestBatchWithOneAppPerEvent(t *testing.T) {
	dir := bustest.Start(t).Dir
	url, _ := start(t, Config{Bus: bus.Config{Dir: dir}})
	bustest.Eventually(t, "readiness", func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 })
	const most = 20_000 // in a body of maxBody
	events := make([]string, most)
	for i := range events {
		events[i] = fmt.Sprintf(`{"kind":"vitals","app":"a%d","vitals":{"cls":0}}`, i)
	}
	want := fmt.Sprintf(`{"ok":true,"accepted":%d}`, most)
	if status, _, body := send(t, "POST", url+"/v1/events", strings.Join(events, "\n")); status != 400 {
		t.Errorf("lines as application/json: got %d %s, want 400", status, body)
	}
	if status, _, body := send(t, "POST", url+"/v1/events", "["+strings.Join(events, ",")+"]"); status != 200 || body != want {
		t.Errorf("got %d %s, want 200 %s", status, body, want)
	}
}

func TestBusUnreachableAndRestored(t *testing.T) {
	b := bustest.Start(t)
	b.Stop()
	url, _ := start(t, Config{Bus: bus.Config{Dir: b.Dir}})
	if status, _, body := send(t, "GET", url+"/readyz", ""); status != 503 || body != `{"ok":false,"error":"the bus is unreachable"}` {
		t.Errorf("ready without a bus: got %d %s, want 503", status, body)
	}
	if status, _, _ := send(t, "GET", url+"/healthz", ""); status != 200 {
		t.Errorf("/healthz without a bus: got %d, want 200", status)
	}
	b.Start()
	written := func() bool { status, _, _ := send(t, "POST", url+"/v1/events", logEvent); return status == 200 }
	bustest.Eventually(t, "write", written)
	b.Stop()
	for range breakerFailures + 3 {
		status, header, body := send(t, "POST", url+"/v1/events", logEvent)
		if status != 503 || header.Get("Retry-After") != "1" || !strings.HasPrefix(body, `{"ok":false,"error":"`) {
			t.Errorf("write without a bus: got %d %v %s, want 503, Retry-After 1 and the reason", status, header, body)
		}
	}
	b.Start()
	bustest.Eventually(t, "write after the bus was restored", written)

	// Ingest has reported its circuit breaker.
	var states []string
	stored(t, b.Dir, bus.RoleDetector, bus.StreamTelemetry, func(msgs []bus.Message) bool {
		states = states[:0]
		for _, m := range msgs {
			if m.Subject != "telemetry.tocsin.circuit" {
				continue
			}
			var events []telemetry.Event
			if err := json.Unmarshal(m.Data, &events); err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				states = append(states, e.Circuit.State)
			}
		}
		return len(states) > 0 && states[len(states)-1] == telemetry.CircuitClosed
	})
	if !slices.Equal(states[:1], []string{telemetry.CircuitOpen}) {
		t.Errorf("states of the circuit = %v, want open first", states)
	}
}

func TestWipedStateDirectory(t *testing.T) {
	path := t.TempDir()
	dir, err := statedir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.StartWith(t, embedded.Config{Dir: dir})
	url, _ := start(t, Config{Bus: bus.Config{Dir: dir}})
	written := func() bool { status, _, _ := send(t, "POST", url+"/v1/events", logEvent); return status == 200 }
	bustest.Eventually(t, "write", written)
	b.Stop()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(path + "/" + e.Name()); err != nil {
			t.Fatal(err)
		}
	}
	if dir, err = statedir.Open(path); err != nil {
		t.Fatal(err)
	}
	bustest.StartWith(t, embedded.Config{Dir: dir})
	bustest.Eventually(t, "write with new credentials", written)
}

// lacksNothing waits until an ingest service has created all streams. It is ready earlier,
// once it has the streams that it writes to. A NATS server that is shut down while it
// creates a stream leaves the stream's store open.
func lacksNothing(t *testing.T, cfg bus.Config) {
	t.Helper()
	cfg.Name, cfg.Role, cfg.Logger = "test", bus.RoleIngest, quiet()
	c, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bustest.Eventually(t, "connection", c.Connected)
	bustest.Eventually(t, "prepared bus", func() bool {
		missing, err := bus.Plan(t.Context(), c, bus.Layout{})
		return err == nil && len(missing) == 0
	})
}

// startNATS starts a NATS server with JetStream and without streams, and returns its URL.
func startNATS(t *testing.T) string {
	t.Helper()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server is not ready after 10 s")
	}
	return ns.ClientURL()
}

func TestExternalBusIsProvisioned(t *testing.T) {
	natsURL := startNATS(t)
	url, _ := start(t, Config{Bus: bus.Config{URL: natsURL}, Provision: true})
	bustest.Eventually(t, "readiness", func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 })
	if status, _, body := send(t, "POST", url+"/ci-result", failure); status != 200 {
		t.Errorf("got %d %s, want 200", status, body)
	}
	lacksNothing(t, bus.Config{URL: natsURL})
}

func TestShutdownFinishesRequests(t *testing.T) {
	dir := bustest.Start(t).Dir
	url, stop := start(t, Config{Bus: bus.Config{Dir: dir}})
	bustest.Eventually(t, "readiness", func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 })

	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(logEvent), logEvent[:10])
	bustest.Eventually(t, "request in flight", func() bool {
		_, _, body := send(t, "GET", url+"/metrics", "")
		return !strings.Contains(body, "tocsin_ingest_in_flight_bytes 0\n")
	})
	http.DefaultClient.CloseIdleConnections()
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	bustest.Eventually(t, "closed listener", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	fmt.Fprint(conn, logEvent[10:])
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("got %d, want 200", resp.StatusCode)
	}
	<-stopped
}

func TestListenErrors(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, c := range []struct {
		addr, want string
		usage      bool
	}{
		{"0.0.0.0:0", "TOCSIN_INGEST_ADDR 0.0.0.0:0 can be reached from other machines: set TOCSIN_TOKEN, or listen on 127.0.0.1", true},
		{":0", "can be reached from other machines", true},
		{"ingest:7400", "can be reached from other machines", true},
		{"7400", `TOCSIN_INGEST_ADDR "7400" must be host:port, such as 127.0.0.1:0`, true},
		{"127.0.0.1:99999", "must have a port between 0 and 65535", true},
		{busy.Addr().String(), "free the port or set TOCSIN_INGEST_ADDR", false},
	} {
		err := Run(t.Context(), Config{Addr: c.addr, Masker: fakeMasker{}, Logger: quiet(), Bus: bus.Config{Dir: statedir.At(t.TempDir())}})
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, service.ErrUsage) != c.usage {
			t.Errorf("listen on %s: error %v, want %q, a usage error: %t", c.addr, err, c.want, c.usage)
		}
	}
	blank := Config{Addr: "0.0.0.0:0", Token: " \t", Masker: fakeMasker{}, Logger: quiet(), Bus: bus.Config{Dir: statedir.At(t.TempDir())}}
	if err := Run(t.Context(), blank); !errors.Is(err, service.ErrUsage) {
		t.Errorf("a token of white space: got %v, want ErrUsage", err)
	}
}
