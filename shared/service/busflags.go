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
}

// External says whether the bus is somebody else's server.
func (f BusFlags) External() bool { return f.NATSURL != "" }

// Bus is how a service in a process of its own joins the bus. Role and Name
// are the service's to fill in.
func (e Env) Bus(f BusFlags) bus.ConnConfig {
	return bus.ConnConfig{Dir: statedir.At(e.StateDir), URL: f.NATSURL, Creds: f.NATSCreds, Logger: e.Logger}
}

// Validate says what is no address of a NATS server.
func (f BusFlags) Validate() error {
	if !f.External() {
		return nil
	}
	if err := checkNATSURLs(f.NATSURL); err != nil {
		return fmt.Errorf("--nats-url: %w", err)
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
