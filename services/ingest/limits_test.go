package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// serveShort serves a handler with the settings of the server, but with shorter timeouts.
func serveShort(t *testing.T, h http.Handler) (addr string) {
	t.Helper()
	s := httpserve.NewServer(h, quiet())
	if s.ReadHeaderTimeout != 5*time.Second || s.ReadTimeout != 10*time.Second {
		t.Errorf("%s for the header and %s for the whole request, want 5s and 10s", s.ReadHeaderTimeout, s.ReadTimeout)
	}
	s.ReadHeaderTimeout, s.ReadTimeout = 50*time.Millisecond, 150*time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestSlowRequestsAreDropped checks that sending one byte at a time extends neither the
// timeout of the header nor that of the body.
func TestSlowRequestsAreDropped(t *testing.T) {
	const head = "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for _, c := range []struct{ name, start, drip, want string }{
		{"the header", head + "X-Slow: ", "x", ""},
		{"nothing at all", "", "", ""},
		{"the body", head + "Content-Length: 100000\r\n\r\n", " ", "HTTP/1.1 408 "},
		{"a body that stops", head + "Content-Length: 100000\r\n\r\n[", "", "HTTP/1.1 408 "},
		{"a chunked body", head + "Transfer-Encoding: chunked\r\n\r\n", "1\r\n \r\n", "HTTP/1.1 408 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &fakeSink{}
			conn, err := net.Dial("tcp", serveShort(t, testHandler(s)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, c.start)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-stop:
						return
					case <-tick.C:
						fmt.Fprint(conn, c.drip)
					}
				}
			}()
			if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			answer, err := bufio.NewReader(conn).ReadString('\n')
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Error("the connection is still open, want it closed")
			}
			if !strings.HasPrefix(answer, c.want) || c.want == "" && answer != "" {
				t.Errorf("answer %q, want %q", answer, c.want)
			}
			close(stop)
			<-stopped
			if len(s.msgs) != 0 {
				t.Errorf("%d messages are stored, want none", len(s.msgs))
			}
		})
	}
}

func TestOptionsStarIsChecked(t *testing.T) {
	addr := serveShort(t, testHandler(&fakeSink{}))
	for request, want := range map[string]string{
		"OPTIONS * HTTP/1.1\r\nHost: evil.example\r\n\r\n": "403",
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n":    "404",
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, request)
		answer, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(answer, want) {
			t.Errorf("%q: got %q, %v, want %q", request, answer, err, want)
		}
		conn.Close()
	}
}

// TestIngestReportsItsMemory holds bodies open until the bound is near, and releases them.
func TestIngestReportsItsMemory(t *testing.T) {
	const limit = 64 << 10
	dir := bustest.Start(t).Dir
	url, _ := start(t, Config{Bus: bus.Config{Dir: dir}, MaxInFlight: limit})
	bustest.Eventually(t, "readiness", func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 })

	var conns []net.Conn
	for range limit / firstRead { // each is given room for its first bytes
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n[")
		conns = append(conns, conn)
	}
	metric := func(line string) bool {
		_, _, body := send(t, "GET", url+"/metrics", "")
		return strings.Contains(body, "\n"+line+"\n")
	}
	bustest.Eventually(t, "full ingest", func() bool {
		return metric("tocsin_ingest_in_flight_requests 4") && metric("tocsin_ingest_in_flight_bytes 65536")
	})
	if status, header, body := send(t, "POST", url+"/v1/events", logEvent); status != http.StatusTooManyRequests || header.Get("Retry-After") != "1" {
		t.Errorf("got %d %v %s, want 429 with Retry-After 1", status, header, body)
	}
	if !metric("tocsin_ingest_shed_total 1") || !metric(`tocsin_ingest_requests_total{code="429",path="/v1/events"} 1`) {
		t.Errorf("the refused request is not counted, want 1 in tocsin_ingest_shed_total and in tocsin_ingest_requests_total with code 429")
	}
	for _, conn := range conns {
		conn.Close()
	}
	bustest.Eventually(t, "write", func() bool { status, _, _ := send(t, "POST", url+"/v1/events", logEvent); return status == 200 })

	used := func(msgs []bus.Message) (shares []float64) {
		for _, m := range msgs {
			if m.Subject != "telemetry.tocsin.memory" {
				continue
			}
			events, err := telemetry.DecodeMessage(m.Data)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				shares = append(shares, e.Memory.UsedBytes/e.Memory.LimitBytes)
			}
		}
		return shares
	}
	log := stored(t, dir, bus.RoleDetector, bus.StreamTelemetry, func(m []bus.Message) bool {
		s := used(m)
		return len(s) > 1 && s[len(s)-1] < 0.75
	})
	if shares := used(log); slices.Max(shares) < 0.9 || len(shares) > maxPending {
		t.Errorf("reported shares = %v, want one of 0.9 or more, and at most %d", shares, maxPending)
	}
}

func TestNewestTenResultsAreKept(t *testing.T) {
	dir := bustest.Start(t).Dir
	url, _ := start(t, Config{Bus: bus.Config{Dir: dir}})
	bustest.Eventually(t, "readiness", func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 })
	result := func(commit int, status string) {
		body := fmt.Sprintf(`{"status":%q,"commit":"c%d","name":"build"}`, status, commit)
		if code, _, answer := send(t, "POST", url+"/ci-result", body); code != 200 {
			t.Fatalf("got %d %s, want 200", code, answer)
		}
	}
	for i := range 12 {
		result(i, "failure")
	}
	result(5, "failure") // again: in place, and the newest now
	result(11, "success")
	view := stored(t, dir, bus.RoleGateway, bus.StreamCI, func(m []bus.Message) bool {
		return len(m) > 0 && strings.HasSuffix(m[len(m)-1].Subject, ".success")
	})
	var got []string
	for _, m := range view {
		got = append(got, strings.TrimPrefix(m.Subject, "ci.result.custom."))
	}
	want := []string{
		"c3.build.failure", "c4.build.failure", "c6.build.failure", "c7.build.failure", "c8.build.failure", "c9.build.failure",
		"c10.build.failure", "c11.build.failure", "c5.build.failure", "c11.build.success",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestForeignBodiesDelayNoNativeOnes checks that native bodies are answered while all slots
// for foreign formats are in use.
func TestForeignBodiesDelayNoNativeOnes(t *testing.T) {
	h := testHandler(&fakeSink{})
	begun, end := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for range cap(h.foreignSlots) {
		all.Go(func() {
			_, err := h.receiveEvents(ask("POST", "/", strings.NewReader("x")), &sender{events: func(*http.Request, *body) (decodedEvents, error) {
				begun <- struct{}{}
				<-end
				return decodedEvents{}, nil
			}})
			if err != nil {
				t.Errorf("receiveEvents = %v, want nil", err)
			}
		})
		<-begun
	}
	for path, body := range map[string]string{pathEvents: logEvent, pathCIResult: failure} {
		if w := answerOf(h, ask("POST", path, strings.NewReader(body), "Content-Type", typeJSON)); w.Code != 200 {
			t.Errorf("%s: got %d %s, want 200", path, w.Code, w.Body)
		}
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if w := answerOf(h, ask("POST", pathOTLPLogs, strings.NewReader("{}"), "Content-Type", typeJSON).WithContext(late)); w.Code != 503 {
		t.Errorf("one more foreign body: %d %s, want 503", w.Code, w.Body)
	}
	close(end)
	all.Wait()
}
