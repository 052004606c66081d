package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// unreachable returns the finding for a bus that can't be reached.
func (d *doctor) unreachable(err error) finding {
	switch external := d.flags.External(); {
	case errors.Is(err, bus.ErrUntrusted):
		return failed("bus", err.Error(), "set TOCSIN_NATS_CA to the CA certificates of the servers, and TOCSIN_NATS_CERT if they require a client certificate")
	case errors.Is(err, bus.ErrKey) && external:
		return failed("bus", err.Error(), "check TOCSIN_NATS_CREDS")
	case errors.Is(err, bus.ErrKey):
		return failed("bus", err.Error(), "restart tocsin up")
	case external:
		return failed("bus", "no connection within "+doctorTimeout.String(), "check TOCSIN_NATS_URL, and that a NATS server listens there")
	}
	return failed("bus", "no connection within "+doctorTimeout.String(), "restart tocsin up; check that nothing else listens on its port")
}

// streams checks that all streams and buckets exist as they should.
func (d *doctor) streams(ctx context.Context, c *bus.Session) []finding {
	fix := "restart tocsin up, which creates what is missing"
	if d.flags.External() {
		fix = "run tocsin provision with the provisioner's credentials"
	}
	changes, err := bus.Plan(ctx, c, d.layout)
	switch {
	case errors.Is(err, bus.ErrDenied):
		return []finding{failed("streams", err.Error(), "set TOCSIN_NATS_CREDS to the gateway's credentials: these are those of another role, or the bus has no roles for Tocsin")}
	case errors.Is(err, bus.ErrIncompatible):
		return []finding{failed("streams", err.Error(), "do what the message says, or use another NATS account")}
	case err != nil:
		return []finding{failed("streams", err.Error(), "check in the servers' logs that enough of them run, with JetStream")}
	}
	var out []finding
	missing := map[string]bool{}
	for _, change := range changes {
		missing[change.Stream] = change.Missing()
		result := "to change: " + change.Description
		if change.Missing() {
			result = "does not exist"
		}
		out = append(out, failed("stream "+change.Stream, result, fix))
	}
	if d.flags.External() && !missing[bus.StreamTelemetry] {
		out = append(out, d.replicas(ctx, c, missing)...)
	}
	return out
}

// replicas checks the replicas of the streams, and reports the number of partitions.
func (d *doctor) replicas(ctx context.Context, c *bus.Session, missing map[string]bool) []finding {
	partitions, err := c.Partitions(ctx)
	if err != nil {
		return []finding{failed("stream "+bus.StreamTelemetry, err.Error(), "check the servers' logs")}
	}
	var out []finding
	for _, stream := range bus.StreamNames() {
		if missing[stream] {
			continue
		}
		s, err := c.JS.Stream(ctx, stream)
		if err != nil {
			out = append(out, failed("stream "+stream, err.Error(), "check in the servers' logs that enough of them run, with JetStream"))
			continue
		}
		if problem := replicaProblem(s.CachedInfo()); problem != "" {
			out = append(out, failed("stream "+stream, problem, "start that server, or wait until it has caught up"))
		}
	}
	result := fmt.Sprintf("telemetry has %d partitions", partitions)
	if partitions == 1 {
		result = "telemetry has 1 partition: one detector works, the others stand by"
	}
	if name := c.NC.ConnectedClusterName(); name != "" {
		result += ", cluster " + name
	}
	return append(out, finding{check: "streams", result: result})
}

// replicaProblem returns what is wrong with the replicas of a stream, or nothing.
func replicaProblem(info *jetstream.StreamInfo) string {
	cluster := info.Cluster
	if cluster == nil {
		return "" // a single server
	}
	var problems []string
	// A replica count that was raised shows in the configuration before the replicas exist.
	if has, wanted := 1+len(cluster.Replicas), info.Config.Replicas; has < wanted {
		problems = append(problems, fmt.Sprintf("%d of %d replicas exist, the others are being created", has, wanted))
	}
	if cluster.Leader == "" {
		problems = append(problems, "it has no leader")
	}
	for _, peer := range cluster.Replicas {
		switch {
		case peer.Offline:
			problems = append(problems, "the replica on "+peer.Name+" is offline")
		case !peer.Current:
			problems = append(problems, fmt.Sprintf("the replica on %s lags by %d messages", peer.Name, peer.Lag))
		}
	}
	return strings.Join(problems, ", ")
}
