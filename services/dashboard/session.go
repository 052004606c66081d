package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// Browser is how a browser connects to the bus itself, as [bus.RoleDashboard]: it may
// subscribe to live alerts and notices, and read ALERTS. Without it, pages use
// /events/stream.
type Browser struct {
	// URL returns the current URL of the websocket, or nothing. It may be nil.
	URL func() string
	// Anywhere reports whether the websocket listens on all addresses: then a browser uses
	// the host of its request.
	Anywhere bool
	// Key reads the key of the role. It may be nil.
	Key func() (Key, error)
	// Check reports whether a person configured Key: browsers then get it only while it
	// has no more permissions than the role.
	Check bool

	// narrow returns nil while that is so.
	narrow func(context.Context) error
}

// errWide is returned for a key with more permissions than the role dashboard.
var errWide = errors.New("the credentials in TOCSIN_NATS_CREDS have more permissions than a dashboard needs: use those of the role dashboard")

// checkTimeout bounds the check of permissions.
const checkTimeout = 2 * time.Second

// narrow returns nil if the dashboard's own connection reads alerts and may not ask for the
// state of a stream, which every role with more permissions may.
func (h *handler) narrow(ctx context.Context) error {
	if err := h.feed.ready(); err != nil {
		return err
	}
	c := h.feed.link.Session()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	switch err := c.Check(ctx, bus.StreamAlerts); {
	case errors.Is(err, bus.ErrDenied), errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return nil // it may not, or has no JetStream of its own
	case err == nil:
		return errWide
	default:
		return err
	}
}

// key returns the key for a browser.
func (b Browser) key(ctx context.Context) (Key, error) {
	if b.Check {
		if err := b.narrow(ctx); err != nil {
			return Key{}, err
		}
	}
	return b.Key()
}

// Key authenticates a role: the seed of an NKEY, and a JWT if the bus uses these.
type Key struct{ Seed, JWT string }

// announcedURL returns the websocket URL of the bus that runs on a state directory.
func announcedURL(dir statedir.Dir) func() string {
	return func() string {
		running, err := dir.Running()
		if err != nil {
			return ""
		}
		return running.NATSWSURL
	}
}

// KeyIn reads the key that the bus of a state directory created for the role.
func KeyIn(dir statedir.Dir) func() (Key, error) {
	return func() (Key, error) {
		text, _, err := dir.ReadCredential(string(bus.RoleDashboard))
		if err != nil {
			return Key{}, fmt.Errorf("read the key of the dashboard: %w", err)
		}
		return readKey(text)
	}
}

// fileKey reads the key in a file: an NKEY seed, or a .creds file with a JWT.
func fileKey(path string) func() (Key, error) {
	return func() (Key, error) {
		if path == "" {
			return Key{}, errors.New("the bus has no key for browsers: set TOCSIN_NATS_CREDS")
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return Key{}, fmt.Errorf("read TOCSIN_NATS_CREDS: %w", err)
		}
		return readKey(text)
	}
}

func readKey(text []byte) (Key, error) {
	pair, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return Key{}, fmt.Errorf("read the key of the dashboard: %w", err)
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return Key{}, fmt.Errorf("read the key of the dashboard: %w", err)
	}
	k := Key{Seed: string(seed)}
	if strings.Contains(string(text), "-----BEGIN NATS USER JWT-----") {
		if k.JWT, err = nkeys.ParseDecoratedJWT(text); err != nil {
			return Key{}, fmt.Errorf("read the JWT of the dashboard: %w", err)
		}
	}
	return k, nil
}

// url returns the websocket URL for the browser of a request, or nothing. A browser on
// another machine can't reach a websocket on loopback, and gets no key. The Host must have
// been checked.
func (b Browser) url(r *http.Request) string {
	if b.URL == nil {
		return ""
	}
	at := b.URL()
	u, err := url.Parse(at)
	if at == "" || err != nil || !plainHost(u.Host) {
		return ""
	}
	if b.Anywhere && u.Port() != "" {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = strings.Trim(r.Host, "[]")
		}
		u.Host = net.JoinHostPort(name, u.Port())
		if !plainHost(u.Host) {
			return ""
		}
	} else if httpguard.Loopback(u.Hostname()) && !fromHere(r) {
		return "" // loopback would be the browser's own machine
	}
	return u.Scheme + "://" + u.Host
}

// fromHere reports whether a request comes from this machine: a proxy in front has another
// Host, and a request from elsewhere another address.
func fromHere(r *http.Request) bool {
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = r.Host
	}
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && addr.Addr().Unmap().IsLoopback() && httpguard.Loopback(name)
}

// anyPortOf returns a websocket's address for the content security policy, with any port.
func anyPortOf(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Port() == "" {
		return at
	}
	return u.Scheme + "://" + strings.TrimSuffix(u.Host, u.Port()) + "*"
}

// plainHost reports whether a host can be used in a header as it is.
func plainHost(host string) bool {
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-_.:[]") == ""
}

// session is what the page loads first.
type session struct {
	Version string     `json:"version"`
	Bus     *busAccess `json:"bus"`
	// Desk reports whether actions are possible, and DeskReason why not.
	Desk          bool   `json:"desk"`
	DeskReason    string `json:"desk_reason"`
	TokenRequired bool   `json:"token_required"`
	// SignedIn reports whether the request has the cookie of a sign-in.
	SignedIn bool `json:"signed_in"`
}

// busAccess is how a browser connects to the bus.
type busAccess struct {
	URL  string `json:"url"`
	Seed string `json:"seed"`
	JWT  string `json:"jwt,omitempty"`
}

func (h *handler) session(r *http.Request) (any, error) {
	s := session{Version: h.version, Desk: h.actions.enabled(), DeskReason: h.actions.disabled, TokenRequired: h.access.Token != "", SignedIn: h.signedIn(r)}
	if at := h.browser.url(r); at != "" && h.browser.Key != nil {
		key, err := h.browser.key(r.Context())
		if err == nil {
			s.Bus = &busAccess{URL: at, Seed: key.Seed, JWT: key.JWT}
		} else { // the page uses /events/stream
			h.log.Warn("browsers can't connect to the bus", "error", err)
		}
	}
	return s, nil
}
