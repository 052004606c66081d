package statedir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/statedir"
)

func open(t *testing.T) statedir.Dir {
	t.Helper()
	d, err := statedir.Open(filepath.Join(t.TempDir(), "new", "state"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLockIsExclusiveAndNamesTheHolder(t *testing.T) {
	d := open(t)
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Running(); !errors.Is(err, statedir.ErrNotRunning) {
		t.Fatalf("Running before Announce = %v, want ErrNotRunning", err)
	}
	want := statedir.Runtime{PID: 4711, Version: "v1", NATSURL: "nats://127.0.0.1:1", IngestURL: "http://127.0.0.1:2"}
	if err := lock.Announce(want); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(d.Path(), "runtime.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("runtime.json: mode = %v, %v, want 0600", info.Mode(), err)
	}
	got, err := d.Running()
	if err != nil || got != want {
		t.Fatalf("Running = %+v, %v, want %+v", got, err, want)
	}
	_, err = d.Lock()
	var running *statedir.RunningError
	if !errors.As(err, &running) || running.PID != 4711 || !strings.Contains(err.Error(), "4711") {
		t.Fatalf("second Lock = %v, want a RunningError with pid 4711", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Running(); !errors.Is(err, statedir.ErrNotRunning) {
		t.Fatalf("Running after Release = %v, want ErrNotRunning", err)
	}
	again, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatADeadProcessLeftIsNoBus(t *testing.T) {
	d := open(t)
	left := `{"pid":1,"nats_url":"nats://127.0.0.1:1"}`
	if err := os.WriteFile(filepath.Join(d.Path(), "runtime.json"), []byte(left), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Running(); !errors.Is(err, statedir.ErrNotRunning) {
		t.Fatalf("Running = %v, want ErrNotRunning", err)
	}
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestAnotherVersionIsRefused(t *testing.T) {
	d := open(t)
	if err := os.WriteFile(filepath.Join(d.Path(), "VERSION"), []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := statedir.Open(d.Path())
	if !errors.Is(err, statedir.ErrVersion) || !strings.Contains(err.Error(), "TOCSIN_STATE_DIR") {
		t.Fatalf("Open = %v, want ErrVersion with TOCSIN_STATE_DIR", err)
	}
}

func TestAFileInTheWayIsAClearError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := statedir.Open(path)
	if err == nil || !strings.Contains(err.Error(), "TOCSIN_STATE_DIR") {
		t.Fatalf("Open of a file = %v, want an error with TOCSIN_STATE_DIR", err)
	}
}

func TestTheFirstCredentialStays(t *testing.T) {
	d := open(t)
	if err := d.CreateCredential("gateway", []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := d.CreateCredential("gateway", []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("second CreateCredential = %v, want ErrExist", err)
	}
	got, err := os.ReadFile(d.Credential("gateway"))
	if err != nil || string(got) != "first" {
		t.Fatalf("credential = %s, %v, want first", got, err)
	}
	entries, err := os.ReadDir(filepath.Dir(d.Credential("gateway")))
	if err != nil || len(entries) != 1 {
		t.Fatalf("entries = %v, %v, want one", entries, err)
	}
}

// TestHolderWithoutRuntimeJSON checks that errors name the holder of the lock before it has written
// runtime.json, and when that file is damaged.
func TestHolderWithoutRuntimeJSON(t *testing.T) {
	d := open(t)
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d.Path(), "runtime.json")
	for _, content := range []string{"", "garbage", `{"pid":`, "null", "{}"} {
		if content != "" {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := d.Running()
			if err == nil || errors.Is(err, statedir.ErrNotRunning) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", os.Getpid())) || !strings.Contains(err.Error(), file) {
				t.Errorf("runtime.json with %s: Running = %v, want an error with pid %d and the file", content, err, os.Getpid())
			}
		}
		_, err := d.Lock()
		var running *statedir.RunningError
		if !errors.As(err, &running) || running.PID != os.Getpid() {
			t.Errorf("runtime.json with %q: second Lock = %v, want a RunningError with pid %d", content, err, os.Getpid())
		}
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Running(); !errors.Is(err, statedir.ErrNotRunning) {
		t.Errorf("Running with the garbage of a dead process = %v, want ErrNotRunning", err)
	}
}

func TestInspectCreatesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	if err := statedir.Inspect(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Inspect of a missing directory = %v, want ErrNotExist", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat after Inspect = %v, want ErrNotExist", err)
	}
	empty := t.TempDir()
	if err := statedir.Inspect(empty); err != nil {
		t.Errorf("Inspect of an empty directory = %v, want nil", err)
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) != 0 {
		t.Errorf("entries after Inspect = %v, %v, want none", entries, err)
	}
	d := open(t)
	if err := statedir.Inspect(d.Path()); err != nil {
		t.Errorf("Inspect = %v, want nil", err)
	}
	if err := os.WriteFile(filepath.Join(d.Path(), "VERSION"), []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := statedir.Inspect(d.Path()); !errors.Is(err, statedir.ErrVersion) {
		t.Errorf("Inspect of another version = %v, want ErrVersion", err)
	}
	if err := statedir.Inspect(filepath.Join(d.Path(), "VERSION")); err == nil || !strings.Contains(err.Error(), "no directory") {
		t.Errorf("Inspect of a file = %v, want no directory", err)
	}
}

func TestExposedCredentialsAreRestricted(t *testing.T) {
	d := open(t)
	if _, _, err := d.ReadCredential("gateway"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("ReadCredential before the first = %v, want ErrNotExist", err)
	}
	if err := d.CreateCredential("gateway", []byte("secret")); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o604, 0o602, 0o400, 0o777} {
		if err := os.Chmod(d.Credential("gateway"), mode); err != nil {
			t.Fatal(err)
		}
		secret, restricted, err := d.ReadCredential("gateway")
		if err != nil || string(secret) != "secret" || restricted != (mode&0o077 != 0) {
			t.Errorf("ReadCredential with mode %o = %s, %t, %v, want secret, restricted = %t", mode, secret, restricted, err, mode&0o077 != 0)
		}
		info, err := os.Stat(d.Credential("gateway"))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("mode %o after ReadCredential = %o, %v, want it for the owner alone", mode, info.Mode().Perm(), err)
		}
	}
}

func TestADirectoryThatWasRemovedIsReleased(t *testing.T) {
	d := open(t)
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(d.Path()); err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
}

// TestAnAnnouncementThatFailsLeavesNothing checks that tries to write runtime.json,
// which come once a second, do not fill the directory where they fail.
func TestAnAnnouncementThatFailsLeavesNothing(t *testing.T) {
	d := open(t)
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.Path(), "runtime.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Announce(statedir.Runtime{PID: os.Getpid()}); err == nil {
		t.Error("Announce with a directory in the way = nil, want an error")
	}
	if after, err := os.ReadDir(d.Path()); err != nil || len(after) != len(before) {
		t.Errorf("got %v, %v, want no more than %v", after, err, before)
	}
}

// TestALostAnnouncementIsRestored checks that the holder writes the file again after any
// damage, and that meanwhile no error advises to start another bus.
func TestALostAnnouncementIsRestored(t *testing.T) {
	d := open(t)
	lock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(d.Path(), "runtime.json")
	want := statedir.Runtime{PID: os.Getpid(), NATSURL: "nats://127.0.0.1:1"}
	if err := lock.Announce(want); err != nil {
		t.Fatal(err)
	}
	if restored, err := lock.Restore(want); restored || err != nil {
		t.Errorf("untouched: got %t, %v, want nothing written", restored, err)
	}
	for name, harm := range map[string]func() error{
		"removed":      func() error { return os.Remove(file) },
		"emptied":      func() error { return os.Truncate(file, 0) },
		"garbled":      func() error { return os.WriteFile(file, []byte("\x00garbage"), 0o600) },
		"another's":    func() error { return os.WriteFile(file, []byte(`{"pid":1}`), 0o600) },
		"cut":          func() error { return os.Truncate(file, 9) },
		"a dead link":  func() error { return errors.Join(os.Remove(file), os.Symlink("nowhere", file)) },
		"not readable": func() error { return os.Chmod(file, 0) },
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if name == "removed" {
			_, err := d.Running()
			var silent *statedir.UnannouncedError
			if !errors.As(err, &silent) || silent.PID != os.Getpid() || !errors.Is(err, statedir.ErrNotRunning) || strings.Contains(err.Error(), "no bus") {
				t.Errorf("removed: running: got %v, want that pid %d has not announced itself", err, os.Getpid())
			}
		}
		if restored, err := lock.Restore(want); name != "not readable" && !restored || err != nil {
			t.Errorf("%s: got %t, %v, want it written", name, restored, err)
		}
		if got, err := d.Running(); err != nil || got != want {
			t.Errorf("%s: running: got %+v, %v, want %+v", name, got, err, want)
		}
	}

	// A directory that was removed and created again belongs to the new holder of the lock.
	if err := os.RemoveAll(d.Path()); err != nil {
		t.Fatal(err)
	}
	if restored, err := lock.Restore(want); restored || err == nil {
		t.Errorf("without the directory: got %t, %v, want an error", restored, err)
	}
	again, err := statedir.Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	other, err := again.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if restored, err := lock.Restore(want); restored || err == nil {
		t.Errorf("in another's directory: got %t, %v, want an error", restored, err)
	}
	if err := errors.Join(other.Release(), lock.Release()); err != nil {
		t.Fatal(err)
	}
}
