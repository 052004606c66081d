package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// examined returns the findings of doctor on an external bus, one in each line.
func examined(t *testing.T, flags service.BusFlags, layout bus.Layout) string {
	t.Helper()
	d := doctor{env: service.Env{Stdout: io.Discard, Logger: slog.New(slog.DiscardHandler)}, flags: flags, layout: layout}
	ctx, cancel := context.WithTimeout(t.Context(), doctorTimeout)
	defer cancel()
	var out strings.Builder
	for _, f := range d.bus(ctx) {
		fmt.Fprintf(&out, "%s: %s [%s]\n", f.check, f.result, f.fix)
	}
	return out.String()
}

func TestCopiesOf(t *testing.T) {
	others := func(n int) (peers []*jetstream.PeerInfo) {
		for range n {
			peers = append(peers, &jetstream.PeerInfo{Name: "node2", Current: true})
		}
		return peers
	}
	for want, info := range map[string]jetstream.StreamInfo{
		"": {Config: jetstream.StreamConfig{Replicas: 3}, Cluster: &jetstream.ClusterInfo{Leader: "node1", Replicas: others(2)}},
		"1 of 3 replicas exist, the others are being created": {
			Config: jetstream.StreamConfig{Replicas: 3}, Cluster: &jetstream.ClusterInfo{Leader: "node1"},
		},
		"it has no leader, the replica on node2 lags by 7 messages": {
			Config: jetstream.StreamConfig{Replicas: 2}, Cluster: &jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{{Name: "node2", Lag: 7}}},
		},
	} {
		if got := replicaProblem(&info); got != want {
			t.Errorf("replicaProblem = %q, want %q", got, want)
		}
	}
	if got := replicaProblem(&jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 1}}); got != "" {
		t.Errorf("replicaProblem a single server = %q, want nothing", got)
	}
}

// TestDoctorOfAnExternalBus checks the findings for each fault, and their fixes.
func TestDoctorOfAnExternalBus(t *testing.T) {
	rig := bustest.Cluster(t, 3)
	gateway := service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(bus.RoleGateway)}
	expect := func(got string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("findings = %s, want %q in them", got, part)
			}
		}
	}
	expect(examined(t, gateway, bus.Layout{}),
		"stream TELEMETRY: does not exist [run tocsin provision", "stream KV_owners: does not exist [", "detector: does not answer")

	rig.Provision(bus.Layout{Replicas: 1})
	expect(examined(t, gateway, bus.Layout{}), "stream ALERTS: to change: 3 replicas in place of 1 [run tocsin provision")
	if got := examined(t, gateway, bus.Layout{Replicas: 1}); strings.Contains(got, "provision") {
		t.Errorf("findings with the wanted number of replicas, want none for tocsin provision:\n%s", got)
	}

	rig.Provision(bus.Layout{})
	var got string
	for deadline := time.Now().Add(30 * time.Second); ; { // the new copies catch up
		if got = examined(t, gateway, bus.Layout{}); !strings.Contains(got, "stream ") || time.Now().After(deadline) {
			break
		}
	}
	expect(got, "streams: telemetry has 1 partition", "cluster bustest []")
	if strings.Contains(got, "provision") || strings.Contains(got, "stream ") {
		t.Errorf("findings on a healthy bus, want no fix:\n%s", got)
	}
	expect(examined(t, gateway, bus.Layout{Partitions: 4}), "to change: split it into 4 partitions")

	stopped := (rig.Leader(bus.StreamTelemetry) + 1) % rig.Len() // telemetry has one copy
	rig.Stop(stopped)
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(got, "is offline") && time.Now().Before(deadline); {
		got = examined(t, gateway, bus.Layout{})
	}
	expect(got, fmt.Sprintf("stream ALERTS: the replica on node%d is offline [start that server", stopped+1))

	for name, tt := range map[string]struct {
		flags service.BusFlags
		want  string
	}{
		"another role's key": {service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(bus.RoleIngest)}, "set TOCSIN_NATS_CREDS to the gateway's credentials"},
		"no key":             {service.BusFlags{NATSURL: rig.URL()}, "check TOCSIN_NATS_CREDS"},
		"no TLS there":       {service.BusFlags{NATSURL: strings.ReplaceAll(rig.URL(), "nats:", "tls:"), NATSCreds: rig.Creds(bus.RoleGateway)}, "set TOCSIN_NATS_CA"},
		"no server":          {service.BusFlags{NATSURL: "nats://127.0.0.1:1"}, "check TOCSIN_NATS_URL"},
	} {
		if got := examined(t, tt.flags, bus.Layout{}); !strings.Contains(got, tt.want) {
			t.Errorf("%s: findings lack %q:\n%s", name, tt.want, got)
		}
	}
}

// TestDoctorOfADetectorThatCannot expects the error that a detector answers with.
func TestDoctorOfADetectorThatCannot(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	rig.Provision(bus.Layout{})
	c := rig.Connect(bus.RoleDetector)
	if _, err := c.NC.Subscribe(query.SubjectStatus, func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{micro.ErrorHeader: {"no detector owns it"}, micro.ErrorCodeHeader: {"503"}}})
	}); err != nil {
		t.Fatal(err)
	}
	if err := c.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	got := examined(t, service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(bus.RoleGateway)}, bus.Layout{})
	if !strings.Contains(got, "detector: answers with an error: no detector owns it [") {
		t.Errorf("findings = %s, want the detector's error", got)
	}
}
