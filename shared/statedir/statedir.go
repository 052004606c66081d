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
// is of this version, can be written, and is not exposed to others.
//
// Its error wraps ErrVersion for another layout and ErrExposed for a directory that
// others could change; every error says what to do.
func Open(path string) (Dir, error) {
	if err := os.MkdirAll(path, ownerOnly); err != nil {
		return Dir{}, fmt.Errorf("create state directory: %w: choose another with TOCSIN_STATE_DIR", err)
	}
	if _, err := Exposure(path); err != nil {
		return Dir{}, err
	}
	d := Dir{path: path}
	if err := d.checkWritable(); err != nil {
		return Dir{}, err
	}
	marked, err := d.checkVersion()
	if err == nil && !marked {
		err = d.mark()
	}
	if err != nil {
		return Dir{}, err
	}
	return d, nil
}

// Inspect says what is wrong with a state directory, as Open does, and makes
// nothing. Its error wraps fs.ErrNotExist where there is none yet.
func Inspect(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at state directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no directory: choose another with TOCSIN_STATE_DIR", path)
	}
	if _, err := Exposure(path); err != nil {
		return err
	}
	d := Dir{path: path}
	if _, err := d.checkVersion(); err != nil {
		return err
	}
	return d.checkWritable()
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

// checkVersion says whether the directory is marked with this version.
func (d Dir) checkVersion() (marked bool, err error) {
	got, err := os.ReadFile(filepath.Join(d.path, versionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the version of the state directory: %w", err)
	}
	if v := strings.TrimSpace(string(got)); v != Version {
		return false, fmt.Errorf("%w: %s is of version %.20q, this tocsin wants %q: use the tocsin that made it, or another TOCSIN_STATE_DIR", ErrVersion, d.path, v, Version)
	}
	return true, nil
}

func (d Dir) mark() error {
	if err := writeAtomic(filepath.Join(d.path, versionFile), []byte(Version+"\n")); err != nil {
		return fmt.Errorf("mark state directory: %w", err)
	}
	return nil
}

// Path is the directory itself.
func (d Dir) Path() string { return d.path }

// JetStream is where the embedded server keeps its streams.
func (d Dir) JetStream() string { return filepath.Join(d.path, jetStreamDir) }

// Log is the file into which a bus that was started in the background logs.
func (d Dir) Log() string { return filepath.Join(d.path, logFile) }

// writeAtomic replaces a file as a whole, so that a reader or a crash never
// sees half of it.
func writeAtomic(file string, data []byte) error {
	tmp, err := writeTemp(file, data)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, file); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
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
