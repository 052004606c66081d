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

// BusFlags say which bus a command joins.
type BusFlags struct {
	NATSURL   string `name:"nats-url" help:"External NATS server or cluster, comma-separated. Default: the bus that runs on the state directory." env:"TOCSIN_NATS_URL" placeholder:"URL"`
	NATSCreds string `name:"nats-creds" help:"Its credentials: a .creds file or an NKEY seed." env:"TOCSIN_NATS_CREDS" placeholder:"FILE"`
	NATSCA    string `name:"nats-ca" help:"Certificates (PEM) of who may vouch for its certificate, in place of those that this machine trusts; TLS is then required." env:"TOCSIN_NATS_CA" placeholder:"FILE"`
	NATSCert  string `name:"nats-cert" help:"Our certificate (PEM), where it asks for one." env:"TOCSIN_NATS_CERT" placeholder:"FILE"`
	NATSKey   string `name:"nats-key" help:"The key (PEM) of our certificate." env:"TOCSIN_NATS_KEY" placeholder:"FILE"`
}

// External says whether the bus is somebody else's server.
func (f BusFlags) External() bool { return f.NATSURL != "" }

// Bus is how a service in a process of its own joins the bus. Role and Name
// are the service's to fill in.
func (e Env) Bus(f BusFlags) bus.ConnConfig {
	return bus.ConnConfig{
		Dir: statedir.At(e.StateDir), URL: f.NATSURL, Creds: f.NATSCreds,
		CA: f.NATSCA, Cert: f.NATSCert, Key: f.NATSKey, Logger: e.Logger,
	}
}

// Validate says what is no address of a NATS server, and what is only half there.
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

// LayoutFlags say how the streams lie on an external bus.
type LayoutFlags struct {
	Replicas   int `help:"Copies of alerts, CI results, notices and state on an external bus. Default: 3 where it is a cluster, else 1." env:"TOCSIN_REPLICAS" placeholder:"N"`
	Partitions int `help:"Into how many parts telemetry is split on an external bus, by app: so many detectors can work at once. It can't be changed later. Default: as it is, 1 where it is made anew." env:"TOCSIN_PARTITIONS" placeholder:"N"`
}

// Layout is what the flags say.
func (f LayoutFlags) Layout() bus.Layout {
	return bus.Layout{Replicas: f.Replicas, Partitions: f.Partitions}
}

// Validate says which number no bus can have.
func (f LayoutFlags) Validate() error {
	if f.Replicas < 0 || f.Replicas > bus.MaxReplicas {
		return fmt.Errorf("--replicas must be between 1 and %d, or 0 for the default", bus.MaxReplicas)
	}
	if f.Partitions < 0 || f.Partitions > bus.MaxPartitions {
		return fmt.Errorf("--partitions must be between 1 and %d, or 0 for the default", bus.MaxPartitions)
	}
	return nil
}

// CheckBus says what the embedded bus can't have.
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

// natsScheme is the scheme of one address, which without one is nats.
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
