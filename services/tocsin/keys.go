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
	Dir string `arg:"" help:"Directory for the keys, which is created."`
}

// The files beside the keys, for the NATS servers.
const (
	publicKeysFile = "keys.env"
	routesFile     = "routes.env"
)

// maxKeyFile is the largest key file that is read, in bytes.
const maxKeyFile = 64 << 10

// Run creates the missing keys of the roles of an external bus, and writes the files that
// its servers need.
func (c *keysCommand) Run(env service.Env) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("create the directory for the keys: %w", err)
	}
	out := printer{w: env.Stdout}
	var public strings.Builder
	for _, role := range append(bus.Roles(), bus.RoleProvisioner) {
		file := filepath.Join(c.Dir, string(role)+".nk")
		key, created, err := roleKey(file)
		if err != nil {
			return err
		}
		out.line(action(created) + file)
		fmt.Fprintf(&public, "%s=%s\n", role.KeyVariable(), key)
	}
	// The password begins with a letter, because nats-server would read 2E4... as a number.
	file := filepath.Join(c.Dir, routesFile)
	created, err := createSecret(file, []byte("TOCSIN_ROUTES_PASSWORD=R"+rand.Text()+"\n"))
	if err != nil {
		return err
	}
	out.line(action(created) + file)
	file = filepath.Join(c.Dir, publicKeysFile)
	if err := os.WriteFile(file, []byte(public.String()), 0o644); err != nil { //nolint:gosec // public keys
		return fmt.Errorf("write the public keys: %w", err)
	}
	out.line("wrote   " + file)
	out.line("Set TOCSIN_NATS_CREDS of each service to the .nk file of its role, and give the .env files to the NATS servers (see deploy/nats).")
	return out.err
}

// action returns what was done with a file.
func action(created bool) string {
	if created {
		return "created "
	}
	return "kept    "
}

// roleKey returns the public key of the seed in file, which it creates if it is missing.
func roleKey(file string) (public string, created bool, err error) {
	seed, public, err := bus.NewKey()
	if err != nil {
		return "", false, err
	}
	if created, err = createSecret(file, append(seed, '\n')); created || err != nil {
		return public, created, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", false, fmt.Errorf("check a key: %w", err)
	}
	switch {
	case info.Size() > maxKeyFile:
		return "", false, fmt.Errorf("%s is not a key: move it away, or use another directory", file)
	case info.Mode().Perm()&0o077 != 0:
		return "", false, fmt.Errorf("other users can read %s (mode %04o): run chmod 600 on it, or remove it if they may have read it", file, info.Mode().Perm())
	}
	if seed, err = os.ReadFile(file); err != nil {
		return "", false, fmt.Errorf("read a key: %w", err)
	}
	if public, err = bus.PublicKey(seed); err != nil {
		return "", false, fmt.Errorf("%s: %w: move it away, or use another directory", file, err)
	}
	return public, false, nil
}

// createSecret writes a file that only its owner can read, unless it exists.
func createSecret(file string, content []byte) (created bool, err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("create a key: %w", err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, errors.Join(fmt.Errorf("create a key: %w", err), os.Remove(file))
	}
	return true, nil
}
