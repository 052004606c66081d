package main

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// restartArgs returns the arguments to restart this process in place, which listened at the
// addresses of a runtime. For port 0 in the settings, they have the current port, because
// senders and open pages know it.
func (c *upCommand) restartArgs(args []string, at statedir.Runtime) []string {
	args = slices.Clone(args)
	for _, l := range []struct{ flag, set, url string }{
		{"--ingest-addr", c.IngestAddr, at.IngestURL},
		{"--otlp-addr", strings.TrimSpace(c.OTLPAddr), at.OTLPURL},
		{"--dashboard-addr", c.Dashboard.DashboardAddr, at.DashboardURL},
		{"--nats-addr", c.NATSAddr, at.NATSURL},
		{"--nats-ws-addr", c.NATSWSAddr, at.NATSWSURL},
	} {
		if host, port, err := net.SplitHostPort(l.set); err == nil && port == "0" {
			if u, err := url.Parse(l.url); err == nil && u.Port() != "" {
				args = append(args, l.flag+"="+net.JoinHostPort(host, u.Port())) // the last value of a flag wins
			}
		}
	}
	return args
}
