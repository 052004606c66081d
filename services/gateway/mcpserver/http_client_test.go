package mcpserver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

func TestLongestIdle(t *testing.T) {
	now := time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	ago := func(d time.Duration, open int) *httpClient {
		return &httpClient{lastUsed: now.Add(-d), openRequests: open}
	}
	for _, tt := range []struct {
		clients map[string]*httpClient
		want    string
	}{
		{nil, ""},
		{map[string]*httpClient{"a": ago(time.Second, 0), "b": ago(evictableAfter-1, 0)}, ""},
		{map[string]*httpClient{"a": ago(evictableAfter, 0), "b": ago(time.Second, 0)}, "a"},
		{map[string]*httpClient{"a": ago(evictableAfter, 0), "b": ago(2*evictableAfter, 0), "c": ago(3*evictableAfter, 0)}, "c"},
		{map[string]*httpClient{"a": ago(evictableAfter, 0), "listens": ago(time.Hour, 1)}, "a"},
	} {
		if key, g := longestIdle(tt.clients, now); key != tt.want || (g != nil) != (key != "") {
			t.Errorf("%s, want %s", key, tt.want)
		}
	}
}

// TestTheLongestIdleSessionGivesWay connects as many clients as there is room for. While
// none is idle for a minute, another is refused; after that the one that is idle longest
// is ended, and never one that holds a stream open.
func TestTheLongestIdleSessionGivesWay(t *testing.T) {
	f := newHTTPServer(t.Context(), Config{Bus: bus.Config{URL: "nats://127.0.0.1:1"}, Logger: slog.New(slog.DiscardHandler)}, HTTPConfig{})
	var passed atomic.Int64
	start := time.Now()
	f.now = func() time.Time { return start.Add(time.Duration(passed.Load())) }
	server := httptest.NewServer(f)
	defer server.Close()
	defer f.end()
	ask := func(ctx context.Context, method, session, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, server.URL+pathMCP, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(headerSession, session)
		response, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	status := func(method, session, body string) (code int, given string) {
		t.Helper()
		response := ask(t.Context(), method, session, body)
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return response.StatusCode, response.Header.Get(headerSession)
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	var sessions []string
	for i := range maxClients {
		passed.Add(int64(time.Second / maxClients)) // each is idle for less long than the one before
		code, session := status(http.MethodPost, "", initialize)
		if code != http.StatusOK {
			t.Fatalf("got %d for client %d, want 200", code, i)
		}
		sessions = append(sessions, session)
	}
	streaming, stop := context.WithCancel(t.Context())
	defer stop()
	stream := ask(streaming, http.MethodGet, sessions[0], "")
	defer func() { _ = stream.Body.Close() }()
	passed.Add(int64(30 * time.Second))
	if code, _ := status(http.MethodPost, sessions[1], ping); code != http.StatusOK {
		t.Fatalf("got %d for a ping, want 200", code)
	}
	passed.Add(int64(29 * time.Second)) // none is idle for a minute
	if code, _ := status(http.MethodPost, "", initialize); code != http.StatusServiceUnavailable {
		t.Errorf("got %d for one more client, want 503", code)
	}
	passed.Add(int64(2 * time.Second))
	if code, _ := status(http.MethodPost, "", initialize); code != http.StatusOK {
		t.Errorf("got %d once clients are idle for a minute, want 200", code)
	}
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusNotFound, http.StatusOK} {
		if code, _ := status(http.MethodPost, sessions[i], ping); code != want {
			t.Errorf("got %d for the session of client %d after it, want %d", code, i, want)
		}
	}
}

// TestRoomIsMade: the idle client that makes room is ended, and another takes its place.
func TestRoomIsMade(t *testing.T) {
	h := newHTTPServer(t.Context(), Config{Logger: slog.New(slog.DiscardHandler)}, HTTPConfig{})
	newClient := func() *httpClient { return h.newClient("", transport{inboxKey: func(string) string { return "x" }}) }
	for i := range maxClients {
		c := newClient()
		c.sessionless = true
		if !h.addClient(fmt.Sprint(i), c) {
			t.Fatalf("client %d is refused, want it accepted", i)
		}
	}
	if h.addClient("late", &httpClient{}) || !h.full() {
		t.Error("there is room for another client, want none: none is idle for long enough")
	}
	idle := h.clients["7"]
	idle.lastUsed = time.Now().Add(-evictableAfter)
	if h.full() || !h.addClient("late", newClient()) {
		t.Error("another client is refused, want an idle one to make room")
	}
	h.ending.Wait()
	if idle.life.Context().Err() == nil || h.clients["7"] != nil || len(h.clients) != maxClients {
		t.Errorf("after one client too many: %d clients, idle one ended: %t, want %d with the idle one ended", len(h.clients), idle.life.Context().Err() != nil, maxClients)
	}
	for _, c := range h.clients {
		c.life.Abort()
	}
}
