package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The free space, in bytes, that is required to restart a bus whose store failed: an eighth
// of the size of its store, within bounds. A fixed amount could be more than a small disk has.
const (
	freeSpaceShare = 8
	minFreeSpace   = 1 << 20
	maxFreeSpace   = 64 << 20
)

// requiredSpace returns the required free space for a store of that size.
func requiredSpace(store int64) uint64 {
	return uint64(min(max(store/freeSpaceShare, minFreeSpace), maxFreeSpace))
}

// checkSpace returns nil if a store in dir, with the streams in store, can be written again:
// enough space is free, and a test file can be written, because with a quota or a failing
// disk writes fail although space is free.
func checkSpace(dir, store string) error {
	free, err := freeBytes(dir)
	if err != nil {
		return err
	}
	if need := requiredSpace(treeSize(store)); free < need {
		return fmt.Errorf("%d KiB are free on the disk of %s, %d KiB are needed", free>>10, dir, need>>10)
	}
	return tryWrite(dir, minFreeSpace)
}

// treeSize returns the total size of the files under dir that can be read.
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

// tryWrite writes and syncs a file of that size in dir. The file has no name while it is
// written, so nothing is left of it.
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

// freeBytes returns the space that is free for this user on the disk of path.
func freeBytes(path string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return 0, fmt.Errorf("read the free space of the disk of %s: %w", path, err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
