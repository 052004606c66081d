package bus

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// makeKeys reads the roles' keys, and makes those that are missing. Only the
// process that embeds the server does: a key that it does not know opens
// nothing.
func makeKeys(dir statedir.Dir, log *slog.Logger) (map[Role]nkeys.KeyPair, error) {
	keys := make(map[Role]nkeys.KeyPair, len(Roles()))
	for _, role := range Roles() {
		key, err := readKey(dir, role, log)
		if errors.Is(err, fs.ErrNotExist) {
			if err = makeKey(dir, role); err == nil {
				key, err = readKey(dir, role, log)
			}
		}
		if err != nil {
			return nil, err
		}
		keys[role] = key
	}
	return keys, nil
}

// publicKeys are what the embedded server knows its clients by. The seeds stay in
// the state directory; the server and the wire only ever see public keys and
// signatures.
func publicKeys(keys map[Role]nkeys.KeyPair) (map[Role]string, error) {
	public := make(map[Role]string, len(keys))
	for role, key := range keys {
		var err error
		if public[role], err = key.PublicKey(); err != nil {
			return nil, fmt.Errorf("read the public key of %s: %w", role, err)
		}
	}
	return public, nil
}

// readKey reads a role's key. Its error wraps ErrKey, and fs.ErrNotExist where
// there is none.
func readKey(dir statedir.Dir, role Role, log *slog.Logger) (nkeys.KeyPair, error) {
	file := dir.Credential(string(role))
	seed, mended, err := dir.ReadCredential(string(role))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w: restart tocsin up, which makes it, or name the bus with --nats-url where it is an external one", ErrKey, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrKey, file, err)
	}
	if mended {
		log.Warn("others could read a key of the bus; now they can't: remove it and restart tocsin up if they may have", "file", file)
	}
	key, err := nkeys.ParseDecoratedNKey(seed)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w: remove it and restart tocsin up", ErrKey, file, err)
	}
	return key, nil
}

func makeKey(dir statedir.Dir, role Role) error {
	key, err := nkeys.CreateUser()
	if err != nil {
		return fmt.Errorf("make the key of %s: %w", role, err)
	}
	seed, err := key.Seed()
	if err != nil {
		return fmt.Errorf("make the key of %s: %w", role, err)
	}
	return dir.CreateCredential(string(role), append(seed, '\n'))
}

// keyOption proves a role to the server by its key.
func keyOption(key nkeys.KeyPair) (nats.Option, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("read the public key: %w", err)
	}
	return nats.Nkey(public, key.Sign), nil
}

// NewKey makes a key for a role on an external bus: its seed, which is a secret,
// and its public key, which the bus gets to know.
func NewKey() (seed []byte, public string, err error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	if seed, err = key.Seed(); err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	if public, err = key.PublicKey(); err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	return seed, public, nil
}

// PublicKey is the public key of a seed, as NewKey makes it.
func PublicKey(seed []byte) (string, error) {
	key, err := nkeys.ParseDecoratedNKey(seed)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	public, err := key.PublicKey()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	if !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("%w: it is not the seed of a user", ErrKey)
	}
	return public, nil
}

// KeyVariable is the environment variable by which a server's configuration, such
// as that in deploy/nats, gets the public key of a role.
func (r Role) KeyVariable() string { return "TOCSIN_NKEY_" + strings.ToUpper(string(r)) }
