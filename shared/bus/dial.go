package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// runtimeHost is a placeholder for the address in runtime.json.
const runtimeHost = "runtime.json.invalid:4222"

// stateDirDialer connects to the bus that runs on a state directory, with the key in it. Both
// are read for every attempt: they may not exist yet, and may change.
type stateDirDialer struct {
	dir  statedir.Dir
	role Role
	// timeout bounds one attempt.
	timeout time.Duration
	log     *slog.Logger
	// conn is set once nats.Connect has returned.
	conn atomic.Pointer[nats.Conn]
	key  *renewableKey
	// keyErr is why the key can't be used, or nil.
	keyErr atomic.Pointer[error]
	// lastReason is the reason of the last failure, repeats how often it came in a row. The client's
	// callbacks own them.
	lastReason string
	repeats    int
}

// warnAfter is the number of times in a row that a reason must come to be logged. A caller that gives up
// sooner reports it itself.
const warnAfter = 3

func newStateDirDialer(dir statedir.Dir, role Role, timeout time.Duration, log *slog.Logger) *stateDirDialer {
	d := &stateDirDialer{dir: dir, role: role, timeout: timeout, log: log, key: &renewableKey{}}
	if pair, err := ReadKey(dir, role, log); err == nil {
		_ = d.key.set(pair) // Dial reports what is wrong with it
	}
	return d
}

// Dial connects to the bus. The client calls it under its own lock.
func (d *stateDirDialer) Dial(network, _ string) (net.Conn, error) {
	r, err := d.dir.Running()
	if err != nil {
		d.keyErr.Store(nil)
		return nil, err
	}
	err = d.renewKey()
	d.keyErr.Store(&err)
	if err != nil {
		return nil, err
	}
	addr, err := hostPort(r.NATSURL)
	if err != nil {
		return nil, fmt.Errorf("dial the bus of runtime.json: %w", err)
	}
	// The client dials without a context.
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
	defer cancel()
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, addr)
}

// errNotReady is returned while nats.Connect has not returned: the client tries again.
var errNotReady = errors.New("the connection is not ready yet")

// renewKey reads the key in the state directory again.
func (d *stateDirDialer) renewKey() error {
	pair, err := ReadKey(d.dir, d.role, d.log)
	if err != nil {
		return err
	}
	before := d.key.public
	if err := d.key.set(pair); err != nil || d.key.public == before {
		return err
	}
	nc := d.conn.Load()
	if nc == nil {
		d.key.public = before
		return errNotReady
	}
	// The client has no method to change a key. It dials and authenticates under one lock,
	// which is held here.
	nc.Opts.Nkey = d.key.public
	return nil
}

// keyError returns why the key could not be used at the last attempt, or nil.
func (d *stateDirDialer) keyError() error {
	if err := d.keyErr.Load(); err != nil && errors.Is(*err, ErrKey) {
		return *err
	}
	return nil
}

// unknownKey returns the error for a key that the bus refused.
func (d *stateDirDialer) unknownKey() error {
	return fmt.Errorf("%w: the bus does not know the one in %s: restart tocsin up", ErrKey, d.file())
}

func (d *stateDirDialer) file() string { return d.dir.Credential(string(d.role)) }

// warn logs why the key can't be used, each reason once in a row.
func (d *stateDirDialer) warn(_ *nats.Conn, err error) {
	text := ""
	switch {
	case errors.Is(err, ErrKey):
		text = err.Error()
	case errors.Is(err, nats.ErrAuthorization):
		text = d.unknownKey().Error()
	}
	if text != d.lastReason {
		d.lastReason, d.repeats = text, 0
	}
	if d.repeats++; d.repeats == warnAfter && text != "" {
		d.log.Warn("cannot connect to the bus", "error", text)
	}
}

// renewableKey is a key that may change from one attempt to the next. The client's lock guards it.
type renewableKey struct {
	pair   nkeys.KeyPair
	public string
}

func (k *renewableKey) set(pair nkeys.KeyPair) error {
	public, err := pair.PublicKey()
	if err != nil {
		return fmt.Errorf("%w: read its public part: %w", ErrKey, err)
	}
	k.pair, k.public = pair, public
	return nil
}

func (k *renewableKey) option() nats.Option {
	return nats.Nkey(k.public, func(nonce []byte) ([]byte, error) {
		if k.pair == nil {
			return nil, ErrKey
		}
		return k.pair.Sign(nonce)
	})
}

// hostPort returns the address in a URL.
func hostPort(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is not a URL with a host", raw)
	}
	return u.Host, nil
}
