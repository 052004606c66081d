// Package presence reports the health of the services on a bus: each answers query.health
// through nats.go's micro package, so that `nats micro ls` lists the services as well.
//
// It decides nothing about health: each service reports its own, and the requester knows by a
// missing answer that a service does not run.
package presence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/query"
)

const (
	// prefix and a service's role make its name in micro.
	prefix = "tocsin-"
	// version is that of the answer. The version of the build is in the metadata and in the
	// answer: git describes it, and micro requires a semantic version.
	version = "1.0.0"
	// endpoint is the name of the endpoint.
	endpoint = "health"
	// maxAnswers bounds the answers of Collect and CollectService.
	maxAnswers = 1000
	// noResponders is the status of an answer when no service is subscribed.
	noResponders = "503"
)

// Config identifies the service that answers.
type Config struct {
	// Service is its role: ingest, detector, gateway, kubewatch or investigator.
	Service string
	// ID identifies the instance. It stays over bus sessions.
	ID string
	// Version is that of the build, Started when the service started.
	Version string
	Started time.Time
	Logger  *slog.Logger
}

// Identify returns the Config of an instance that starts now.
func Identify(service, version string, log *slog.Logger) Config {
	return Config{Service: service, ID: nuid.Next(), Version: version, Started: time.Now(), Logger: log}
}

// Endpoint is a subject that a service answers beside query.health. Of several instances one gets
// each request.
type Endpoint struct {
	Name, Subject string
	Handle        micro.Handler
}

// Serve answers query.health and the endpoints on a session until ctx ends, and returns nil then. It adds the
// same answer to the statistics of the service, for [CollectService]. state returns OK, Reason
// and the part of the service; Serve sets the rest. It is called from other goroutines, one
// call at a time, and should take well under a second, because requesters wait no longer. A
// session serves one service, because its role may answer a request once. The error wraps
// [bus.ErrClosed] if the session was closed for good.
func Serve(ctx context.Context, c *bus.Session, cfg Config, state func() query.Health, endpoints ...Endpoint) error {
	var mu sync.Mutex
	serialized := func() query.Health { mu.Lock(); defer mu.Unlock(); return state() }
	service, err := micro.AddService(c.NC, micro.Config{
		StatsHandler: func(*micro.Endpoint) any { return cfg.withIdentity(serialized()) },
		Name:         prefix + cfg.Service, Version: version, Description: "the " + cfg.Service + " of Tocsin",
		Metadata: map[string]string{"id": cfg.ID, "version": cfg.Version},
	})
	if err != nil {
		return fmt.Errorf("register the health of the %s: %w", cfg.Service, err)
	}
	for _, e := range endpoints {
		if err := service.AddEndpoint(e.Name, e.Handle, micro.WithEndpointSubject(e.Subject)); err != nil {
			return errors.Join(fmt.Errorf("register %s of the %s: %w", e.Subject, cfg.Service, err), service.Stop())
		}
	}
	if err := Add(service, cfg, serialized); err != nil {
		return errors.Join(err, service.Stop())
	}
	select {
	case <-c.Closed(): // which ended the service as well
		return c.Err()
	case <-ctx.Done():
	}
	if err := service.Stop(); err != nil && c.Connected() {
		return fmt.Errorf("stop answering for the health of the %s: %w", cfg.Service, err)
	}
	return nil // without a connection there is nothing to end; its close ends the service
}

// Add adds the endpoint of [Serve] to a service. It ends with that service.
func Add(service micro.Service, cfg Config, state func() query.Health) error {
	answer := func(r micro.Request) {
		if err := r.RespondJSON(cfg.withIdentity(state())); err != nil {
			cfg.Logger.Debug("the health of this service could not be sent", "error", err)
		}
	}
	err := service.AddEndpoint(endpoint, micro.HandlerFunc(answer),
		micro.WithEndpointSubject(query.SubjectHealth),
		micro.WithEndpointQueueGroupDisabled()) // each instance answers
	if err != nil {
		return fmt.Errorf("register the health of the %s: %w", cfg.Service, err)
	}
	return nil
}

// withIdentity adds the identity of the service to its health.
func (c Config) withIdentity(h query.Health) query.Health {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	h.Service, h.ID, h.Version, h.Started = c.Service, c.ID, c.Version, c.Started.UTC()
	h.Host, h.PID = host, os.Getpid()
	return h
}

// Collect requests the health of all services, and returns the answers that came within wait: at
// most 1,000, sorted by service, host and ID. The error wraps [bus.ErrUnreachable] if the bus
// can't be reached. Without answers the list is empty.
func Collect(ctx context.Context, c *bus.Session, wait time.Duration) ([]query.Health, error) {
	if !c.Connected() {
		return nil, errors.Join(bus.ErrUnreachable, c.Why())
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	inbox := c.NC.NewInbox()
	answers, err := c.NC.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("subscribe to the health of the services: %w", err)
	}
	defer func() { _ = answers.Unsubscribe() }() // it ends with the connection otherwise
	if err := c.NC.PublishRequest(query.SubjectHealth, inbox, nil); err != nil {
		return nil, fmt.Errorf("request the health of the services: %w", err)
	}
	all := []query.Health{}
	for len(all) < maxAnswers {
		m, err := answers.NextMsgWithContext(waiting)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders):
			return sortedHealth(all), nil
		case err != nil:
			return nil, fmt.Errorf("receive the health of the services: %w", err)
		case len(m.Data) == 0 && m.Header.Get("Status") == noResponders:
			return all, nil
		}
		var h query.Health
		if json.Unmarshal(m.Data, &h) == nil && h.Service != "" { // anything else is no answer of a service
			all = append(all, h)
		}
	}
	return sortedHealth(all), nil
}

func sortedHealth(all []query.Health) []query.Health {
	slices.SortFunc(all, func(a, b query.Health) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Host, b.Host), cmp.Compare(a.ID, b.ID))
	})
	return all
}
