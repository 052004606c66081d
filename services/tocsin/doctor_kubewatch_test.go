package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// watching returns the health of a kubewatch. The first character of each cluster says
// its state: + active, - on standby, ! degraded.
func watching(pid int, clusters ...string) query.Health {
	h := query.Health{Service: "kubewatch", Host: "h", PID: pid, OK: true, Kubewatch: &query.KubewatchHealth{}}
	for _, c := range clusters {
		health := query.ClusterHealth{Cluster: c[1:], Active: c[0] != '-'}
		if c[0] == '!' {
			health.Degraded, health.Error = true, "forbidden"
			h.OK, h.Reason = false, "degraded"
		}
		h.Kubewatch.Clusters = append(h.Kubewatch.Clusters, health)
	}
	return h
}

func TestWatches(t *testing.T) {
	unhealthy := watching(1)
	unhealthy.OK, unhealthy.Reason = false, "the bus\x1b is unreachable"
	for _, tt := range []struct {
		name string
		all  []query.Health
		want string
	}{
		{"none", []query.Health{{Service: "detector", OK: true}}, ""},
		{"one", []query.Health{watching(1, "+dev")}, "ok dev is watched by pid 1 on h"},
		{"two", []query.Health{watching(1, "-dev", "+prod"), watching(2, "+dev", "-prod")},
			"ok dev is watched by pid 2 on h, on standby: 1; ok prod is watched by pid 1 on h, on standby: 1"},
		{"degraded", []query.Health{watching(1, "!dev", "+prod")}, "FAIL dev can't be watched by pid 1 on h: forbidden; ok prod is watched by pid 1 on h"},
		{"none active", []query.Health{watching(1, "-dev"), watching(2, "-dev")}, "FAIL no active watcher of dev, on standby: 2"},
		{"unhealthy", []query.Health{unhealthy}, "FAIL pid 1 on h is unhealthy: the bus␛ is unreachable"},
	} {
		var got []string
		for _, f := range watches(tt.all) {
			got = append(got, f.mark()+" "+f.result)
		}
		if got := strings.Join(got, "; "); got != tt.want {
			t.Errorf("%s: findings = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestDoctorOfAKubewatch asks a running kubewatch over a bus.
func TestDoctorOfAKubewatch(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	rig.Provision(bus.Layout{Replicas: 1})
	flags := service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(bus.RoleGateway)}
	if got := examined(t, flags, bus.Layout{Replicas: 1}); strings.Contains(got, "kubewatch") {
		t.Errorf("findings without a kubewatch = %s, want none of it", got)
	}
	c := rig.Connect(bus.RoleKubewatch)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- presence.Serve(ctx, c, presence.Identify("kubewatch", "1", slog.New(slog.DiscardHandler)), func() query.Health { return watching(0, "+dev") })
	}()
	for until := time.Now().Add(10 * time.Second); ; {
		got := examined(t, flags, bus.Layout{Replicas: 1})
		if strings.Contains(got, "kubewatch: dev is watched by pid ") {
			break
		}
		if time.Now().After(until) {
			t.Errorf("findings = %s, want the watched cluster", got)
			break
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
