package main

import (
	"slices"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

func TestInPlace(t *testing.T) {
	all := statedir.Runtime{
		IngestURL: "http://127.0.0.1:4001", DashboardURL: "http://[::1]:4002", OTLPURL: "http://127.0.0.1:4005",
		InvestigatorURL: "http://127.0.0.1:4006",
		NATSURL:         "nats://127.0.0.1:4003", NATSWSURL: "ws://127.0.0.1:4004",
	}
	for name, c := range map[string]struct {
		set  func(c *upCommand)
		at   statedir.Runtime
		want []string
	}{
		"the default addresses": {func(c *upCommand) { c.IngestAddr, c.NATSAddr = "127.0.0.1:7400", "127.0.0.1:7422" }, all, nil},
		"ports left open": {
			func(c *upCommand) {
				c.IngestAddr, c.Dashboard.DashboardAddr, c.NATSAddr, c.NATSWSAddr = "0.0.0.0:0", "[::1]:0", "127.0.0.1:0", "localhost:0"
				c.OTLPAddr, c.Investigation.InvestigatorAddr = " 127.0.0.1:0", "127.0.0.1:0"
			},
			all,
			[]string{"--ingest-addr=0.0.0.0:4001", "--otlp-addr=127.0.0.1:4005", "--dashboard-addr=[::1]:4002", "--investigator-addr=127.0.0.1:4006", "--nats-addr=127.0.0.1:4003", "--nats-ws-addr=localhost:4004"},
		},
		"no address yet": {func(c *upCommand) { c.IngestAddr = ":0" }, statedir.Runtime{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := &upCommand{}
			c.set(cmd)
			args := []string{"tocsin", "up"}
			if got, want := cmd.restartArgs(args, c.at), append(slices.Clone(args), c.want...); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
