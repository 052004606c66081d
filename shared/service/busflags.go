package service

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// BusFlags choose the bus that a command connects to.
type BusFlags struct {
	NATSURL   string `name:"nats-url" help:"External NATS server or cluster, comma-separated. Default: the bus that runs on the state directory." env:"TOCSIN_NATS_URL" placeholder:"URL"`
	NATSCreds string `name:"nats-creds" help:"Its credentials: a .creds file or an NKEY seed." env:"TOCSIN_NATS_CREDS" placeholder:"FILE"`
	NATSCA    string `name:"nats-ca" help:"CA certificates (PEM) for its certificate, instead of those that this machine trusts; requires TLS." env:"TOCSIN_NATS_CA" placeholder:"FILE"`
	NATSCert  string `name:"nats-cert" help:"Client certificate (PEM), if the server requires one." env:"TOCSIN_NATS_CERT" placeholder:"FILE"`
	NATSKey   string `name:"nats-key" help:"Key (PEM) of the client certificate." env:"TOCSIN_NATS_KEY" placeholder:"FILE"`
}

// External reports whether the bus is an external NATS server.
func (f BusFlags) External() bool { return f.NATSURL != "" }

// Bus returns how a service in a process of its own connects to the bus. The service sets
// Role and Name.
func (e Env) Bus(f BusFlags) bus.Config {
	return bus.Config{
		Dir: statedir.At(e.StateDir), URL: f.NATSURL, Creds: f.NATSCreds,
		CA: f.NATSCA, Cert: f.NATSCert, Key: f.NATSKey, Logger: e.Logger,
	}
}

// Validate returns an error for an address that is not of a NATS server, and for a
// certificate without its key.
func (f BusFlags) Validate() error {
	if !f.External() {
		return nil
	}
	if err := checkNATSURLs(f.NATSURL); err != nil {
		return fmt.Errorf("--nats-url: %w", err)
	}
	switch {
	case f.NATSCert != "" && f.NATSKey == "":
		return errors.New("--nats-cert needs --nats-key (TOCSIN_NATS_KEY) beside it")
	case f.NATSKey != "" && f.NATSCert == "":
		return errors.New("--nats-key needs --nats-cert (TOCSIN_NATS_CERT) beside it")
	}
	return nil
}

// LayoutFlags choose the replicas and partitions of streams on an external bus.
type LayoutFlags struct {
	Replicas   int `help:"Replicas of alerts, CI results, notices and state on an external bus. Default: 3 on a cluster, else 1." env:"TOCSIN_REPLICAS" placeholder:"N"`
	Partitions int `help:"Partitions of telemetry on an external bus, by app: the number of detectors that can work at once. It can't be changed later. Default: that of the bus, 1 on a new one." env:"TOCSIN_PARTITIONS" placeholder:"N"`
}

// Layout returns the layout of the flags.
func (f LayoutFlags) Layout() bus.Layout {
	return bus.Layout{Replicas: f.Replicas, Partitions: f.Partitions}
}

// Validate returns an error for a number that no bus can have.
func (f LayoutFlags) Validate() error {
	if f.Replicas < 0 || f.Replicas > bus.MaxReplicas {
		return fmt.Errorf("--replicas must be between 1 and %d, or 0 for the default", bus.MaxReplicas)
	}
	if f.Partitions < 0 || f.Partitions > bus.MaxPartitions {
		return fmt.Errorf("--partitions must be between 1 and %d, or 0 for the default", bus.MaxPartitions)
	}
	return nil
}

// CheckBus returns an error for a layout that the embedded bus can't have.
func (f LayoutFlags) CheckBus(b BusFlags) error {
	switch {
	case b.External():
		return nil
	case f.Replicas > 1:
		return errors.New("--replicas works with an external bus only, see --nats-url: the embedded one is a single server")
	case f.Partitions > 1:
		return errors.New("--partitions works with an external bus only, see --nats-url: on the embedded one there is one detector")
	}
	return nil
}

func checkNATSURLs(urls string) error {
	plain, websocket := 0, 0
	for raw := range strings.SplitSeq(urls, ",") {
		switch scheme, err := natsScheme(strings.TrimSpace(raw)); {
		case err != nil:
			return err
		case scheme == "ws" || scheme == "wss":
			websocket++
		default:
			plain++
		}
	}
	if plain > 0 && websocket > 0 {
		return errors.New("websockets and others can't be mixed: name one kind")
	}
	return nil
}

// natsScheme is the scheme of one address; nats if it has none.
func natsScheme(raw string) (string, error) {
	if !strings.Contains(raw, "://") {
		raw = "nats://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || strings.Contains(u.Hostname(), ":") && !strings.HasPrefix(u.Host, "[") {
		return "", errors.New("not a URL, such as nats://127.0.0.1:4222") // it may hold a password: not shown
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return "", fmt.Errorf("scheme %q must be one of nats, tls, ws, wss", u.Scheme)
	}
	if u.Hostname() == "" {
		return "", fmt.Errorf("%q has no host: it must be like nats://127.0.0.1:4222", u.Redacted())
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && err != nil {
		return "", fmt.Errorf("%q must have a port between 0 and 65535", u.Redacted())
	}
	return u.Scheme, nil
}
