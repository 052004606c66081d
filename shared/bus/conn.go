package bus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// Bounds of a connection.
const (
	dialTimeout = 2 * time.Second
	// requestTimeout bounds one JetStream request that has no deadline.
	requestTimeout = 5 * time.Second
	// pingInterval finds a peer that vanished without a word, after three times as
	// long. Of an external bus there may be others to go to: there it is after twice
	// externalPingInterval.
	pingInterval         = 10 * time.Second
	externalPingInterval = 2 * time.Second
	// minReconnectDelay and maxReconnectDelay bound the pause between attempts.
	minReconnectDelay = 50 * time.Millisecond
	maxReconnectDelay = 2 * time.Second
)

// InProcessTimeout is how long a connection to a server in this process may take. There is
// no second try, and the machine may be busy.
const InProcessTimeout = 10 * time.Second

// InProcess is a NATS server in this process. Package embedded has one.
type InProcess interface {
	nats.InProcessConnProvider
	// Key returns the key of a role, or nil.
	Key(role Role) nkeys.KeyPair
	// Fault returns why the server can't write its store, or nil.
	Fault() error
}

// ConnConfig says which bus to join and as whom. Exactly one of Server, Dir
// and URL names the bus.
type ConnConfig struct {
	// Name is shown by the server's monitoring.
	Name string
	Role Role
	// Server is a server in this process, see package embedded.
	Server InProcess
	// Dir finds the bus that runs on a state directory. It is looked up again
	// for every attempt, so a bus that came back at another address is found.
	Dir statedir.Dir
	// URL is an external server or cluster, comma-separated; Creds is the file
	// with its credentials (a .creds file or an NKEY seed), or empty.
	URL, Creds string
	// CA, where it is set, is a PEM file with the certificates that vouch for those
	// servers, and the connection is then never without TLS. Cert and Key are PEM
	// files with our own, where they ask for one.
	CA, Cert, Key string
	// Once, where it is not 0, is for a process that lives for milliseconds: the
	// connection is tried once, within this long, and not made again when it is
	// lost. A bus that can't be reached is Connect's error then.
	Once   time.Duration
	Logger *slog.Logger
}

// Conn is a connection that reconnects for ever. It exists before the bus does
// and outlives its restarts; use Connected or the errors to tell.
type Conn struct {
	NC *nats.Conn
	JS jetstream.JetStream

	changes chan struct{}
	denials denials
	// untrusted is why TLS failed since the connection was last there, or nil.
	untrusted atomic.Pointer[error]
	server    InProcess       // nil unless it is in this process
	dialer    *stateDirDialer // nil unless it is found by its state directory
}

// Connect makes a connection. With Dir or URL it returns at once, whether or
// not the bus is there. Its error says what is wrong with the settings, or
// that the server in this process could not be reached, or with Once, as
// ErrAway, that the bus could not.
func Connect(_ context.Context, cfg ConnConfig) (*Conn, error) {
	c := &Conn{changes: make(chan struct{}, 1), denials: denials{inbox: cfg.Role.inboxPrefix()}, server: cfg.Server}
	opts, url, err := c.options(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect %s to the bus: %w", cfg.Role, err)
	}
	if c.NC, err = nats.Connect(url, opts...); err != nil {
		if cfg.Once > 0 {
			err = fmt.Errorf("%w: %w", ErrAway, err)
		}
		return nil, fmt.Errorf("connect %s to the bus: %w", cfg.Role, err)
	}
	if c.dialer != nil {
		c.dialer.conn.Store(c.NC)
	}
	c.JS, err = jetstream.New(c.NC, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		c.NC.Close()
		return nil, fmt.Errorf("connect %s to the bus: %w", cfg.Role, err)
	}
	return c, nil
}

func (c *Conn) options(cfg ConnConfig) ([]nats.Option, string, error) {
	log := cfg.Logger.With("component", "bus", "role", string(cfg.Role))
	opts := []nats.Option{
		nats.Name(cfg.Name),
		nats.CustomInboxPrefix(cfg.Role.inboxPrefix()),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(cfg.Server == nil),
		nats.CustomReconnectDelay(reconnectDelay),
		// A small buffer: what could not be sent is told to the caller instead
		// of being kept for a bus that may never come back.
		nats.ReconnectBufSize(-1),
		nats.Timeout(dialTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			if c.denials.tell(err) {
				return
			}
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			log.Warn("bus error", "error", err, "subject", subject)
		}),
		nats.ConnectHandler(func(nc *nats.Conn) { log.Debug("bus connected", "url", nc.ConnectedUrlRedacted()); c.connected() }),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("bus reconnected", "url", nc.ConnectedUrlRedacted()); c.connected() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("bus disconnected", "error", err)
			}
			c.changed()
		}),
		nats.ClosedHandler(func(*nats.Conn) { c.changed() }),
	}
	dial := dialTimeout
	if cfg.Once > 0 {
		dial = cfg.Once
		opts = append(opts, nats.Timeout(dial), nats.RetryOnFailedConnect(false), nats.NoReconnect())
	}
	switch {
	case cfg.Server != nil:
		auth, err := keyOption(cfg.Server.Key(cfg.Role))
		return append(opts, nats.InProcessServer(cfg.Server), nats.Timeout(InProcessTimeout), auth), "", err
	case cfg.URL != "":
		secure, err := tlsFiles(cfg)
		if err != nil {
			return nil, "", err
		}
		opts = append(opts, nats.PingInterval(externalPingInterval), nats.MaxPingsOutstanding(1),
			nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { c.failed(err, log) }))
		opts = append(opts, secure...)
		if cfg.Creds == "" {
			return opts, cfg.URL, nil
		}
		auth, err := credsFile(cfg.Creds)
		return append(opts, auth), cfg.URL, err
	default:
		c.dialer = newStateDirDialer(cfg.Dir, cfg.Role, dial, log)
		// A key that the bus does not know may be known after its restart.
		return append(opts, nats.IgnoreAuthErrorAbort(), c.dialer.key.option(), nats.SetCustomDialer(c.dialer), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers(),
			nats.ReconnectErrHandler(c.dialer.warn)), "nats://" + runtimeHost, nil
	}
}

// reconnectDelay backs off from 50 ms to 2 s: a restart of the bus is noticed
// at once, and a bus that stays away costs next to nothing.
func reconnectDelay(attempts int) time.Duration {
	return min(minReconnectDelay<<min(attempts, 6), maxReconnectDelay)
}

// connected forgets what stood in the way.
func (c *Conn) connected() {
	c.untrusted.Store(nil)
	c.denials.forget()
	c.changed()
}

// failed keeps why TLS fails: it does not pass by itself, and the client tells it
// nobody. Each reason is logged once.
func (c *Conn) failed(err error, log *slog.Logger) {
	if !untrusted(err) {
		return
	}
	before := c.untrusted.Swap(&err)
	if before == nil || (*before).Error() != err.Error() {
		log.Warn("no TLS with the bus", "error", err)
	}
}

// untrusted says whether an error means that one side does not trust the other.
func untrusted(err error) bool {
	var theirs *tls.CertificateVerificationError
	var ours *net.OpError // how crypto/tls says what the other side does not like
	return errors.As(err, &theirs) || errors.Is(err, nats.ErrSecureConnWanted) || errors.As(err, &ours) && ours.Op == "remote error"
}

// changed tells Changes, which remembers one signal.
func (c *Conn) changed() {
	select {
	case c.changes <- struct{}{}:
	default:
	}
}

// Changes signals after the connection was made, lost or closed. Signals that
// nobody has taken are merged into one.
func (c *Conn) Changes() <-chan struct{} { return c.changes }

// Connected says whether the bus can be reached right now.
func (c *Conn) Connected() bool { return c.NC.IsConnected() }

// usable is nil, or says what is known to be wrong without asking the bus.
func (c *Conn) usable() error {
	if !c.Connected() {
		if why := c.Why(); why != nil {
			return fmt.Errorf("%w: %w", ErrAway, why)
		}
		return ErrAway
	}
	if c.server != nil {
		return c.server.Fault()
	}
	return c.denials.why()
}

// Why is nil, or wraps ErrKey or ErrUntrusted and says why the bus does not let us
// in, and what to do. A bus that is only away has no such reason, nor is there one while it
// is tried again.
func (c *Conn) Why() error {
	switch {
	case c.Connected():
		return nil
	case errors.Is(c.NC.LastError(), nats.ErrAuthorization) && c.dialer != nil:
		return c.dialer.unknown()
	case errors.Is(c.NC.LastError(), nats.ErrAuthorization):
		return fmt.Errorf("%w: the bus does not know it: check TOCSIN_NATS_CREDS", ErrKey)
	case c.dialer != nil:
		return c.dialer.refused()
	}
	why := c.NC.LastError() // of a server that does not like our certificate
	if met := c.untrusted.Load(); met != nil {
		why = *met
	}
	if untrusted(why) {
		return fmt.Errorf("%w: %w: check TOCSIN_NATS_CA, and where the bus asks for a certificate TOCSIN_NATS_CERT", ErrUntrusted, why)
	}
	return nil
}

// Close ends the connection. What was published and not acknowledged is lost
// to the caller, who has been told so.
func (c *Conn) Close() { c.NC.Close() }

// Check says whether the streams can be used: nil, or why not, with the cause.
func (c *Conn) Check(ctx context.Context, stream string) error {
	if err := c.usable(); err != nil {
		return err
	}
	err := c.allowed(ctx, apiInfo+stream, func(ctx context.Context) error {
		_, err := c.JS.Stream(ctx, stream)
		return err
	})
	if err != nil {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return missing(stream)
		}
		return fmt.Errorf("look at stream %s: %w", stream, err)
	}
	return nil
}

// tlsFiles reads what TLS needs. The files are read again for each connection, so
// that they can be renewed.
func tlsFiles(cfg ConnConfig) ([]nats.Option, error) {
	var opts []nats.Option
	if cfg.CA != "" {
		pem, err := os.ReadFile(cfg.CA)
		if err != nil {
			return nil, fmt.Errorf("read TOCSIN_NATS_CA: %w", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read TOCSIN_NATS_CA: %s holds no certificate in PEM", cfg.CA)
		}
		opts = append(opts, nats.RootCAs(cfg.CA))
	}
	if cfg.Cert != "" {
		if _, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key); err != nil {
			return nil, fmt.Errorf("read TOCSIN_NATS_CERT and TOCSIN_NATS_KEY: %w", err)
		}
		opts = append(opts, nats.ClientCert(cfg.Cert, cfg.Key))
	}
	return opts, nil
}

func missing(stream string) error {
	return fmt.Errorf("stream %s does not exist: start tocsin up once, or run tocsin provision where the bus is an external one", stream)
}

// credsFile reads a .creds file (JWT and seed) or a bare NKEY seed.
func credsFile(path string) (nats.Option, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read TOCSIN_NATS_CREDS: %w", err)
	}
	if strings.Contains(string(data), "-----BEGIN NATS USER JWT-----") {
		return nats.UserCredentials(path), nil
	}
	if _, err := nkeys.ParseDecoratedNKey(data); err != nil {
		return nil, fmt.Errorf("read TOCSIN_NATS_CREDS: %s is neither a .creds file nor an NKEY seed", path)
	}
	return nats.NkeyOptionFromSeed(path)
}
