package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const testOrigin = "https://secret.invalid"

// echo stands for the server's websocket listener: it switches protocols and then sends
// everything back.
func echo(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != testOrigin {
			t.Errorf("Origin = %q, want %q", r.Header.Get("Origin"), testOrigin)
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, rw)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func startBounded(t *testing.T, bounds websocketBounds) string {
	t.Helper()
	p, err := startWebsocket(t.Context(), Config{
		WSAddr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		WSGuard: func(r *http.Request) error {
			if r.Header.Get("Origin") == "https://evil.example" {
				return errors.New("origin refused")
			}
			return nil
		},
	}, echo(t), testOrigin, bounds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return strings.TrimPrefix(p.url, "ws://")
}

func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

const upgrade = "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"

// status reads an answer and returns its status.
func status(r *bufio.Reader) (int, error) {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// open opens a connection and switches it to websocket.
func open(t *testing.T, addr string) (net.Conn, *bufio.Reader, error) {
	t.Helper()
	c := dialRaw(t, addr)
	r := bufio.NewReader(c)
	if _, err := io.WriteString(c, upgrade+"\r\n"); err != nil {
		return nil, nil, err
	}
	code, err := status(r)
	if err == nil && code != http.StatusSwitchingProtocols {
		err = fmt.Errorf("answered %d", code)
	}
	return c, r, err
}

// exchange sends a text and expects it back.
func exchange(t *testing.T, c net.Conn, r *bufio.Reader, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != text {
		t.Fatalf("got back %q, %v, want %q", got, err, text)
	}
}

func TestSlowRequestsAreDroppedAndWebsocketsLiveOn(t *testing.T) {
	bounds := defaultWebsocketBounds()
	bounds.header, bounds.read, bounds.idle = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	addr := startBounded(t, bounds)
	c, r, err := open(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, c, r, "at once")
	for name, begun := range map[string]string{
		"header": "GET / HTTP/1.1\r\nHost: localhost\r\n",
		"body":   "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nContent-Length: 9\r\n\r\n1",
		"idle":   "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n\r\n",
	} {
		slow := dialRaw(t, addr)
		if _, err := io.WriteString(slow, begun); err != nil {
			t.Fatal(err)
		}
		_, err := io.Copy(io.Discard, slow) // until the other side closes it
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("slow %s: the connection is open, want it closed", name)
		}
	}
	exchange(t, c, r, "after all of these times") // each slow one has taken 100 ms
}

func TestTheHeaderIsBounded(t *testing.T) {
	addr := startBounded(t, defaultWebsocketBounds())
	c := dialRaw(t, addr)
	if _, err := io.WriteString(c, upgrade+"X: "+strings.Repeat("x", 32<<10)+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	code, err := status(bufio.NewReader(c))
	if err != nil || code != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("status = %d, %v, want 431", code, err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	bounds := defaultWebsocketBounds()
	bounds.conns = 2
	addr := startBounded(t, bounds)
	first, _, err := open(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	c, r, err := open(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, addr); err == nil {
		t.Fatal("a third connection was accepted, want it refused")
	}
	exchange(t, c, r, "the second one stays open")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for { // the slot is free once the proxy has seen the end
		if _, _, err = open(t, addr); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		t.Fatalf("open after one was closed = %v, want nil within 10s", err)
	}
}

// TestTheInnerListenerKnowsTheProxyAlone checks that a page that finds the port of the server's
// own listener is refused there.
func TestTheInnerListenerKnowsTheProxyAlone(t *testing.T) {
	dir, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Config{
		Dir: dir, Addr: "127.0.0.1:0", WSAddr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		WSGuard: func(*http.Request) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	listener, err := url.Parse(s.ns.WebsocketURL())
	if err != nil {
		t.Fatal(err)
	}
	inner := listener.Host
	if host, _, err := net.SplitHostPort(inner); err != nil || host != "127.0.0.1" {
		t.Fatalf("the inner listener is on %s, %v, want 127.0.0.1", inner, err)
	}
	for _, origin := range []string{"null", "http://localhost:3000", "https://other.invalid:1", "http://" + inner, secretOrigin()} {
		c := dialRaw(t, inner)
		request := strings.Replace(upgrade, "http://localhost:3000", origin, 1) + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		code, err := status(bufio.NewReader(c))
		if err != nil || code != http.StatusForbidden {
			t.Errorf("origin %s: status = %d, %v, want 403", origin, code, err)
		}
	}
}
