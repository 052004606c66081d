package statedir

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Credential returns the file with the secret of a role on the bus.
func (d Dir) Credential(role string) string {
	return filepath.Join(d.path, credentialsDir, role+".nk")
}

// CreateCredential stores the secret of a role, readable by the owner alone. Where the role has
// one already it changes nothing, and the error wraps [fs.ErrExist]: two processes that start
// at once agree on the first.
func (d Dir) CreateCredential(role string, secret []byte) error {
	file := d.Credential(role)
	if err := os.MkdirAll(filepath.Dir(file), dirMode); err != nil {
		return fmt.Errorf("create credentials directory: %w", err)
	}
	tmp, err := writeTemp(file, secret)
	if err != nil {
		return fmt.Errorf("write credential of %s: %w", role, err)
	}
	defer func() { _ = os.Remove(tmp) }() // the link, if any, stays
	if err := os.Link(tmp, file); err != nil {
		return fmt.Errorf("write credential of %s: %w", role, err)
	}
	return nil
}

// othersMode are the permissions on a secret that only the owner may have.
const othersMode fs.FileMode = 0o077

// ReadCredential reads the secret of a role. Where other users could read or change the file,
// its permissions are restricted (mode 0600), and restricted is true. A file of another user,
// or one on a read-only volume, is used as it is. The error wraps [fs.ErrNotExist] where the
// role has none yet.
func (d Dir) ReadCredential(role string) (secret []byte, restricted bool, err error) {
	f, err := os.Open(d.Credential(role))
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if info.Mode().Perm()&othersMode != 0 {
		restricted = f.Chmod(secretMode) == nil
	}
	secret, err = io.ReadAll(io.LimitReader(f, maxCredential))
	return secret, restricted, err
}

// maxCredential is the largest secret that is read, in bytes.
const maxCredential = 64 << 10
