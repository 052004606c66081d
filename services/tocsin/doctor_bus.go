package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// unreached is why there is no way to the bus.
func (d *doctor) unreached(err error) finding {
	switch external := d.flags.External(); {
	case errors.Is(err, bus.ErrUntrusted):
		return finding{"bus", err.Error(), "set TOCSIN_NATS_CA to the certificates of who vouches for the servers, and TOCSIN_NATS_CERT where they ask for one"}
	case errors.Is(err, bus.ErrKey) && external:
		return finding{"bus", err.Error(), "check TOCSIN_NATS_CREDS"}
	case errors.Is(err, bus.ErrKey):
		return finding{"bus", err.Error(), "restart tocsin up"}
	case external:
		return finding{"bus", "no connection within " + doctorTimeout.String(), "check TOCSIN_NATS_URL, and that a server listens there"}
	}
	return finding{"bus", "no connection within " + doctorTimeout.String(), "is something else on its port? restart tocsin up"}
}

// streams says what is not there, or not as it should be.
func (d *doctor) streams(ctx context.Context, c *bus.Conn) []finding {
	mend := "restart tocsin up: it creates what is missing"
	if d.flags.External() {
		mend = "run tocsin provision with the provisioner's credentials"
	}
	changes, err := bus.Plan(ctx, c, d.layout)
	switch {
	case errors.Is(err, bus.ErrDenied):
		return []finding{{"streams", err.Error(), "name the gateway's credentials with TOCSIN_NATS_CREDS: those are another role's, or of a bus that knows no roles of Tocsin's"}}
	case errors.Is(err, bus.ErrIncompatible):
		return []finding{{"streams", err.Error(), "do what it says, or use another NATS account"}}
	case err != nil:
		return []finding{{"streams", err.Error(), "look at the servers' logs: do enough of them run, with JetStream?"}}
	}
	var out []finding
	lacking := map[string]bool{}
	for _, change := range changes {
		lacking[change.Stream] = change.Missing()
		what := "to do: " + change.What
		if change.Missing() {
			what = "does not exist"
		}
		out = append(out, finding{"stream " + change.Stream, what, mend})
	}
	if d.flags.External() && !lacking[bus.StreamTelemetry] {
		out = append(out, d.copies(ctx, c, lacking)...)
	}
	return out
}

// copies says how the streams lie on the servers, and which server is missing.
func (d *doctor) copies(ctx context.Context, c *bus.Conn, lacking map[string]bool) []finding {
	partitions, err := c.Partitions(ctx)
	if err != nil {
		return []finding{{"stream " + bus.StreamTelemetry, err.Error(), "look at the servers' logs"}}
	}
	var out []finding
	for _, stream := range bus.StreamNames() {
		if lacking[stream] {
			continue
		}
		s, err := c.JS.Stream(ctx, stream)
		if err != nil {
			out = append(out, finding{"stream " + stream, err.Error(), "look at the servers' logs: do enough of them run, with JetStream?"})
			continue
		}
		if wrong := copiesOf(s.CachedInfo()); wrong != "" {
			out = append(out, finding{"stream " + stream, wrong, "start that server, or wait until it has caught up"})
		}
	}
	is := fmt.Sprintf("telemetry is in %d partitions", partitions)
	if partitions == 1 {
		is = "telemetry is in 1 partition: one detector works, others stand by"
	}
	if name := c.NC.ConnectedClusterName(); name != "" {
		is += ", cluster " + name
	}
	return append(out, finding{what: "streams", is: is})
}

// copiesOf says what is wrong with the copies of a stream, or nothing.
func copiesOf(info *jetstream.StreamInfo) string {
	cluster := info.Cluster
	if cluster == nil {
		return "" // a server alone
	}
	var wrong []string
	// A stream that was given more copies has them in its configuration at once, and
	// on the servers a while later.
	if has, wanted := 1+len(cluster.Replicas), info.Config.Replicas; has < wanted {
		wrong = append(wrong, fmt.Sprintf("%d of %d copies are there, the others are being made", has, wanted))
	}
	if cluster.Leader == "" {
		wrong = append(wrong, "no server leads it")
	}
	for _, peer := range cluster.Replicas {
		switch {
		case peer.Offline:
			wrong = append(wrong, "the copy on "+peer.Name+" is away")
		case !peer.Current:
			wrong = append(wrong, fmt.Sprintf("the copy on %s is behind by %d", peer.Name, peer.Lag))
		}
	}
	return strings.Join(wrong, ", ")
}
