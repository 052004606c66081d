package main

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// inPlace returns the arguments of a process that takes the place of this one, which
// listened at the addresses of a runtime. Where the settings leave the port open, it
// keeps the one that senders and open pages know.
func (c *upCommand) inPlace(args []string, at statedir.Runtime) []string {
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
				args = append(args, l.flag+"="+net.JoinHostPort(host, u.Port())) // of one flag the last counts
			}
		}
	}
	return args
}
