// Package statedir is the directory in which one Tocsin installation keeps
// what must outlive its processes: the JetStream store, the credentials of the
// bus's roles, and runtime.json, which says what runs where.
//
// It knows files and the lock on them, and nothing of what is stored.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Version is the layout of the directory. A directory of another version is
// refused, so that an older or newer Tocsin never rewrites what it can't read.
const Version = "1"

// Names inside the directory.
const (
	versionFile     = "VERSION"
	lockFile        = "lock"
	runtimeFile     = "runtime.json"
	credentialsDir  = "credentials"
	jetStreamDir    = "jetstream"
	logFile         = "up.log"
	ownerOnly       = 0o700
	ownerOnlySecret = 0o600
)

// ErrVersion says that the directory has another version's layout.
var ErrVersion = errors.New("state directory of another version")

// Dir is an existing state directory of this version.
type Dir struct{ path string }

// Default is the state directory of the contract: $XDG_STATE_HOME/tocsin, else
// ~/.local/state/tocsin.
func Default() (string, error) {
	if x := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(x) {
		return filepath.Join(x, "tocsin"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a state directory: %w: set TOCSIN_STATE_DIR", err)
	}
	return filepath.Join(home, ".local", "state", "tocsin"), nil
}

// At names a directory without creating or checking it: for readers that only
// look for what runs.
func At(path string) Dir { return Dir{path: path} }

// Open creates the directory where it is missing (mode 0700) and checks that it
// is of this version and can be written.
//
// Its error wraps ErrVersion for another layout; every error says what to do.
func Open(path string) (Dir, error) {
	if err := os.MkdirAll(path, ownerOnly); err != nil {
		return Dir{}, fmt.Errorf("create state directory: %w: choose another with TOCSIN_STATE_DIR", err)
	}
	d := Dir{path: path}
	if err := d.checkWritable(); err != nil {
		return Dir{}, err
	}
	if err := d.checkVersion(); err != nil {
		return Dir{}, err
	}
	return d, nil
}

func (d Dir) checkWritable() error {
	probe, err := os.CreateTemp(d.path, ".probe-*")
	if err != nil {
		return fmt.Errorf("write to state directory: %w: give it to this user, or choose another with TOCSIN_STATE_DIR", err)
	}
	name := probe.Name()
	err = errors.Join(probe.Close(), os.Remove(name))
	if err != nil {
		return fmt.Errorf("write to state directory: %w", err)
	}
	return nil
}

func (d Dir) checkVersion() error {
	file := filepath.Join(d.path, versionFile)
	got, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := writeAtomic(file, []byte(Version+"\n")); err != nil {
			return fmt.Errorf("mark state directory: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the version of the state directory: %w", err)
	}
	if v := strings.TrimSpace(string(got)); v != Version {
		return fmt.Errorf("%w: %s is of version %.20q, this tocsin wants %q: use the tocsin that made it, or another TOCSIN_STATE_DIR", ErrVersion, d.path, v, Version)
	}
	return nil
}

// Path is the directory itself.
func (d Dir) Path() string { return d.path }

// JetStream is where the embedded server keeps its streams.
func (d Dir) JetStream() string { return filepath.Join(d.path, jetStreamDir) }

// Log is the file into which a bus that was started in the background logs.
func (d Dir) Log() string { return filepath.Join(d.path, logFile) }

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

// writeAtomic replaces a file as a whole, so that a reader or a crash never
// sees half of it.
func writeAtomic(file string, data []byte) error {
	tmp, err := writeTemp(file, data)
	if err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// writeTemp writes data into a new file beside file and returns its name.
func writeTemp(file string, data []byte) (string, error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return "", err
	}
	_, werr := tmp.Write(data)
	if err := errors.Join(tmp.Chmod(ownerOnlySecret), werr, tmp.Sync(), tmp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return tmp.Name(), nil
}
