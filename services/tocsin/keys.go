package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/service"
)

type keysCommand struct {
	Dir string `arg:"" help:"Where to: a directory of its own, which is made."`
}

// The files beside the keys, for the servers.
const (
	publicKeysFile = "keys.env"
	routesFile     = "routes.env"
)

// maxKeyFile is the largest key file that is read, in bytes.
const maxKeyFile = 64 << 10

// Run makes a key for each role of an external bus where there is none, and writes
// what its servers need to know of them.
func (c *keysCommand) Run(env service.Env) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory for the keys: %w", err)
	}
	say := printer{w: env.Stdout}
	var public strings.Builder
	for _, role := range append(bus.Roles(), bus.RoleProvisioner) {
		file := filepath.Join(c.Dir, string(role)+".nk")
		key, made, err := roleKey(file)
		if err != nil {
			return err
		}
		say.line(doing(made) + file)
		fmt.Fprintf(&public, "%s=%s\n", role.KeyVariable(), key)
	}
	// It begins with a letter: nats-server would read 2E4... as a number.
	file := filepath.Join(c.Dir, routesFile)
	made, err := createSecret(file, []byte("TOCSIN_ROUTES_PASSWORD=R"+rand.Text()+"\n"))
	if err != nil {
		return err
	}
	say.line(doing(made) + file)
	file = filepath.Join(c.Dir, publicKeysFile)
	if err := os.WriteFile(file, []byte(public.String()), 0o644); err != nil { //nolint:gosec // public keys
		return fmt.Errorf("write the public keys: %w", err)
	}
	say.line("wrote " + file)
	say.line("Each service gets its role's .nk file as TOCSIN_NATS_CREDS, the NATS servers get the .env files: see deploy/nats.")
	return say.err
}

func doing(made bool) string {
	if made {
		return "made  "
	}
	return "kept  "
}

// roleKey is the public key of the seed in file, which is made where it is missing.
func roleKey(file string) (public string, made bool, err error) {
	seed, public, err := bus.NewKey()
	if err != nil {
		return "", false, err
	}
	if made, err = createSecret(file, append(seed, '\n')); made || err != nil {
		return public, made, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", false, fmt.Errorf("look at a key: %w", err)
	}
	switch {
	case info.Size() > maxKeyFile:
		return "", false, fmt.Errorf("%s is no key: move it away, or name another directory", file)
	case info.Mode().Perm()&0o077 != 0:
		return "", false, fmt.Errorf("others can read %s (mode %04o): chmod 600 it, or remove it where they may have", file, info.Mode().Perm())
	}
	if seed, err = os.ReadFile(file); err != nil {
		return "", false, fmt.Errorf("read a key: %w", err)
	}
	if public, err = bus.PublicKey(seed); err != nil {
		return "", false, fmt.Errorf("%s: %w: move it away, or name another directory", file, err)
	}
	return public, false, nil
}

// createSecret writes a file that only its owner can read, unless there is one.
func createSecret(file string, content []byte) (made bool, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("make a key: %w", err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, errors.Join(fmt.Errorf("make a key: %w", err), os.Remove(file))
	}
	return true, nil
}
