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
	// OnAllAddresses reports whether the websocket listens on all addresses. If so, a browser
	// connects to the host of its request.
	OnAllAddresses bool
	// Key reads the key of the role. It may be nil.
	Key func() (Key, error)
	// Check reports whether the permissions of Key must be checked, because a person
	// configured it. Browsers get it only if it has no more permissions than the role.
	Check bool

	// checkPermissions is set by the handler.
	checkPermissions func(context.Context) error
}

// errTooManyPermissions is returned for a key with more permissions than the role dashboard.
var errTooManyPermissions = errors.New("the credentials in TOCSIN_NATS_CREDS have more permissions than a dashboard needs: use those of the role dashboard")

// permissionsTimeout bounds the check of permissions.
const permissionsTimeout = 2 * time.Second

// checkPermissions returns nil if the dashboard's own connection may read alerts, but may not
// query the state of a stream, as every role with more permissions may.
func (h *handler) checkPermissions(ctx context.Context) error {
	if err := h.feed.ready(); err != nil {
		return err
	}
	s := h.feed.link.Session()
	ctx, cancel := context.WithTimeout(ctx, permissionsTimeout)
	defer cancel()
	switch err := s.Check(ctx, bus.StreamAlerts); {
	case errors.Is(err, bus.ErrDenied), errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return nil // it may not, or has no JetStream of its own
	case err == nil:
		return errTooManyPermissions
	default:
		return err
	}
}

// key returns the key for a browser.
func (b Browser) key(ctx context.Context) (Key, error) {
	if b.Check {
		if err := b.checkPermissions(ctx); err != nil {
			return Key{}, err
		}
	}
	return b.Key()
}

// Key authenticates a role: the seed of an NKEY, and a JWT if the bus uses JWTs.
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
	address := b.URL()
	u, err := url.Parse(address)
	if address == "" || err != nil || !plainHost(u.Host) {
		return ""
	}
	if b.OnAllAddresses && u.Port() != "" {
		name, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			name = strings.Trim(r.Host, "[]")
		}
		u.Host = net.JoinHostPort(name, u.Port())
		if !plainHost(u.Host) {
			return ""
		}
	} else if httpguard.Loopback(u.Hostname()) && !isFromThisMachine(r) {
		return "" // loopback would be the browser's own machine
	}
	return u.Scheme + "://" + u.Host
}

// isFromThisMachine reports whether both the address and the Host of a request are of this
// machine. Through a proxy, the Host is another.
func isFromThisMachine(r *http.Request) bool {
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = r.Host
	}
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && addr.Addr().Unmap().IsLoopback() && httpguard.Loopback(name)
}

// withAnyPort returns a websocket's address for the content security policy, with any port.
func withAnyPort(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Port() == "" {
		return address
	}
	return u.Scheme + "://" + strings.TrimSuffix(u.Host, u.Port()) + "*"
}

// plainHost reports whether a host can be used in a header as it is.
func plainHost(host string) bool {
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-_.:[]") == ""
}

// pageSession is what the page loads first.
type pageSession struct {
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
	s := pageSession{Version: h.version, Desk: h.actions.enabled(), DeskReason: h.actions.disabled, TokenRequired: h.access.Token != "", SignedIn: h.signedIn(r)}
	if address := h.browser.url(r); address != "" && h.browser.Key != nil {
		key, err := h.browser.key(r.Context())
		if err == nil {
			s.Bus = &busAccess{URL: address, Seed: key.Seed, JWT: key.JWT}
		} else { // the page uses /events/stream
			h.log.Warn("browsers can't connect to the bus", "error", err)
		}
	}
	return s, nil
}
