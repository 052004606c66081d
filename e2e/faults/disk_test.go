//go:build linux

package faults

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestFullDisk fills the disk under the bus: writes are refused with the reason, which
// doctor and the agent show as well, nothing that was accepted is lost or repeated, and
// the store works again once there is some space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size string
		// left is how much is free before events arrive, 0 for the whole disk.
		left int64
		room func(dir string) error
	}{
		"a larger disk": {"24m", 0, func(dir string) error {
			return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=256m")
		}},
		"34 of 40 MB":   {"40m", 6 << 20, func(dir string) error { return os.Remove(filler(dir)) }},
		"2 MB of 40 MB": {"40m", 6 << 20, func(dir string) error { return shorten(filler(dir), 2<<20) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fullDisk(t, c.size, c.left, c.room)
		})
	}
}

// filler returns the file that takes up the space.
func filler(dir string) string { return filepath.Join(dir, "filler") }

func shorten(file string, by int64) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return os.Truncate(file, info.Size()-by)
}

// fill leaves so many bytes of the disk of dir free.
func fill(t *testing.T, dir string, left int64) {
	t.Helper()
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	size := int64(disk.Bavail)*disk.Bsize - left
	if err := os.WriteFile(filler(dir), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
}

func fullDisk(t *testing.T, size string, left int64, makeRoom func(dir string) error) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small disk can't be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b, err := harness.Up(t.Context(), e2etest.Binary(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop tocsin up: %v\n%s", err, b.Log)
		}
		e2etest.CheckLog(t, b.Log)
	})
	sys := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "before")}
	heard := func(says string) {
		t.Helper()
		for tool, args := range map[string]map[string]any{"observe": {"what": "status"}, "configure": {"action": "health"}} {
			var output string
			if !harness.Poll(t.Context(), 20*time.Second, func() bool {
				blocks, err := sys.Agent.Call(t.Context(), tool, args)
				if err != nil || len(blocks) == 0 {
					return false
				}
				output = blocks[0]
				return strings.Contains(output, says)
			}) {
				t.Errorf("%s: got %s, want %s in it", tool, output, says)
			}
		}
	}
	heard(`"intake":{"ok":true}`)
	if left > 0 {
		fill(t, dir, left)
	}
	large := map[string]any{"kind": "log", "log": map[string]any{"level": "info", "message": strings.Repeat("x", 10_000)}}
	batch := make([]map[string]any, 50)
	for i := range batch {
		batch[i] = large
	}
	accepted, maybe := map[string]bool{}, map[string]bool{}
	full := harness.Answer{}
	for i := range 100 {
		path, body := crashPost(i)
		if a := sys.Post(t, path, body); a.Status == 200 {
			accepted[e2etest.UniqueWord(i)] = true
		} else {
			maybe[e2etest.UniqueWord(i)] = true
		}
		if a := sys.Post(t, "/v1/events", batch); a.Status != 200 {
			full = a
		}
		if strings.Contains(full.Body, "no space left on device") {
			break
		}
	}
	if full.Status != 503 || !strings.Contains(full.Body, "no space left on device") || full.Header.Get("Retry-After") == "" {
		t.Fatalf("got %d %s, want Status 503, \"no space left on device\" in Body and a Get", full.Status, full.Body)
	}
	if a := e2etest.Get(t, b.IngestURL+"/readyz"); a.Status != 503 || !strings.Contains(a.Body, "no space left on device") {
		t.Errorf("readyz: %d %s, want Status 503 and \"no space left on device\" in Body", a.Status, a.Body)
	}
	if code, stdout, _ := e2etest.Tocsin(t, dir, "doctor"); code != 1 || !strings.Contains(stdout, "free space on the disk of "+dir) || !strings.Contains(stdout, "no space left on device") {
		t.Errorf("doctor: exit %d, want 1, %q in stdout and \"no space left on device\" in stdout\n%s", code, "free space on the disk of "+dir, stdout)
	}
	heard(`"intake":{"ok":false,"reason":"`)
	heard("no space left on device")

	started := time.Now()
	if err := makeRoom(dir); err != nil {
		t.Fatal(err)
	}
	if !harness.Poll(t.Context(), 30*time.Second, func() bool {
		a, err := b.Post(t.Context(), "/v1/events", large) // where it was, although its port was left open
		return err == nil && a.Status == 200
	}) {
		t.Fatalf("a post after there was room: not accepted within 30 s, want status 200\n%s", b.Log)
	}
	t.Logf("the bus was back after %s", time.Since(started).Round(time.Millisecond))
	sys.WaitReady(t)
	var after statedir.Runtime
	if !harness.Poll(t.Context(), 10*time.Second, func() bool {
		r, err := statedir.At(dir).Running()
		after = r
		return err == nil
	}) || after != b.Runtime {
		t.Errorf("got %+v, want the addresses of before, %+v", after, b.Runtime)
	}
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "after"})
	accepted["after"] = true
	heard(`"intake":{"ok":true}`)
	deliveredOnce(t, e2etest.Join(t, b, "after"), accepted, maybe)
}

// TestStateDirectoryOfAnotherVersion checks that it is refused and not changed.
func TestStateDirectoryOfAnotherVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/VERSION", []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := e2etest.Tocsin(t, dir, "up")
	if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "version") {
		t.Errorf("exit %d: %s, want 1, one line and \"version\" in it", code, stderr)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("got %v, %v, want 1 of them", left, err)
	}
}

// TestReadOnlyStateDirectory checks for one clear line, also as root.
func TestReadOnlyStateDirectory(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"up"}, {"doctor"}} {
		code, _, stderr := e2etest.Tocsin(t, t.TempDir(), append(args, "--state-dir="+file+"/below")...)
		if code != 1 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d: %s, want code 1 and one line", args, code, stderr)
		}
	}
}
