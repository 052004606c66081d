package mcpserver_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// present asks the gateways for their health until ok accepts it.
func (r *rig) present(t *testing.T, ok func([]query.Health) bool) []query.Health {
	t.Helper()
	c := r.Join(t, bus.RoleGateway)
	var all []query.Health
	if !testrig.Poll(func() bool {
		var err error
		all, err = presence.Collect(t.Context(), c, 200*time.Millisecond)
		return err == nil && ok(all)
	}) {
		t.Fatalf("got %+v, want other answers", all)
	}
	return all
}

// TestHealthOnStdio: a gateway answers health queries with its client, inbox and
// notifications.
func TestHealthOnStdio(t *testing.T) {
	r := newRig(t)
	c := r.dial(t, "")
	early := r.present(t, func(all []query.Health) bool { return len(all) == 1 })
	if h := early[0]; h.Service != "gateway" || h.Version != "1.2.3" || h.Gateway == nil || h.Gateway.Client != "" || h.Gateway.Protocol != "" || h.OK {
		t.Errorf("health before initialize = %+v, %+v, want a gateway 1.2.3 that is not ok, without client and protocol", h, h.Gateway)
	}
	c.initialize(t, "2025-11-25")
	first, second := r.Alert(alert.Error), r.Alert(alert.Warning)
	r.Publish(t, first)
	c.call(t, "configure_streaming", `{"action":"enable","events":["ci"],"throttle_seconds":7,"severity_min":"error","url_filter":"/cart"}`)
	r.Publish(t, second)
	all := r.present(t, func(all []query.Health) bool {
		return len(all) == 1 && all[0].Gateway.Streaming && all[0].Gateway.Inbox == 2
	})
	g := all[0].Gateway
	if !all[0].OK || all[0].ID != early[0].ID || g.Client != "test 1" || g.Protocol != "2025-11-25" ||
		strings.Join(g.Events, " ") != "ci" || g.ThrottleSeconds != 7 || g.SeverityMin != "error" || g.URL != "/cart" {
		t.Errorf("health = %+v, %+v, want it ok for client test 1, with the enabled notifications", all[0], g)
	}
	r.Down()
	r.Up(t) // at another address
	back := r.present(t, func(all []query.Health) bool { return len(all) == 1 })
	if back[0].ID != all[0].ID || back[0].Gateway.Client != "test 1" {
		t.Errorf("health after the bus came back = %+v, %+v, want the same gateway and client", back[0], back[0].Gateway)
	}
}

// TestHealthOverHTTP: each session answers for itself, and no longer once its client has
// gone.
func TestHealthOverHTTP(t *testing.T) {
	r := newRig(t)
	url := r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{})
	join(t, url)
	second, _ := join(t, url+"?client=named")
	all := r.present(t, func(all []query.Health) bool { return len(all) == 2 && all[0].OK && all[1].OK })
	clients := map[string]bool{}
	for _, h := range all {
		clients[h.Gateway.Client] = true
	}
	if !clients["twin 1"] || !clients["named"] || all[0].ID == all[1].ID {
		t.Errorf("got %v, want twin 1 and named", clients)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	all = r.present(t, func(all []query.Health) bool { return len(all) == 1 })
	if all[0].Gateway.Client != "twin 1" {
		t.Errorf("got %+v, want %v", all[0].Gateway, "twin 1")
	}
}
