package sse_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/sse"
)

func TestAppend(t *testing.T) {
	for want, got := range map[string][]byte{
		"data: {}\n\n":                          sse.Append(nil, sse.Event{Data: []byte("{}")}),
		"id: 7\ndata: {}\n\n":                   sse.Append(nil, sse.Event{ID: "7", Data: []byte("{}")}),
		"id: 7\nevent: dropped\ndata: {}\n\n":   sse.Append(nil, sse.Event{ID: "7", Name: "dropped", Data: []byte("{}")}),
		"x: heartbeat\n\n":                      sse.AppendComment([]byte("x"), "heartbeat"),
		"retry: 1000\n: tocsin\n\n":             sse.AppendComment(sse.AppendRetry(nil, time.Second), "tocsin"),
		"data: a\n\nevent: message\ndata: \n\n": sse.Append(sse.Append(nil, sse.Event{Data: []byte("a")}), sse.Event{Name: "message"}),
	} {
		if string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSend: what was sent arrives before the handler returns, and a client that does not
// read ends the stream.
func TestSend(t *testing.T) {
	ended := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := sse.NewWriter(w, 100*time.Millisecond)
		if err := out.Send([]byte(": begun\n\n")); err != nil {
			t.Errorf("Send = %v, want nil", err)
		}
		large := sse.AppendComment(nil, string(make([]byte, 1<<20)))
		for {
			if err := out.Send(large); err != nil {
				ended <- err
				return
			}
		}
	}))
	defer s.Close()
	resp, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != ": begun\n" {
		t.Errorf("first line %q (%v), want %q", line, err, ": begun\n")
	}
	if err := <-ended; err == nil {
		t.Error("Send to a client that does not read = nil, want an error")
	}
}
