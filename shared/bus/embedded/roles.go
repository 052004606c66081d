package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// makeKeys reads the roles' keys, and makes those that are missing. Only the
// process that embeds the server does: a key that it does not know opens
// nothing.
func makeKeys(dir statedir.Dir, log *slog.Logger) (map[bus.Role]nkeys.KeyPair, error) {
	keys := make(map[bus.Role]nkeys.KeyPair, len(bus.Roles()))
	for _, role := range bus.Roles() {
		key, err := bus.ReadKey(dir, role, log)
		if errors.Is(err, fs.ErrNotExist) {
			if err = makeKey(dir, role); err == nil {
				key, err = bus.ReadKey(dir, role, log)
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
func publicKeys(keys map[bus.Role]nkeys.KeyPair) (map[bus.Role]string, error) {
	public := make(map[bus.Role]string, len(keys))
	for role, key := range keys {
		var err error
		if public[role], err = key.PublicKey(); err != nil {
			return nil, fmt.Errorf("read the public key of %s: %w", role, err)
		}
	}
	return public, nil
}

func makeKey(dir statedir.Dir, role bus.Role) error {
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

// letIn makes the roles, by their public keys, those whom an embedded server lets in.
func letIn(opts *server.Options, public map[bus.Role]string) error {
	patience := opts.AuthTimeout // an external server's clients are not as busy
	if err := opts.ProcessConfigString(bus.ServerAccounts(func(r bus.Role) string { return public[r] })); err != nil {
		return fmt.Errorf("let the roles in: %w", err)
	}
	opts.AuthTimeout = patience
	for _, a := range opts.Accounts {
		if a.Name == bus.AccountServices {
			// The stores of embedded servers have their streams in the account that a
			// server has where none is configured. A configuration can't name it.
			a.Name = server.DEFAULT_GLOBAL_ACCOUNT
		}
	}
	return nil
}
