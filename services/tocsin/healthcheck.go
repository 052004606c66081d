package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tocsin-bus/tocsin/services/dashboard"
	"github.com/tocsin-bus/tocsin/services/detector"
	"github.com/tocsin-bus/tocsin/services/gateway"
	"github.com/tocsin-bus/tocsin/services/ingest"
	"github.com/tocsin-bus/tocsin/services/kubewatch"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// healthcheckCommand is for orchestrators that run a program in the container:
// status 0 where all is well, else 1 and the reason.
type healthcheckCommand struct {
	Up        upHealth              `cmd:"" default:"withargs" help:"Ask all that tocsin up runs. It need not be named."`
	Ingest    ingest.Healthcheck    `cmd:"" help:"Ask an intake that runs alone."`
	Detector  detector.Healthcheck  `cmd:"" help:"Ask a detector that runs alone."`
	Dashboard dashboard.Healthcheck `cmd:"" help:"Ask a dashboard that runs alone."`
	Kubewatch kubewatch.Healthcheck `cmd:"" help:"Ask a kubewatch."`
	Gateway   gateway.Healthcheck   `cmd:"" help:"Ask a gateway that serves on HTTP."`
}

// upHealth asks tocsin up, which runtime.json names.
type upHealth struct {
	service.BusFlags
	service.Probe
}

// Run prints one line, or fails with what is wrong.
func (c *upHealth) Run(ctx context.Context, env service.Env) error {
	running, err := statedir.At(env.StateDir).Running()
	if err != nil {
		return fmt.Errorf("tocsin up is not %s: %w", c.State(), err)
	}
	for _, part := range []struct{ name, url string }{
		{"the intake", running.IngestURL}, {"the dashboard", running.DashboardURL},
	} {
		if part.url == "" {
			continue
		}
		if err := c.AskURL(ctx, part.name, part.url); err != nil {
			return err
		}
	}
	if !c.Live {
		if err := c.detects(ctx, env); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(env.Stdout, "tocsin up is %s\n", c.State())
	return err
}

// detects says why nobody would make alerts of what is taken in, or nil.
func (c *upHealth) detects(ctx context.Context, env service.Env) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	join := env.Bus(c.BusFlags)
	join.Name, join.Role, join.Once = "tocsin healthcheck", bus.RoleGateway, c.Timeout
	conn, err := bus.Connect(ctx, join)
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := conn.NC.RequestWithContext(ctx, query.SubjectStatus, nil)
	if err != nil {
		return fmt.Errorf("the detector does not answer: %w", err)
	}
	var status query.StatusReply
	if err := json.Unmarshal(m.Data, &status); err != nil {
		return errors.New("the detector answers in a form of another version: restart tocsin up")
	}
	if !status.Detector.Ready {
		return fmt.Errorf("the detector is not ready: it has still to read %d messages", status.Detector.Behind)
	}
	return nil
}
