package main

import (
	"bytes"
	"context"
	"io"
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

// TestProvision runs a dry run, then provisions, then expects nothing to change.
func TestProvision(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	c := provisionCommand{BusFlags: service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(bus.RoleProvisioner)}, Wait: 20 * time.Second}
	c.Partitions = 4
	dry := c
	dry.DryRun = true
	for range 2 {
		out, err := provision(t, dry)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"would change: TELEMETRY: create it with 1 replica and 4 partitions\n", "would change: KV_owners: create it"} {
			if !strings.Contains(out, want) {
				t.Fatalf("dry run = %q, want %q in it", out, want)
			}
		}
	}
	out, err := provision(t, c)
	if err != nil || !strings.Contains(out, "changed: ALERTS: create it with 1 replica\n") || !strings.HasSuffix(out, " is prepared\n") {
		t.Fatalf("tocsin provision = %q, %v, want ALERTS changed and the bus prepared", out, err)
	}
	for _, again := range []provisionCommand{c, dry} {
		if out, err := provision(t, again); err != nil || !strings.HasSuffix(out, " is prepared: nothing to change\n") {
			t.Errorf("tocsin provision again = %q, %v, want nothing to change", out, err)
		}
	}

	for name, tt := range map[string]struct {
		change func(*provisionCommand)
		want   string
	}{
		"another split":     {func(c *provisionCommand) { c.Partitions = 8 }, "set TOCSIN_PARTITIONS to 4"},
		"too many replicas": {func(c *provisionCommand) { c.Replicas, c.Wait = 3, time.Millisecond }, "TOCSIN_REPLICAS"},
		"no server":         {func(c *provisionCommand) { c.NATSURL, c.Wait = "nats://127.0.0.1:1", 100*time.Millisecond }, "check TOCSIN_NATS_URL"},
		"no credentials":    {func(c *provisionCommand) { c.NATSCreds = "" }, "check TOCSIN_NATS_CREDS"},
		"no key":            {func(c *provisionCommand) { c.NATSCreds = "/nowhere" }, "TOCSIN_NATS_CREDS"},
		"no TLS there":      {func(c *provisionCommand) { c.NATSURL = strings.Replace(rig.URL(), "nats:", "tls:", 1) }, "TOCSIN_NATS_CA"},
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			tt.change(&c)
			started := time.Now()
			if out, err := provision(t, c); err == nil || out != "" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("tocsin provision = %q, %v, want an error with %q", out, err, tt.want)
			}
			if took := time.Since(started); took > 10*time.Second {
				t.Errorf("tocsin provision took %s, want less than 10 s", took)
			}
		})
	}
}

// TestProvisionInterrupted expects an error that names the step that was not finished.
func TestProvisionInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	c := provisionCommand{BusFlags: service.BusFlags{NATSURL: "nats://127.0.0.1:1"}, Wait: 20 * time.Second}
	err := c.Run(ctx, service.Env{Stdout: io.Discard, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "check TOCSIN_NATS_URL") {
		t.Errorf("Run = %v, want an error with check TOCSIN_NATS_URL", err)
	}
}

// TestProvisionWithAServicesKey expects an error that names the provisioner's credentials.
func TestProvisionWithAServicesKey(t *testing.T) {
	rig := bustest.Cluster(t, 1)
	for _, role := range bus.Roles() {
		c := provisionCommand{BusFlags: service.BusFlags{NATSURL: rig.URL(), NATSCreds: rig.Creds(role)}, Wait: 20 * time.Second}
		started := time.Now()
		out, err := provision(t, c)
		if err == nil || out != "" || !strings.Contains(err.Error(), "those of the provisioner") || time.Since(started) > 10*time.Second {
			t.Errorf("tocsin provision as %s = %q, %v after %s, want an error that asks for the provisioner's credentials within 10 s", role, out, err, time.Since(started))
		}
	}
}
