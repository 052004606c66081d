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
	// requestTimeout bounds one JetStream request, and the wait for each message of a batch.
	requestTimeout = 5 * time.Second
	// pingInterval finds a peer that vanished silently, after three times as long. An
	// external bus may have other servers to connect to, so there it is twice
	// externalPingInterval.
	pingInterval         = 10 * time.Second
	externalPingInterval = 2 * time.Second
	// minReconnectDelay and maxReconnectDelay bound the pause between attempts.
	minReconnectDelay = 50 * time.Millisecond
	maxReconnectDelay = 2 * time.Second
)

// InProcessTimeout is how long a connection to a server in this process may take. There is
// no second attempt, and the machine may be busy.
const InProcessTimeout = 10 * time.Second

// InProcess is a NATS server in this process. Package embedded has one.
type InProcess interface {
	nats.InProcessConnProvider
	// Key returns the key of a role, or nil.
	Key(role Role) nkeys.KeyPair
	// Fault returns why the server can't write its store, or nil.
	Fault() error
}

// Config selects the bus and the role. Exactly one of Server, Dir and URL names the bus.
type Config struct {
	// Name is shown by the server's monitoring.
	Name string
	Role Role
	// Server is a server in this process, see package embedded.
	Server InProcess
	// Dir finds the bus that runs on a state directory. It is read again for every
	// attempt, so a bus that came back at another address is found.
	Dir statedir.Dir
	// URL is an external server or cluster, comma-separated; Creds is the file
	// with its credentials (a .creds file or an NKEY seed), or empty.
	URL, Creds string
	// CA, when set, is a PEM file with the certificates that vouch for those servers;
	// connections without TLS are then refused. Cert and Key are PEM files of our own
	// certificate, for servers that ask for one.
	CA, Cert, Key string
	// Once, when not 0, is for a process that lives for milliseconds: one attempt to
	// connect, of at most this long, and none after a loss. Connect then returns
	// ErrUnreachable where the bus can't be reached.
	Once   time.Duration
	Logger *slog.Logger
}

// Session is a connection to the bus with a role. It reconnects by itself and may exist
// before the bus does; it ends when it is closed for good, see [Session.Closed]. It is
// safe for concurrent use.
type Session struct {
	NC *nats.Conn
	JS jetstream.JetStream

	changes chan struct{}
	closed  chan struct{}
	denials denials
	// untrusted is why TLS failed since the connection was last open, or nil.
	untrusted atomic.Pointer[error]
	server    InProcess       // nil unless it is in this process
	dialer    *stateDirDialer // nil unless it is found by its state directory
	log       *slog.Logger
}

// Connect opens a session. With Dir or URL it returns at once, whether or not the bus can
// be reached. Its error is about the settings, or about a server in this process that did
// not answer; with Once it is [ErrUnreachable] where the bus can't be reached.
func Connect(_ context.Context, cfg Config) (*Session, error) {
	s := &Session{
		changes: make(chan struct{}, 1), closed: make(chan struct{}),
		denials: denials{inbox: cfg.Role.inboxPrefix()}, server: cfg.Server,
		log: cfg.Logger.With("component", "bus", "role", string(cfg.Role)),
	}
	opts, url, err := s.options(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect %s to the bus: %w", cfg.Role, err)
	}
	if s.NC, err = nats.Connect(url, opts...); err != nil {
		if cfg.Once > 0 {
			err = fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return nil, fmt.Errorf("connect %s to the bus: %w", cfg.Role, err)
	}
	if s.dialer != nil {
		s.dialer.conn.Store(s.NC)
	}
	s.JS, err = jetstream.New(s.NC, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		s.NC.Close()
		return nil, fmt.Errorf("connect %s to the bus: %w", cfg.Role, err)
	}
	return s, nil
}

func (s *Session) options(cfg Config) ([]nats.Option, string, error) {
	log := s.log
	opts := []nats.Option{
		nats.Name(cfg.Name),
		nats.CustomInboxPrefix(cfg.Role.inboxPrefix()),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(cfg.Server == nil),
		nats.CustomReconnectDelay(reconnectDelay),
		// No buffer: the caller gets an error for a message that can't be sent, and nothing
		// is kept for a bus that may never come back.
		nats.ReconnectBufSize(-1),
		nats.Timeout(dialTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			if s.denials.report(err) {
				return
			}
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			log.Warn("bus error", "error", err, "subject", subject)
		}),
		nats.ConnectHandler(func(nc *nats.Conn) { log.Debug("bus connected", "url", nc.ConnectedUrlRedacted()); s.onConnected() }),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("bus reconnected", "url", nc.ConnectedUrlRedacted()); s.onConnected() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("bus disconnected", "error", err)
			}
			s.signalChange()
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(s.closed); s.signalChange() }),
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
			nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { s.onTLSError(err, log) }))
		opts = append(opts, secure...)
		if cfg.Creds == "" {
			return opts, cfg.URL, nil
		}
		auth, err := credsFile(cfg.Creds)
		return append(opts, auth), cfg.URL, err
	default:
		s.dialer = newStateDirDialer(cfg.Dir, cfg.Role, dial, log)
		// A key that the bus does not know may be known after its restart.
		return append(opts, nats.IgnoreAuthErrorAbort(), s.dialer.key.option(), nats.SetCustomDialer(s.dialer), nats.SkipHostLookup(), nats.IgnoreDiscoveredServers(),
			nats.ReconnectErrHandler(s.dialer.warn)), "nats://" + runtimeHost, nil
	}
}

// reconnectDelay backs off from 50 ms to 2 s: a restart of the bus is noticed at once,
// and a bus that stays unreachable costs next to nothing.
func reconnectDelay(attempts int) time.Duration {
	return min(minReconnectDelay<<min(attempts, 6), maxReconnectDelay)
}

// onConnected forgets why the bus was unreachable.
func (s *Session) onConnected() {
	s.untrusted.Store(nil)
	s.denials.forget()
	s.signalChange()
}

// onTLSError keeps why TLS fails, which the client reports nowhere else, and logs each
// reason once.
func (s *Session) onTLSError(err error, log *slog.Logger) {
	if !isTrustError(err) {
		return
	}
	before := s.untrusted.Swap(&err)
	if before == nil || (*before).Error() != err.Error() {
		log.Warn("TLS with the bus fails", "error", err)
	}
}

// isTrustError reports whether an error means that one side does not trust the other.
func isTrustError(err error) bool {
	var theirs *tls.CertificateVerificationError
	var ours *net.OpError // how crypto/tls reports what the other side refused
	return errors.As(err, &theirs) || errors.Is(err, nats.ErrSecureConnWanted) || errors.As(err, &ours) && ours.Op == "remote error"
}

// signalChange signals Changes, which keeps one signal.
func (s *Session) signalChange() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// Changes signals after the connection was opened, lost or closed. Signals that were not
// received are merged into one. It is for one receiver.
func (s *Session) Changes() <-chan struct{} { return s.changes }

// Closed is closed when the connection is closed for good: by Close, or because the bus no
// longer knows our key. A connection that is lost for a while is not closed.
func (s *Session) Closed() <-chan struct{} { return s.closed }

// Err returns nil while the session is open, and then an error that wraps [ErrClosed] and
// the reason, where there is one.
func (s *Session) Err() error {
	if !s.NC.IsClosed() {
		return nil
	}
	if why := s.Why(); why != nil {
		return fmt.Errorf("%w: %w", ErrClosed, why)
	}
	return ErrClosed
}

// Connected reports whether the bus can be reached right now.
func (s *Session) Connected() bool { return s.NC.IsConnected() }

// unreachable returns an error that wraps ErrUnreachable and the reason, where one is
// known.
func (s *Session) unreachable() error {
	if why := s.Why(); why != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, why)
	}
	return ErrUnreachable
}

// checkUsable returns what is known to be wrong without asking the bus, or nil.
func (s *Session) checkUsable() error {
	if !s.Connected() {
		return s.unreachable()
	}
	if s.server != nil {
		return s.server.Fault()
	}
	return s.denials.err()
}

// Why returns an error that wraps [ErrKey] or [ErrUntrusted] when the bus refuses this
// session, with the reason and what to do. It returns nil when the bus is only
// unreachable, and while another attempt is under way.
func (s *Session) Why() error {
	switch {
	case s.Connected():
		return nil
	case errors.Is(s.NC.LastError(), nats.ErrAuthorization) && s.dialer != nil:
		return s.dialer.unknownKey()
	case errors.Is(s.NC.LastError(), nats.ErrAuthorization):
		return fmt.Errorf("%w: the bus does not know it: check TOCSIN_NATS_CREDS", ErrKey)
	case s.dialer != nil:
		return s.dialer.keyError()
	}
	why := s.NC.LastError() // a server that refuses our certificate
	if met := s.untrusted.Load(); met != nil {
		why = *met
	}
	if isTrustError(why) {
		return fmt.Errorf("%w: %w: check TOCSIN_NATS_CA, and where the bus asks for a certificate TOCSIN_NATS_CERT", ErrUntrusted, why)
	}
	return nil
}

// Close ends the session. Messages without an acknowledgement may not be stored; their
// publisher gets an error.
func (s *Session) Close() { s.NC.Close() }

// Check returns why a stream can't be used, or nil.
func (s *Session) Check(ctx context.Context, stream string) error {
	if err := s.checkUsable(); err != nil {
		return err
	}
	err := s.failOnDenial(ctx, apiInfo+stream, func(ctx context.Context) error {
		_, err := s.JS.Stream(ctx, stream)
		return err
	})
	if err != nil {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return missingStreamError(stream)
		}
		return fmt.Errorf("check stream %s: %w", stream, err)
	}
	return nil
}

// tlsFiles reads the certificates and keys for TLS, again for each session, so that they
// can be renewed.
func tlsFiles(cfg Config) ([]nats.Option, error) {
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

// missingStreamError is the error for the stream of that name, which does not exist. It wraps
// [jetstream.ErrStreamNotFound].
type missingStreamError string

func (m missingStreamError) Error() string {
	return "stream " + string(m) + " does not exist: start tocsin up once, or run tocsin provision where the bus is an external one"
}

func (m missingStreamError) Unwrap() error { return jetstream.ErrStreamNotFound }

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
