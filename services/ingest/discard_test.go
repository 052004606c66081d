package ingest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/shared/httpserve"

	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestClientOfLargeBodyReadsRefusal checks that a simple client, which sends the whole
// request before it reads, finds the answer and not a broken connection.
func TestClientOfLargeBodyReadsRefusal(t *testing.T) {
	const size = 5 << 20
	ts := httptest.NewUnstartedServer(nil)
	ts.Config = httpserve.NewServer(testHandler(&fakeSink{}, withBearer), quiet())
	ts.Start()
	t.Cleanup(ts.Close)
	const token, typed = "Authorization: Bearer bearer\r\n", "Content-Type: application/json\r\n"
	for name, c := range map[string]struct {
		path, header string
		chunked      bool
		want         string
	}{
		"another type":      {pathEvents, token + "Content-Type: image/png\r\n", false, "415"},
		"no type":           {pathCIResult, token, false, "415"},
		"packed":            {pathCIResult, token + typed + "Content-Encoding: gzip\r\n", false, "415"},
		"packed webhook":    {pathGitLab, token + typed + "Content-Encoding: gzip\r\n", false, "415"},
		"packed in chunks":  {pathCIResult, token + typed + "Content-Encoding: gzip\r\n", true, "415"},
		"too large":         {pathEvents, token + typed, false, "413"},
		"too large, chunks": {pathEvents, token + typed, true, "413"},
		"no token":          {pathEvents, typed, false, "401"},
		"no such path":      {"/v2/events", typed, false, "404"},
		"a page elsewhere":  {pathCIResult, token + typed + "Origin: https://evil.example\r\n", false, "403"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", ts.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\n%s", c.path, c.header)
			if c.chunked {
				_, err = fmt.Fprintf(conn, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, strings.Repeat("x", size))
			} else {
				_, err = fmt.Fprintf(conn, "Content-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
			}
			if err != nil {
				t.Fatalf("send the request: %v", err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("read the answer: %v", err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || !strings.HasPrefix(resp.Status, c.want) || !strings.Contains(string(body), `{"ok":false,"error":"`) {
				t.Errorf("got %s %s %v, want %s", resp.Status, body, err, c.want)
			}
		})
	}
}

// TestEndlessRefusedBody checks that reading stops at a bound, in bytes and in time.
func TestEndlessRefusedBody(t *testing.T) {
	// net/http keeps a connection for a moment whose body it has not read to the end.
	t.Cleanup(func() { bustest.Eventually(t, "end of the connection", func() bool { return goleak.Find() == nil }) })
	addr := serveShort(t, testHandler(&fakeSink{}))
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 1000000\r\n\r\nx")
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(answer, "415") {
		t.Errorf("a body that stops: got %q, %v, want 415", answer, err)
	}

	read := &counted{}
	r := ask("POST", "/v1/events", read, "Content-Type", "image/png")
	r.ContentLength = -1
	if w := answerOf(testHandler(&fakeSink{}), r); w.Code != 415 || read.bytes > 2*discardLimit {
		t.Errorf("a body without an end: got %d after %d bytes, want 415 after at most %d", w.Code, read.bytes, 2*discardLimit)
	}
	read = &counted{}
	r = ask("POST", "/v1/events", read, "Content-Type", "image/png", "Expect", "100-continue")
	r.ContentLength = 5 << 20
	if w := answerOf(testHandler(&fakeSink{}), r); w.Code != 415 || read.bytes != 0 {
		t.Errorf("a sender that waits for 100 Continue: got %d after %d bytes, want 415 after 0", w.Code, read.bytes)
	}
}

// counted is an endless body that counts the bytes that are read.
type counted struct{ bytes int }

func (c *counted) Read(p []byte) (int, error) { c.bytes += len(p); return len(p), nil }
