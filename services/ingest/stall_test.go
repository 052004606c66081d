package ingest

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestBusThatStopsAnswering checks that no request succeeds, that none waits for more than
// a few seconds, and that later ones do not wait at all.
func TestBusThatStopsAnswering(t *testing.T) {
	dir := bustest.Start(t).Dir
	r, err := dir.Running()
	if err != nil {
		t.Fatal(err)
	}
	p := bustest.NewProxy(t, r.NATSURL)
	url, _ := start(t, Config{Bus: bus.Config{URL: p.URL(), Creds: dir.Credential(string(bus.RoleIngest))}})
	ready := func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 }
	bustest.Eventually(t, "readiness", ready)

	p.Stall()
	var waiting sync.WaitGroup
	for range breakerFailures {
		waiting.Go(func() {
			start := time.Now()
			status, header, body := send(t, "POST", url+"/v1/events", logEvent)
			if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.HasPrefix(body, `{"ok":false,"error":"`) {
				t.Errorf("got %d %v %s, want 503 with Retry-After and the reason", status, header, body)
			}
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("answered after %s, want at most 8s", took)
			}
		})
	}
	waiting.Wait()
	start := time.Now()
	if status, _, body := send(t, "POST", url+"/ci-result", failure); status != 503 || !strings.Contains(body, "the last writes failed") || time.Since(start) > time.Second {
		t.Errorf("got %d %s after %s, want 503 with \"the last writes failed\" within 1s", status, body, time.Since(start))
	}
	// The reason may be the circuit or, later, the dead connection.
	if status, _, body := send(t, "GET", url+"/readyz", ""); status != 503 || !strings.Contains(body, errCircuitOpen.Error()) && !strings.Contains(body, bus.ErrUnreachable.Error()) {
		t.Errorf("got %d %s, want 503 with the reason", status, body)
	}
	p.Restore()
	bustest.Eventually(t, "write", func() bool { status, _, _ := send(t, "POST", url+"/v1/events", logEvent); return status == 200 })
	bustest.Eventually(t, "readiness again", ready)
}
