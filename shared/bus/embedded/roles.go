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

// roleKeys reads the keys of the roles, and creates the missing ones. Only the process with
// the server does: a key that the server does not know is of no use.
func roleKeys(dir statedir.Dir, log *slog.Logger) (map[bus.Role]nkeys.KeyPair, error) {
	keys := make(map[bus.Role]nkeys.KeyPair, len(bus.Roles()))
	for _, role := range bus.Roles() {
		key, err := bus.ReadKey(dir, role, log)
		if errors.Is(err, fs.ErrNotExist) {
			if err = createKey(dir, role); err == nil {
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

// publicKeys returns the public keys by which the server authenticates clients. The seeds
// stay in the state directory; the server and the wire see public keys and signatures only.
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

func createKey(dir statedir.Dir, role bus.Role) error {
	key, err := nkeys.CreateUser()
	if err != nil {
		return fmt.Errorf("create the key of %s: %w", role, err)
	}
	seed, err := key.Seed()
	if err != nil {
		return fmt.Errorf("create the key of %s: %w", role, err)
	}
	return dir.CreateCredential(string(role), append(seed, '\n'))
}

// addRoles configures the accounts and the roles with their public keys.
func addRoles(opts *server.Options, public map[bus.Role]string) error {
	timeout := opts.AuthTimeout // the configuration has that of an external server
	if err := opts.ProcessConfigString(bus.ServerAccounts(func(r bus.Role) string { return public[r] })); err != nil {
		return fmt.Errorf("configure the roles: %w", err)
	}
	opts.AuthTimeout = timeout
	for _, a := range opts.Accounts {
		if a.Name == bus.AccountServices {
			// Stores of embedded servers have their streams in the account of a server
			// without accounts, which a configuration can't name.
			a.Name = server.DEFAULT_GLOBAL_ACCOUNT
		}
	}
	return nil
}
