package config

import (
	"context"
	"os"
	"time"
)

// How often the file is looked at, and how long it has to stay unchanged.
const (
	watchInterval = time.Second
	watchDebounce = time.Second
)

// Watch calls reload when the file changed since it was loaded, which [Config.File] says, and then
// stayed as it is for a second, and for each signal of hangup, until ctx ends. It looks at the
// file's name, so it sees a file that was replaced by another, and the links of Kubernetes. It reads
// nothing: reload loads the file, and keeps the last good configuration when that fails.
func Watch(ctx context.Context, path string, loaded os.FileInfo, hangup <-chan os.Signal, reload func()) {
	stat := func() (os.FileInfo, error) { return os.Stat(path) }
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	last, since := loaded, time.Now()
	for {
		force := false
		select {
		case <-ctx.Done():
			return
		case _, open := <-hangup:
			if !open {
				hangup = nil
				continue
			}
			force = true
		case <-tick.C:
		}
		now, err := stat()
		if err != nil {
			now = nil
		}
		if !same(now, last) {
			last, since = now, time.Now()
		}
		changed := !same(last, loaded) && time.Since(since) >= watchDebounce
		if force || changed {
			loaded = last
			reload()
		}
	}
}

// same reports whether two looks saw the same file.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
