// Package statedir is the directory of one installation of Tocsin, with what must outlive its
// processes: the JetStream store, the credentials of the roles, and runtime.json with the
// addresses of what runs.
//
// It knows files and the lock on them, and nothing of their content.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Version is that of the layout. A directory of another version is refused, so that no version
// rewrites files that it can't read.
const Version = "1"

// Names inside the directory.
const (
	versionFile    = "VERSION"
	lockFile       = "lock"
	runtimeFile    = "runtime.json"
	credentialsDir = "credentials"
	jetStreamDir   = "jetstream"
	logFile        = "up.log"
	dirMode        = 0o700
	secretMode     = 0o600
)

// ErrVersion is returned for a directory with the layout of another version.
var ErrVersion = errors.New("state directory of another version")

// Dir is an existing state directory of this version.
type Dir struct{ path string }

// Default returns the default state directory: $XDG_STATE_HOME/tocsin, else
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

// At returns a directory without creating or checking it, for readers of runtime.json.
func At(path string) Dir { return Dir{path: path} }

// Open creates the directory where it is missing (mode 0700), and checks that it is of this
// version, writable, and not exposed to other users.
//
// The error wraps [ErrVersion] for another layout and [ErrExposed] for a directory that other
// users could change. Every error names the fix.
func Open(path string) (Dir, error) {
	if err := os.MkdirAll(path, dirMode); err != nil {
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

// Inspect returns what is wrong with a state directory, as [Open] does, and creates nothing. The
// error wraps [fs.ErrNotExist] where there is none yet.
func Inspect(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("check the state directory: %w", err)
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
		return fmt.Errorf("write to the state directory: %w: make this user its owner, or choose another with TOCSIN_STATE_DIR", err)
	}
	name := probe.Name()
	err = errors.Join(probe.Close(), os.Remove(name))
	if err != nil {
		return fmt.Errorf("write to state directory: %w", err)
	}
	return nil
}

// checkVersion reports whether the directory is marked with this version.
func (d Dir) checkVersion() (marked bool, err error) {
	got, err := os.ReadFile(filepath.Join(d.path, versionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the version of the state directory: %w", err)
	}
	if v := strings.TrimSpace(string(got)); v != Version {
		return false, fmt.Errorf("%w: %s is of version %.20q, this tocsin wants %q: use the version that created it, or another TOCSIN_STATE_DIR", ErrVersion, d.path, v, Version)
	}
	return true, nil
}

func (d Dir) mark() error {
	if err := writeAtomic(filepath.Join(d.path, versionFile), []byte(Version+"\n")); err != nil {
		return fmt.Errorf("mark state directory: %w", err)
	}
	return nil
}

// Path returns the path of the directory.
func (d Dir) Path() string { return d.path }

// JetStream returns the directory of the embedded server's streams.
func (d Dir) JetStream() string { return filepath.Join(d.path, jetStreamDir) }

// Log returns the log file of a bus that was started in the background.
func (d Dir) Log() string { return filepath.Join(d.path, logFile) }

// writeAtomic replaces a file as a whole: neither a reader nor a crash leaves half of it.
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
	if err := errors.Join(tmp.Chmod(secretMode), werr, tmp.Sync(), tmp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(tmp.Name()))
	}
	return tmp.Name(), nil
}
