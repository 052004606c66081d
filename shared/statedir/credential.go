package statedir

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Credential is the file that holds the secret of a role on the bus.
func (d Dir) Credential(role string) string {
	return filepath.Join(d.path, credentialsDir, role+".nk")
}

// CreateCredential stores the secret of a role, readable by the owner alone.
// Where the role has one already it changes nothing and its error wraps
// fs.ErrExist: two processes that start at once agree on the first.
func (d Dir) CreateCredential(role string, secret []byte) error {
	file := d.Credential(role)
	if err := os.MkdirAll(filepath.Dir(file), ownerOnly); err != nil {
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

// othersMay are the permissions that nobody but the owner may have on a secret.
const othersMay fs.FileMode = 0o077

// ReadCredential reads the secret of a role. Where others could read or change
// the file, that is mended (mode 0600), and told by mended. Who was given the
// file of somebody else, or a read-only one, may not mend it, and uses it as it
// is. The error wraps fs.ErrNotExist where the role has none yet.
func (d Dir) ReadCredential(role string) (secret []byte, mended bool, err error) {
	f, err := os.Open(d.Credential(role))
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	if info.Mode().Perm()&othersMay != 0 {
		mended = f.Chmod(ownerOnlySecret) == nil
	}
	secret, err = io.ReadAll(io.LimitReader(f, maxCredential))
	return secret, mended, err
}

// maxCredential is the largest secret that is read, in bytes.
const maxCredential = 64 << 10
