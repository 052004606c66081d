package main

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// restartArgs returns the arguments to restart this process in place. For port 0 in the
// settings, they have the port at which it was listening, because senders and open pages know it.
func (c *upCommand) restartArgs(args []string, listening statedir.Runtime) []string {
	args = slices.Clone(args)
	for _, l := range []struct{ flag, set, url string }{
		{"--ingest-addr", c.IngestAddr, listening.IngestURL},
		{"--otlp-addr", strings.TrimSpace(c.OTLPAddr), listening.OTLPURL},
		{"--dashboard-addr", c.Dashboard.DashboardAddr, listening.DashboardURL},
		{"--investigator-addr", c.Investigation.InvestigatorAddr, listening.InvestigatorURL},
		{"--nats-addr", c.NATSAddr, listening.NATSURL},
		{"--nats-ws-addr", c.NATSWSAddr, listening.NATSWSURL},
	} {
		if host, port, err := net.SplitHostPort(l.set); err == nil && port == "0" {
			if u, err := url.Parse(l.url); err == nil && u.Port() != "" {
				args = append(args, l.flag+"="+net.JoinHostPort(host, u.Port())) // the last value of a flag wins
			}
		}
	}
	return args
}
