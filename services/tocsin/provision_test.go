package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/service"
)

func provision(t *testing.T, c provisionCommand) (string, error) {
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := c.Run(ctx, service.Env{Stdout: &out, Logger: slog.New(slog.DiscardHandler)})
	return out.String(), err
}

// TestProvision: what it would do, what it does, and that it then has nothing to do.
func TestProvision(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	c := provisionCommand{BusFlags: service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(bus.RoleProvisioner)}, Wait: 20 * time.Second}
	c.Partitions = 4
	dry := c
	dry.DryRun = true
	for range 2 {
		out, err := provision(t, dry)
		if err != nil || !strings.Contains(out, "would do: TELEMETRY: create it with 1 replica and 4 partitions\n") || !strings.Contains(out, "would do: KV_owners: create it") {
			t.Fatalf("%s%v", out, err)
		}
	}
	out, err := provision(t, c)
	if err != nil || !strings.Contains(out, "done: ALERTS: create it with 1 replica\n") || !strings.HasSuffix(out, " is prepared\n") {
		t.Fatalf("%s%v", out, err)
	}
	for _, again := range []provisionCommand{c, dry} {
		if out, err := provision(t, again); err != nil || !strings.HasSuffix(out, " is prepared: there is nothing to change\n") {
			t.Errorf("%s%v", out, err)
		}
	}

	for name, wrong := range map[string]struct {
		change func(*provisionCommand)
		want   string
	}{
		"another split":     {func(c *provisionCommand) { c.Partitions = 8 }, "set TOCSIN_PARTITIONS to 4"},
		"too many replicas": {func(c *provisionCommand) { c.Replicas, c.Wait = 3, time.Millisecond }, "TOCSIN_REPLICAS"},
		"nobody there":      {func(c *provisionCommand) { c.NATSURL, c.Wait = "nats://127.0.0.1:1", 100*time.Millisecond }, "check TOCSIN_NATS_URL"},
		"no credentials":    {func(c *provisionCommand) { c.NATSCreds = "" }, "check TOCSIN_NATS_CREDS"},
		"no key":            {func(c *provisionCommand) { c.NATSCreds = "/nowhere" }, "TOCSIN_NATS_CREDS"},
		"no TLS there":      {func(c *provisionCommand) { c.NATSURL = strings.Replace(rig.URL(), "nats:", "tls:", 1) }, "TOCSIN_NATS_CA"},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			wrong.change(&c)
			begun := time.Now()
			if out, err := provision(t, c); err == nil || out != "" || !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("%s%v", out, err)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// TestProvisionWithAServicesKey says whose is needed.
func TestProvisionWithAServicesKey(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	for _, role := range bus.Roles() {
		c := provisionCommand{BusFlags: service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(role)}, Wait: 20 * time.Second}
		begun := time.Now()
		out, err := provision(t, c)
		if err == nil || out != "" || !strings.Contains(err.Error(), "provisioner's") || time.Since(begun) > 10*time.Second {
			t.Errorf("%s: %s%v after %s", role, out, err, time.Since(begun))
		}
	}
}
