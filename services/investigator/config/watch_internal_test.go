package config

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "one")
	loaded, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var reloads atomic.Int64
		done := make(chan struct{})
		hangup := make(chan os.Signal)
		go func() {
			defer close(done)
			Watch(ctx, path, loaded, hangup, func() { reloads.Add(1) })
		}()
		check := func(after time.Duration, want int64, what string) {
			t.Helper()
			time.Sleep(after) // of the test's clock
			synctest.Wait()
			if got := reloads.Load(); got != want {
				t.Errorf("%s: got %d reloads, want %d", what, got, want)
			}
		}
		check(10*time.Second, 0, "no change")
		write(path, "two two")
		check(1500*time.Millisecond, 0, "just changed")
		check(2*time.Second, 1, "changed")
		write(path+".new", "three")
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		check(3*time.Second, 2, "replaced")
		link := path + ".link"
		write(path+".target", "four, through a link")
		if err := os.Symlink(path+".target", link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, path); err != nil {
			t.Fatal(err)
		}
		check(3*time.Second, 3, "a link instead")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		check(5*time.Second, 4, "removed")
		hangup <- nil
		check(0, 5, "signal")
		close(hangup)
		check(5*time.Second, 5, "no more signals")
		cancel()
		<-done
	})
}

// A file that changed between its loading and the first look is loaded again.
func TestWatchSeesAnEarlyChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	write := func(text string) os.FileInfo {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	loaded := write("one")
	write("two two")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var reloads atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			Watch(ctx, path, loaded, nil, func() { reloads.Add(1) })
		}()
		time.Sleep(10 * time.Second) // of the test's clock
		synctest.Wait()
		if got := reloads.Load(); got != 1 {
			t.Errorf("got %d reloads, want 1", got)
		}
		cancel()
		<-done
	})
}
