package mcpserver_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// TestIngestIsInStatusAndHealth: both report that events are refused, and why, and that
// there is no ingest at all.
func TestIngestIsInStatusAndHealth(t *testing.T) {
	r := newRig(t)
	c := r.dial(t, "")
	c.initialize(t, "2025-11-25")
	c.pending(t, 0)
	var answer string
	reports := func(want string) {
		t.Helper()
		for _, call := range [][2]string{{"observe", `{"what":"status"}`}, {"configure", `{"action":"health"}`}} {
			if !testrig.Poll(func() bool {
				answer = c.call(t, call[0], call[1]).blocks[0]
				return strings.Contains(answer, want)
			}) {
				t.Errorf("%s: got %s, want %s in it", call[0], answer, want)
			}
		}
	}
	reports(`"intake":{"ok":false,"reason":"no ingest service answers`)

	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	var full atomic.Bool
	ingest := r.Join(t, bus.RoleIngest)
	serving.Go(func() {
		cfg := presence.Config{Service: "ingest", ID: "1", Version: "1.2.3", Started: time.Now(), Logger: testrig.Quiet()}
		err := presence.Serve(ctx, ingest, cfg, func() query.Health {
			if full.Load() {
				return query.Health{Reason: "no space left on\x1b device, Bearer abcdefghijklmnopqrstuvwxyz123456"}
			}
			return query.Health{OK: true}
		})
		if err != nil {
			t.Error(err)
		}
	})
	reports(`"intake":{"ok":true}`)
	full.Store(true)
	reports(`"intake":{"ok":false,"reason":"no space left on␛ device, Bearer [REDACTED`)

	r.Down()
	reports(`"intake":null`)
}

// TestASlowIngestIsNotGone checks that an ingest which does not answer in time is not
// reported as missing: its health is unknown.
func TestASlowIngestIsNotGone(t *testing.T) {
	r := newRig(t)
	ingest := r.Join(t, bus.RoleIngest)
	if _, err := ingest.NC.Subscribe("$SRV.STATS.tocsin-ingest", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := ingest.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	c := r.dial(t, "")
	c.initialize(t, "2025-11-25")
	c.pending(t, 0)
	for _, call := range [][2]string{{"observe", `{"what":"status"}`}, {"configure", `{"action":"health"}`}} {
		if got := c.call(t, call[0], call[1]).blocks[0]; !strings.Contains(got, `"intake":null`) {
			t.Errorf("%s: got %s, want \"intake\":null in it", call[0], got)
		}
	}
}
