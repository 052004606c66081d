package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// madeMark is the extended attribute of a directory that was made to hold a
// client's files. Where a file system has none of these, such a directory stays.
const madeMark = "user.tocsin.made"

// makeDir makes a directory and those above it, and notes that it did.
func makeDir(dir string, mode fs.FileMode) error {
	_, err := os.Lstat(dir)
	missing := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	if missing {
		_ = unix.Setxattr(dir, madeMark, []byte("1"), 0) // only a directory more is left behind
	}
	return nil
}

// unmakeDir removes a directory that makeDir made and that holds nothing. A link
// to one, and one that was there before, is the user's.
func unmakeDir(dir string) {
	if isLink(dir) {
		return
	}
	if _, err := unix.Getxattr(dir, madeMark, nil); err == nil {
		_ = os.Remove(dir) // one that holds something stays
	}
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// Within says why a file may not be taken for one of the directory: links lead
// out of it, to what is somebody else's or the user's for all projects.
func Within(dir, path string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("find the project directory: %w", err)
	}
	// What is not there yet will lie where the nearest directory above it is.
	for at := path; ; at = filepath.Dir(at) {
		target, err := filepath.EvalSymlinks(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !isLink(at) && at != filepath.Dir(at):
			continue
		case err != nil:
			return nil //nolint:nilerr // whoever reads it says what is wrong with it
		}
		rel, err := filepath.Rel(real, target)
		if err == nil && filepath.IsLocal(rel) {
			return nil
		}
		return fmt.Errorf("%s is a symbolic link, or inside one, that points out of the project, to %s: use --scope user for the user's own files, or replace the link by a file of the project", path, target)
	}
}
