package httpserve_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

func TestServerSentEvents(t *testing.T) {
	for want, got := range map[string][]byte{
		"data: {}\n\n":                          httpserve.AppendEvent(nil, httpserve.ServerSentEvent{Data: []byte("{}")}),
		"id: 7\ndata: {}\n\n":                   httpserve.AppendEvent(nil, httpserve.ServerSentEvent{ID: "7", Data: []byte("{}")}),
		"id: 7\nevent: dropped\ndata: {}\n\n":   httpserve.AppendEvent(nil, httpserve.ServerSentEvent{ID: "7", Name: "dropped", Data: []byte("{}")}),
		"x: heartbeat\n\n":                      httpserve.AppendComment([]byte("x"), "heartbeat"),
		"retry: 1000\n: tocsin\n\n":             httpserve.AppendComment(httpserve.AppendRetry(nil, time.Second), "tocsin"),
		"data: a\n\nevent: message\ndata: \n\n": httpserve.AppendEvent(httpserve.AppendEvent(nil, httpserve.ServerSentEvent{Data: []byte("a")}), httpserve.ServerSentEvent{Name: "message"}),
	} {
		if string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
