package bus

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// ReadKey reads a role's key from a state directory. The error wraps [ErrKey], and
// [fs.ErrNotExist] where there is none.
func ReadKey(dir statedir.Dir, role Role, log *slog.Logger) (nkeys.KeyPair, error) {
	file := dir.Credential(string(role))
	seed, restricted, err := dir.ReadCredential(string(role))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w: restart tocsin up, which creates it, or name an external bus with --nats-url", ErrKey, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrKey, file, err)
	}
	if restricted {
		log.Warn("other users could read a key of the bus; its permissions are now restricted. If one of them may have read it, remove the file and restart tocsin up", "file", file)
	}
	key, err := nkeys.ParseDecoratedNKey(seed)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w: remove it and restart tocsin up", ErrKey, file, err)
	}
	return key, nil
}

// keyOption authenticates a role by its key.
func keyOption(key nkeys.KeyPair) (nats.Option, error) {
	if key == nil {
		return nil, fmt.Errorf("%w: the server in this process has no key for this role", ErrKey)
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("read the public key: %w", err)
	}
	return nats.Nkey(public, key.Sign), nil
}

// NewKey creates a key for a role on an external bus: the seed, which is a secret, and the
// public key for the server's configuration.
func NewKey() (seed []byte, public string, err error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", fmt.Errorf("create a key: %w", err)
	}
	if seed, err = key.Seed(); err != nil {
		return nil, "", fmt.Errorf("create a key: %w", err)
	}
	if public, err = key.PublicKey(); err != nil {
		return nil, "", fmt.Errorf("create a key: %w", err)
	}
	return seed, public, nil
}

// PublicKey returns the public key of a seed.
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
