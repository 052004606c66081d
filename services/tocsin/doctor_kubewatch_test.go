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

// watching is a process that says of clusters: + it watches, - it stands by, ! it
// watches and can't.
func watching(pid int, clusters ...string) query.Health {
	h := query.Health{Service: "kubewatch", Host: "h", PID: pid, OK: true, Kubewatch: &query.KubewatchHealth{}}
	for _, c := range clusters {
		is := query.ClusterHealth{Cluster: c[1:], Active: c[0] != '-'}
		if c[0] == '!' {
			is.Degraded, is.Error = true, "forbidden"
			h.OK, h.Reason = false, "degraded"
		}
		h.Kubewatch.Clusters = append(h.Kubewatch.Clusters, is)
	}
	return h
}

func TestWatches(t *testing.T) {
	sick := watching(1)
	sick.OK, sick.Reason = false, "the bus\x1b is away"
	for _, tt := range []struct {
		name string
		all  []query.Health
		want string
	}{
		{"none", []query.Health{{Service: "detector", OK: true}}, ""},
		{"one", []query.Health{watching(1, "+dev")}, "ok dev is watched by pid 1 on h"},
		{"two", []query.Health{watching(1, "-dev", "+prod"), watching(2, "+dev", "-prod")},
			"ok dev is watched by pid 2 on h, standing by: 1; ok prod is watched by pid 1 on h, standing by: 1"},
		{"degraded", []query.Health{watching(1, "!dev", "+prod")}, "BAD dev can't be watched by pid 1 on h: forbidden; ok prod is watched by pid 1 on h"},
		{"nobody", []query.Health{watching(1, "-dev"), watching(2, "-dev")}, "BAD nobody watches dev, standing by: 2"},
		{"not well", []query.Health{sick}, "BAD pid 1 on h is not well: the bus␛ is away"},
	} {
		var got []string
		for _, f := range watches(tt.all) {
			mark := "ok "
			if f.mend != "" {
				mark = "BAD "
			}
			got = append(got, mark+f.is)
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, strings.Join(got, "; "), tt.want)
		}
	}
}

// TestDoctorOfAKubewatch: one that runs is asked, on a bus.
func TestDoctorOfAKubewatch(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	rig.Provision(bus.Layout{Replicas: 1})
	flags := service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(bus.RoleGateway)}
	if got := examined(t, flags, bus.Layout{Replicas: 1}); strings.Contains(got, "kubewatch") {
		t.Errorf("where there is none:\n%s", got)
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
			t.Errorf("told is\n%s", got)
			break
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
