package setup

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) (string, fs.FileMode) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data), info.Mode()
}

// TestWrite checks that each change has its own backup, and that the file and the backup keep the
// mode.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	write(t, path, "1", 0o640)
	for i, to := range []string{"2", "3"} {
		before, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		backup, err := Change{File: File{Path: path}, Before: before, After: []byte(to)}.Write()
		if err != nil || backup != backupName(path, i+1) {
			t.Fatalf("Write = %s, %v, want the backup %s", backup, err, backupName(path, i+1))
		}
		if kept, mode := read(t, backup); kept != string(before) || mode != 0o640 {
			t.Errorf("backup = %q with mode %v, want %q with 0640", kept, mode, before)
		}
		if now, mode := read(t, path); now != to || mode != 0o640 {
			t.Errorf("file = %q with mode %v, want %q with 0640", now, mode, to)
		}
	}
	if b := Backups(path); len(b) != 2 || string(b[0]) != "2" || string(b[1]) != "1" {
		t.Errorf("Backups = %q, want 2 and 1", b)
	}
	if err := os.Remove(backupName(path, 1)); err != nil {
		t.Fatal(err)
	}
	if backup, err := (Change{File: File{Path: path}, Before: []byte("3"), After: []byte("4")}).Write(); backup != backupName(path, 3) {
		t.Errorf("Write after a removed backup = %s, %v, want the backup %s", backup, err, backupName(path, 3))
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 3 {
		t.Errorf("files = %v, %v, want 3", entries, err)
	}
}

// TestWriteNew checks that directories are created, that a user's file is private, and that a new
// file has no backup. Its removal removes the directory, too.
func TestWriteNew(t *testing.T) {
	for _, tt := range []struct {
		private   bool
		mode, dir fs.FileMode
	}{{false, 0o644, 0o755}, {true, 0o600, 0o700}} {
		path := filepath.Join(t.TempDir(), "dir", "a.json")
		backup, err := Change{File: File{Path: path}, After: []byte("x"), Private: tt.private}.Write()
		if err != nil || backup != "" {
			t.Fatalf("Write = %q, %v, want no backup", backup, err)
		}
		if _, mode := read(t, path); mode != tt.mode {
			t.Errorf("mode of the file = %v, want %v", mode, tt.mode)
		}
		if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != tt.dir {
			t.Errorf("mode of the directory = %v, %v, want %v", info.Mode(), err, tt.dir)
		}
		if backup, err = (Change{File: File{Path: path}, Before: []byte("x"), NoBackup: true}).Write(); err != nil || backup != "" {
			t.Errorf("Write of a removal = %q, %v, want no backup", backup, err)
		}
		if _, err := os.Stat(filepath.Dir(path)); err == nil && marks(t) {
			t.Error("the directory exists after the removal, want it removed")
		}
	}
}

// marks reports whether directories can be marked here.
func marks(t *testing.T) bool {
	t.Helper()
	err := unix.Setxattr(t.TempDir(), createdAttr, []byte("1"), 0)
	return err == nil
}

// TestRemoveKeepsTheUsersFiles checks that a directory that existed before stays, and so do links
// to the directory or to the file.
func TestRemoveKeepsTheUsersFiles(t *testing.T) {
	for _, name := range []string{"own", "link", "file"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, kept := filepath.Join(dir, "own", "a.json"), filepath.Join(dir, name)
			write(t, filepath.Join(dir, "own", "other"), "", 0o600)
			switch name {
			case "link":
				path = filepath.Join(dir, "link", "a.json")
				if err := os.Symlink("own", kept); err != nil {
					t.Fatal(err)
				}
			case "file":
				path = kept
				write(t, filepath.Join(dir, "own", "a.json"), "{}", 0o600)
				if err := os.Symlink(filepath.Join("own", "a.json"), kept); err != nil {
					t.Fatal(err)
				}
			}
			file := File{Path: path, format: jsonFormat{}}
			before, err := Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := (Change{File: file, Before: before, After: []byte("x")}).Write(); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, "own", "other")); err != nil {
				t.Fatal(err)
			}
			if _, err := (Change{File: file, Before: []byte("x"), NoBackup: true}).Write(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(kept); err != nil {
				t.Errorf("Stat(%s) = %v, want it kept", kept, err)
			}
			if now, err := Read(path); err != nil || name == "file" != (string(now) == "{}\n") {
				t.Errorf("Read(%s) after the removal = %q, %v, want {} only behind a link to a file", path, now, err)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	dir := t.TempDir()
	project := filepath.Join(dir, "p")
	write(t, filepath.Join(project, "sub", "a.json"), "{}", 0o600)
	write(t, filepath.Join(dir, "home", ".claude.json"), "{}", 0o600)
	for link, to := range map[string]string{
		"in.json": "sub/a.json", "out.json": "../home/.claude.json", "outdir": "../home", "indir": "sub",
	} {
		if err := os.Symlink(to, filepath.Join(project, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, ok := range map[string]bool{
		"sub/a.json": true, "none/none.json": true, "in.json": true, "indir/new.json": true,
		"out.json": false, "outdir/new.json": false, "outdir/more/new.json": false,
	} {
		err := CheckInside(project, filepath.Join(project, path))
		if ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "--scope user") {
			t.Errorf("CheckInside(%s) = %v, want allowed = %t", path, err, ok)
		}
	}
}

// TestReadOnly checks that a file that its owner made read-only is not replaced.
func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	write(t, path, "1", 0o444)
	_, err := Change{File: File{Path: path}, Before: []byte("1"), After: []byte("2")}.Write()
	if now, _ := read(t, path); err == nil || !strings.Contains(err.Error(), "read-only") || now != "1" {
		t.Errorf("Write = %v, file %q, want an error about read-only, and 1", err, now)
	}
}

// TestWriteThroughLinks checks that the target of a link is changed, and that a link to nothing
// is refused.
func TestWriteThroughLinks(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "dotfiles", "a.json"), filepath.Join(dir, "a.json")
	write(t, target, "1", 0o600)
	if err := os.Symlink(filepath.Join("dotfiles", "a.json"), link); err != nil {
		t.Fatal(err)
	}
	backup, err := Change{File: File{Path: link}, Before: []byte("1"), After: []byte("2")}.Write()
	if err != nil || backup != backupName(link, 1) {
		t.Fatalf("Write = %s, %v, want the backup %s", backup, err, backupName(link, 1))
	}
	if now, _ := read(t, target); now != "2" {
		t.Errorf("target of the link = %q, want 2", now)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("Lstat of the link = %v, %v, want a symbolic link", info, err)
	}
	if err := os.Remove(target); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(link); err == nil || !strings.Contains(err.Error(), "a symbolic link to a missing file") {
		t.Errorf("Read of a link to nothing = %v, want an error about a missing file", err)
	}
}

// TestWriteRefuses checks that a file that changed meanwhile is refused, as is a directory.
func TestWriteRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	write(t, path, "2", 0o600)
	for _, before := range [][]byte{[]byte("1"), nil} {
		if backup, err := (Change{File: File{Path: path}, Before: before, After: []byte("3")}).Write(); err == nil || backup != "" {
			t.Errorf("Write over a changed file = %s, %v, want an error without a backup", backup, err)
		}
	}
	if now, _ := read(t, path); now != "2" {
		t.Errorf("file = %q, want 2", now)
	}
	loop := filepath.Join(filepath.Dir(path), "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(loop); err == nil || !strings.Contains(err.Error(), "links lead in a circle") {
		t.Errorf("Read of a circular link = %v, want an error about the circle", err)
	}
	if _, err := Read(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("Read of a directory = %v, want is not a file", err)
	}
}

func TestDiff(t *testing.T) {
	c := Change{File: File{Path: "/p/a"}, Before: []byte("1\n2\n"), After: []byte("1\n3\n")}
	if got, want := c.Diff(), "--- /p/a\n+++ /p/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+3\n"; got != want {
		t.Errorf("Diff = %q, want %q", got, want)
	}
	c.After = nil
	if got := c.Diff(); !strings.HasPrefix(got, "--- /p/a\n+++ /dev/null\n") {
		t.Errorf("Diff of a removal = %q, want one to /dev/null", got)
	}
}
