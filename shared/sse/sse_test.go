package sse_test

import (
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
