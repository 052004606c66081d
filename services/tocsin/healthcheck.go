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
	"github.com/tocsin-bus/tocsin/services/investigator"
	"github.com/tocsin-bus/tocsin/services/kubewatch"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// healthcheckCommand is for orchestrators that run a program in the container: its status
// is 0 if the service is ready, else 1 with the reason.
type healthcheckCommand struct {
	Up           upHealth                 `cmd:"" default:"withargs" help:"Check everything that tocsin up runs (default)."`
	Ingest       ingest.Healthcheck       `cmd:"" help:"Check an ingest service that runs alone."`
	Detector     detector.Healthcheck     `cmd:"" help:"Check a detector that runs alone."`
	Dashboard    dashboard.Healthcheck    `cmd:"" help:"Check a dashboard that runs alone."`
	Kubewatch    kubewatch.Healthcheck    `cmd:"" help:"Check a kubewatch."`
	Investigator investigator.Healthcheck `cmd:"" help:"Check an investigator that runs alone."`
	Gateway      gateway.Healthcheck      `cmd:"" help:"Check a gateway that serves HTTP."`
}

// upHealth checks the tocsin up that runtime.json names.
type upHealth struct {
	service.BusFlags
	service.Probe
}

// Run prints one line, or returns the reason why a service is not ready.
func (c *upHealth) Run(ctx context.Context, env service.Env) error {
	running, err := statedir.At(env.StateDir).Running()
	if err != nil {
		return fmt.Errorf("tocsin up is not %s: %w", c.State(), err)
	}
	for _, part := range []struct{ name, url string }{
		{"ingest", running.IngestURL}, {"the dashboard", running.DashboardURL}, {"the investigator", running.InvestigatorURL},
	} {
		if part.url == "" {
			continue
		}
		if err := c.AskURL(ctx, part.name, part.url); err != nil {
			return err
		}
	}
	if !c.Live {
		if err := c.checkDetector(ctx, env); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(env.Stdout, "tocsin up is %s\n", c.State())
	return err
}

// checkDetector returns why the detector raises no alerts, or nil.
func (c *upHealth) checkDetector(ctx context.Context, env service.Env) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	cfg := env.Bus(c.BusFlags)
	cfg.Name, cfg.Role, cfg.Once = "tocsin healthcheck", bus.RoleGateway, c.Timeout
	conn, err := bus.Connect(ctx, cfg)
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
		return errors.New("the detector answers in the format of another version: restart tocsin up")
	}
	if !status.Detector.Ready {
		return fmt.Errorf("the detector is not ready: catching up, %d messages left", status.Detector.Behind)
	}
	return nil
}
