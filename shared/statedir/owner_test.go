package statedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExposure(t *testing.T) {
	const self, other = 1000, 0
	for _, c := range []struct {
		name    string
		mode    fs.FileMode
		owner   int
		warning string
		refused bool
	}{
		{name: "ours", mode: 0o700, owner: self},
		{name: "ours, others can read", mode: 0o755, owner: self},
		{name: "ours, the group can write", mode: 0o770, owner: self, warning: "others can write"},
		{name: "ours, everybody can write", mode: 0o777, owner: self, warning: "others can write"},
		{name: "another user's", mode: 0o755, owner: other},
		{name: "another user's, the group can write, as by fsGroup", mode: fs.ModeSetgid | 0o775, owner: other, warning: "group"},
		{name: "another user's, everybody can write", mode: 0o777, owner: other, refused: true},
		{name: "another user's, everybody but the group can write", mode: 0o707, owner: other, refused: true},
		{name: "as /tmp is", mode: fs.ModeSticky | 0o777, owner: other, refused: true},
	} {
		warning, err := exposure("/state", c.mode, c.owner, self)
		if got := errors.Is(err, ErrExposed); got != c.refused {
			t.Errorf("%s: %v, want refused = %t", c.name, err, c.refused)
		}
		if (warning == "") != (c.warning == "") || !strings.Contains(warning, c.warning) {
			t.Errorf("%s: warning %q, want %q", c.name, warning, c.warning)
		}
	}
}

func TestRestrict(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []fs.FileMode{0o700, 0o755, 0o770, 0o777} {
		if err := os.Chmod(d.path, mode); err != nil {
			t.Fatal(err)
		}
		if err := d.Restrict(); err != nil {
			t.Errorf("Restrict of %04o = %v, want nil", mode, err)
		}
		info, err := os.Stat(d.path)
		if err != nil || info.Mode().Perm() != dirMode {
			t.Errorf("%04o: left at %v, %v; want %04o", mode, info.Mode(), err, dirMode)
		}
	}
}

// TestAnExposedDirectoryIsRefused needs another user, which root can make one the
// directory's owner.
func TestAnExposedDirectoryIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: a directory can't be given to another user")
	}
	path := t.TempDir()
	if err := errors.Join(os.Chmod(path, 0o777), os.Chown(path, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrExposed) || !strings.Contains(err.Error(), "TOCSIN_STATE_DIR") {
		t.Errorf("open: %v, want ErrExposed", err)
	}
	if err := Inspect(path); !errors.Is(err, ErrExposed) {
		t.Errorf("inspect: %v, want ErrExposed", err)
	}
	if entries, err := os.ReadDir(path); err != nil || len(entries) != 0 {
		t.Errorf("entries = %v, %v, want none", entries, err)
	}
	if err := os.Chmod(path, 0o775); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatalf("Open of one that its group can write = %v, want nil", err)
	}
	if err := d.Restrict(); err != nil {
		t.Errorf("Restrict of another user's = %v, want nil", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o775 {
		t.Errorf("another user's: left at %v, %v; want it as it was", info.Mode(), err)
	}
}
