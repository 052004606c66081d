package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// How much disk has to be free, in bytes, until a bus whose store failed is started
// again: an eighth of its store, and at least and at most so much. A fixed amount could
// be more than a small disk has.
const (
	roomShare = 8
	minRoom   = 1 << 20
	maxRoom   = 64 << 20
)

// roomFor returns how much has to be free for a store of that size.
func roomFor(store int64) uint64 {
	return uint64(min(max(store/roomShare, minRoom), maxRoom))
}

// hasRoom reports whether a store in dir, with the streams in store, can be written
// again: enough is free, and a file of the least size really gets there, because a
// quota or a failing disk leaves much free and takes nothing.
func hasRoom(dir, store string) error {
	free, err := freeBytes(dir)
	if err != nil {
		return err
	}
	if need := roomFor(treeSize(store)); free < need {
		return fmt.Errorf("%d KiB are free on the disk of %s, %d KiB are needed", free>>10, dir, need>>10)
	}
	return tryWrite(dir, minRoom)
}

// treeSize returns the bytes of the files under dir; what can't be read counts as
// nothing.
func treeSize(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // files come and go
		}
		if info, err := entry.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}

// tryWrite writes a file of that size through to the disk of dir. It has no name while
// it is written, so nothing is left of it whatever happens.
func tryWrite(dir string, size int) (err error) {
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	if _, err := f.Write(make([]byte, size)); err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write to %s: %w", dir, err)
	}
	return nil
}

// freeBytes is how much room there is for us on the disk that holds path.
func freeBytes(path string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, fmt.Errorf("look at the disk of %s: %w", path, err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
