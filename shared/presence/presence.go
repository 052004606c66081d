// Package presence lets the services of a bus say how they are, and whoever may
// ask hear all of them: query.health, answered through nats.go's micro package,
// so that `nats micro ls` shows the services as well.
//
// It decides nothing about health: each service says its own, and who asked
// sees by what is missing that a service is not there.
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
	// version is that of the answer. The build's stands in the metadata and in the
	// answer: what git says of it is no semantic version, which micro insists on.
	version = "1.0.0"
	// endpoint is the name of the endpoint.
	endpoint = "health"
	// maxAnswers bounds what Collect keeps. Answers past it are not waited for.
	maxAnswers = 1000
	// noResponders is the status of the message that says that nobody listens.
	noResponders = "503"
)

// ErrClosed says that a connection was closed for good.
var ErrClosed = errors.New("the connection to the bus is closed")

// Config says who answers.
type Config struct {
	// Service is its role: ingest, detector, gateway or dashboard.
	Service string
	// ID tells instances apart. It stays when a connection is made anew.
	ID string
	// Version is that of the build, Started when the service began.
	Version string
	Started time.Time
	Logger  *slog.Logger
}

// Identify is the Config of an instance that begins now.
func Identify(service, version string, log *slog.Logger) Config {
	return Config{Service: service, ID: nuid.Next(), Version: version, Started: time.Now(), Logger: log}
}

// Serve answers query.health on a connection until ctx ends, also over losses of
// the connection, and says the same in the statistics of the service, for [Of]. state gives OK, Reason and the part of the service; the rest is
// filled in here. It is called from other goroutines, one call at a time, and
// should take well under a second: who asks waits for about as long. A connection
// is for one service: its role lets it answer a question once. The error is
// ErrClosed where the connection was closed for good.
func Serve(ctx context.Context, c *bus.Conn, cfg Config, state func() query.Health) error {
	var one sync.Mutex
	alone := func() query.Health { one.Lock(); defer one.Unlock(); return state() }
	service, err := micro.AddService(c.NC, micro.Config{
		StatsHandler: func(*micro.Endpoint) any { return cfg.signed(alone()) },
		Name:         prefix + cfg.Service, Version: version, Description: "the " + cfg.Service + " of Tocsin",
		Metadata: map[string]string{"id": cfg.ID, "version": cfg.Version},
	})
	if err != nil {
		return fmt.Errorf("register the health of the %s: %w", cfg.Service, err)
	}
	if err := Add(service, cfg, alone); err != nil {
		return errors.Join(err, service.Stop())
	}
	closed := c.NC.StatusChanged(nats.CLOSED)
	defer c.NC.RemoveStatusListener(closed)
	if c.NC.IsClosed() { // before anybody listened
		return ErrClosed
	}
	select {
	case <-closed:
		return ErrClosed // which ended the service as well
	case <-ctx.Done():
	}
	if err := service.Stop(); err != nil && c.Connected() {
		return fmt.Errorf("end the health of the %s: %w", cfg.Service, err)
	}
	return nil // without a connection there is nothing to end; its close ends the rest
}

// Add adds the endpoint to a service that there is already, as Serve has it. It
// ends with that service.
func Add(service micro.Service, cfg Config, state func() query.Health) error {
	answer := func(r micro.Request) {
		if err := r.RespondJSON(cfg.signed(state())); err != nil {
			cfg.Logger.Debug("nobody could be told how this service is", "error", err)
		}
	}
	err := service.AddEndpoint(endpoint, micro.HandlerFunc(answer),
		micro.WithEndpointSubject(query.SubjectHealth),
		micro.WithEndpointQueueGroupDisabled()) // each instance answers for itself
	if err != nil {
		return fmt.Errorf("register the health of the %s: %w", cfg.Service, err)
	}
	return nil
}

// signed completes what a service says of itself with who it is.
func (c Config) signed(h query.Health) query.Health {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	h.Service, h.ID, h.Version, h.Started = c.Service, c.ID, c.Version, c.Started.UTC()
	h.Host, h.PID = host, os.Getpid()
	return h
}

// Collect asks all services, and returns what came within wait, by service, host
// and id: at most 1,000 answers. A bus that is away is bus.ErrAway; no answer at
// all is none.
func Collect(ctx context.Context, c *bus.Conn, wait time.Duration) ([]query.Health, error) {
	if !c.Connected() {
		return nil, errors.Join(bus.ErrAway, c.Why())
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	inbox := c.NC.NewInbox()
	answers, err := c.NC.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("listen for the health of the services: %w", err)
	}
	defer func() { _ = answers.Unsubscribe() }() // else it ends with the connection
	if err := c.NC.PublishRequest(query.SubjectHealth, inbox, nil); err != nil {
		return nil, fmt.Errorf("ask for the health of the services: %w", err)
	}
	all := []query.Health{}
	for len(all) < maxAnswers {
		m, err := answers.NextMsgWithContext(waiting)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders):
			return sorted(all), nil
		case err != nil:
			return nil, fmt.Errorf("hear the health of the services: %w", err)
		case len(m.Data) == 0 && m.Header.Get("Status") == noResponders:
			return all, nil
		}
		var h query.Health
		if json.Unmarshal(m.Data, &h) == nil && h.Service != "" { // else it is no answer of ours
			all = append(all, h)
		}
	}
	return sorted(all), nil
}

func sorted(all []query.Health) []query.Health {
	slices.SortFunc(all, func(a, b query.Health) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Host, b.Host), cmp.Compare(a.ID, b.ID))
	})
	return all
}
