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

// Browser is how a browser joins the bus by itself, as bus.RoleDashboard: it may
// hear alerts and notices, and read ALERTS, and nothing else. Where any of it is
// missing, pages use /events/stream.
type Browser struct {
	// URL is that of the websocket now, or empty. It may be nil.
	URL func() string
	// Anywhere says that the websocket can be reached by every name that this
	// machine has: then a browser is sent to the one that it came by.
	Anywhere bool
	// Key reads the secret that the role proves itself by. It may be nil.
	Key func() (Key, error)
	// Check says that Key is a person's choice: it is handed out only while the bus
	// lets it do no more than a dashboard may.
	Check bool

	// narrow is nil while that is so, or says why not.
	narrow func(context.Context) error
}

// errWide says that whoever has the key may do more than look.
var errWide = errors.New("the credentials in TOCSIN_NATS_CREDS may do more on the bus than a dashboard: give it those of that role")

// narrowIn bounds the look at what the role may do.
const narrowIn = 2 * time.Second

// narrow is nil where the dashboard's own connection reads alerts, and may not even
// look at a stream: more than the one it has to be a dashboard's key for, and who may
// do anything may do the other.
func (h *handler) narrow(ctx context.Context) error {
	if err := h.feed.ready(); err != nil {
		return err
	}
	c := h.feed.conn.Load()
	ctx, cancel := context.WithTimeout(ctx, narrowIn)
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

// key is what a browser may be given.
func (b Browser) key(ctx context.Context) (Key, error) {
	if b.Check {
		if err := b.narrow(ctx); err != nil {
			return Key{}, err
		}
	}
	return b.Key()
}

// Key is what a role proves itself by: the seed of an NKEY, and with it a JWT where
// the bus goes by those.
type Key struct{ Seed, JWT string }

// announcedURL is the websocket of the bus that runs on a state directory.
func announcedURL(dir statedir.Dir) func() string {
	return func() string {
		running, err := dir.Running()
		if err != nil {
			return ""
		}
		return running.NATSWSURL
	}
}

// KeyIn is the key that the bus of a state directory made for the role.
func KeyIn(dir statedir.Dir) func() (Key, error) {
	return func() (Key, error) {
		text, _, err := dir.ReadCredential(string(bus.RoleDashboard))
		if err != nil {
			return Key{}, fmt.Errorf("read the key of the dashboard: %w", err)
		}
		return readKey(text)
	}
}

// fileKey is the key in a file: an NKEY seed, or a .creds file with a JWT and one.
// Without a file there is no key, and no need of one.
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

// url is the websocket for the browser behind a request, or empty. Where it listens on
// loopback alone, a browser of another machine can't reach it, and gets no key to it
// either: whoever wants that opens the websocket. The Host must have been checked.
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
		return "" // there, it is another machine's
	}
	return u.Scheme + "://" + u.Host
}

// fromHere says whether a request comes from this machine, as far as it shows: a
// proxy in front names another Host, and whoever names a false one another address.
func fromHere(r *http.Request) bool {
	name, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		name = r.Host
	}
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && addr.Addr().Unmap().IsLoopback() && httpguard.Loopback(name)
}

// wherever is a websocket's address as a policy says it, with whatever port.
func wherever(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Port() == "" {
		return at
	}
	return u.Scheme + "://" + strings.TrimSuffix(u.Host, u.Port()) + "*"
}

// plainHost says whether a host can stand in a header's list as it is.
func plainHost(host string) bool {
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-_.:[]") == ""
}

// session is what the page has to know before it can show anything.
type session struct {
	Version string     `json:"version"`
	Bus     *busAccess `json:"bus"`
	// Desk says whether there is more than alerts, and DeskReason why not.
	Desk          bool   `json:"desk"`
	DeskReason    string `json:"desk_reason"`
	TokenRequired bool   `json:"token_required"`
	// SignedIn reports whether the request has the cookie of a sign-in, which can be ended.
	SignedIn bool `json:"signed_in"`
}

// busAccess is how a browser joins the bus.
type busAccess struct {
	URL  string `json:"url"`
	Seed string `json:"seed"`
	JWT  string `json:"jwt,omitempty"`
}

func (h *handler) session(r *http.Request) (any, error) {
	s := session{Version: h.version, Desk: h.desk.open(), DeskReason: h.desk.closed, TokenRequired: h.access.Token != "", SignedIn: h.signedIn(r)}
	if at := h.browser.url(r); at != "" && h.browser.Key != nil {
		key, err := h.browser.key(r.Context())
		if err == nil {
			s.Bus = &busAccess{URL: at, Seed: key.Seed, JWT: key.JWT}
		} else { // the page has /events/stream
			h.log.Warn("browsers can't join the bus by themselves", "error", err)
		}
	}
	return s, nil
}
