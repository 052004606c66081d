package ingest

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// listening runs an ingest service and returns its addresses.
func listening(t *testing.T, cfg Config) Listening {
	t.Helper()
	ready := make(chan Listening, 1)
	cfg.Addr, cfg.Logger, cfg.Masker = "127.0.0.1:0", quiet(), fakeMasker{}
	cfg.Ready = func(at Listening) { ready <- at }
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want no error", err)
		}
	})
	select {
	case at := <-ready:
		return at
	case err := <-done:
		done <- nil
		t.Fatal(err)
		return Listening{}
	}
}

// TestOTLPPort checks that the OTLP port accepts nothing else, and that ingest starts
// without it if another process uses the port.
func TestOTLPPort(t *testing.T) {
	dir := bustest.Start(t).Dir
	at := listening(t, Config{Bus: bus.Config{Dir: dir}, OTLPAddr: "127.0.0.1:0"})
	if at.OTLP == "" || at.OTLP == at.Ingest {
		t.Fatalf("listening on %+v, want two addresses", at)
	}
	for path, want := range map[string]int{pathHealth: 200, pathEvents: 404, pathCIResult: 404, pathMetrics: 404, "/": 404} {
		if status, _, body := send(t, "GET", at.OTLP+path, ""); status != want {
			t.Errorf("%s on the port for OTLP: got %d %s, want %d", path, status, body, want)
		}
	}
	for _, path := range []string{pathHealth, pathEvents, "/"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.OTLP+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "tocsin.example"
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s with another Host: got %d, error %v, want 403", path, resp.StatusCode, err)
		}
	}
	for _, path := range []string{pathOTLPLogs, pathOTLPTraces, pathOTLPMetrics} {
		for _, base := range []string{at.OTLP, at.Ingest} {
			if status, _, body := send(t, "POST", base+path, "{}"); status != 200 {
				t.Errorf("%s%s: got %d %s, want 200", base, path, status, body)
			}
		}
	}

	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if at := listening(t, Config{Bus: bus.Config{Dir: dir}, OTLPAddr: taken.Addr().String()}); at.OTLP != "" || at.Ingest == "" {
		t.Errorf("with the port for OTLP taken: listening on %+v, want ingest alone", at)
	}
	if at := listening(t, Config{Bus: bus.Config{Dir: dir}}); at.OTLP != "" {
		t.Errorf("without a port for OTLP: listening on %+v, want ingest alone", at)
	}
	for _, addr := range []string{"foo", "0.0.0.0:0", "127.0.0.1:99999"} {
		err := Run(t.Context(), Config{Bus: bus.Config{Dir: dir}, Addr: "127.0.0.1:0", OTLPAddr: addr, Logger: quiet(), Masker: fakeMasker{}})
		if err == nil || !strings.Contains(err.Error(), "TOCSIN_OTLP_ADDR") {
			t.Errorf("port for OTLP %s: error %v, want one that names TOCSIN_OTLP_ADDR", addr, err)
		}
	}
}
