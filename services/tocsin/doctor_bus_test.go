package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// examined is what doctor says of an external bus, a line each.
func examined(t *testing.T, flags service.BusFlags, layout bus.Layout) string {
	t.Helper()
	d := doctor{env: service.Env{Stdout: io.Discard, Logger: slog.New(slog.DiscardHandler)}, flags: flags, layout: layout}
	ctx, cancel := context.WithTimeout(t.Context(), doctorTimeout)
	defer cancel()
	var out strings.Builder
	for _, f := range d.bus(ctx) {
		fmt.Fprintf(&out, "%s: %s [%s]\n", f.what, f.is, f.mend)
	}
	return out.String()
}

// TestDoctorOfAnExternalBus: what can be wrong there, each with its mend.
func TestDoctorOfAnExternalBus(t *testing.T) {
	rig := bustest.Cluster(t, 3)
	gateway := service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(bus.RoleGateway)}
	expect := func(got string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("%s is not in\n%s", part, got)
			}
		}
	}
	expect(examined(t, gateway, bus.Layout{}),
		"stream TELEMETRY: does not exist [run tocsin provision", "stream KV_owners: does not exist [", "detector: does not answer")

	rig.Provision(bus.Layout{Replicas: 1})
	expect(examined(t, gateway, bus.Layout{}), "stream ALERTS: to do: 3 replicas in place of 1 [run tocsin provision")
	if got := examined(t, gateway, bus.Layout{Replicas: 1}); strings.Contains(got, "provision") {
		t.Errorf("one copy is wanted, and told is\n%s", got)
	}

	rig.Provision(bus.Layout{})
	var got string
	for deadline := time.Now().Add(30 * time.Second); ; { // the new copies catch up
		if got = examined(t, gateway, bus.Layout{}); !strings.Contains(got, "stream ") || time.Now().After(deadline) {
			break
		}
	}
	expect(got, "streams: telemetry is in 1 partition", "cluster bustest []")
	if strings.Contains(got, "provision") || strings.Contains(got, "stream ") {
		t.Errorf("all is well, and told is\n%s", got)
	}
	expect(examined(t, gateway, bus.Layout{Partitions: 4}), "to do: split it into 4 partitions")

	away := (rig.Leader(bus.StreamTelemetry) + 1) % rig.Len() // telemetry has one copy
	rig.Stop(away)
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(got, "is away") && time.Now().Before(deadline); {
		got = examined(t, gateway, bus.Layout{})
	}
	expect(got, fmt.Sprintf("stream ALERTS: the copy on node%d is away [start that server", away+1))

	for name, wrong := range map[string]struct {
		flags service.BusFlags
		want  string
	}{
		"another role's key": {service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(bus.RoleIngest)}, "name the gateway's credentials"},
		"no key":             {service.BusFlags{NATSURL: rig.URL()}, "check TOCSIN_NATS_CREDS"},
		"no TLS there":       {service.BusFlags{NATSURL: strings.ReplaceAll(rig.URL(), "nats:", "tls:"), NATSCreds: rig.Creds(bus.RoleGateway)}, "set TOCSIN_NATS_CA"},
		"nobody there":       {service.BusFlags{NATSURL: "nats://127.0.0.1:1"}, "check TOCSIN_NATS_URL"},
	} {
		if got := examined(t, wrong.flags, bus.Layout{}); !strings.Contains(got, wrong.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}
